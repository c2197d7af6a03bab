"""Whole agents: Acme learners, actors and builders, experiments and the command `sac-train`."""
