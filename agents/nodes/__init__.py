"""The nodes of a distributed program; `agents.experiments.make_distributed_experiment` connects them."""
