"""Experiments: an agent, an environment and a budget, run with Acme's own names and meaning."""

from agents.experiments.config import (
  CheckpointingConfig,
  DeprecatedPolicyFactory,
  EvaluatorFactory,
  ExperimentConfig,
  MakeActorFn,
  NetworkFactory,
  PolicyFactory,
  default_evaluator_factory,
  make_policy,
)
from agents.experiments.make_distributed_experiment import make_distributed_experiment
from agents.experiments.run_experiment import run_experiment

__all__ = [
  'CheckpointingConfig',
  'DeprecatedPolicyFactory',
  'EvaluatorFactory',
  'ExperimentConfig',
  'MakeActorFn',
  'NetworkFactory',
  'PolicyFactory',
  'default_evaluator_factory',
  'make_distributed_experiment',
  'make_policy',
  'run_experiment',
]
