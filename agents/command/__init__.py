"""The parts of the command `sac-train`; `agents.run` puts them together."""
