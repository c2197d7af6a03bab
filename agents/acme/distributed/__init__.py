"""Training in many processes or threads: a Launchpad program, its nodes, and its launch."""
