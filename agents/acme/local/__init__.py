"""Training in this process: environment, replay and learner, in step."""
