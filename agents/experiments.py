"""Experiments: an agent, an environment and a budget, run with Acme's own names and meaning."""

from agents.acme.distributed.make_distributed_experiment import make_distributed_experiment
from agents.acme.experiment import (
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
from agents.acme.local.run_experiment import run_experiment

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
