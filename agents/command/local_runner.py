"""Runs an agent in this process through Acme, with progress, logs, a learning curve and checkpoints."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Any

import dm_env
import jax

from agents import environments, experiments
from agents.command import loggers
from agents.command.metrics import Evaluation
from agents.command.registry import Agent
from agents.command.reporting import Report
from agents.command.settings import Settings
from agents.command.watching import WatchedBuilder

from acme import specs  # isort: skip


class LocalRunner:
  """A run that is ready to start; making it writes nothing.

  Args:
    settings: of the run; `config` holds every option of the agent.
    agent: what the settings name.
    environment: what the settings name, for its spec.

  Raises:
    ValueError: the agent doesn't fit the environment, or its replay limits could never be met.
  """

  def __init__(self, settings: Settings, agent: Agent, environment: dm_env.Environment):
    self._settings = settings
    self._builder = agent.make_builder(agent.config(**settings.config))
    self._network_factory = functools.partial(agent.make_networks, **settings.networks)
    self._spec = specs.make_environment_spec(environment)
    policy = self._builder.make_policy(self._network_factory(self._spec), self._spec)
    self._builder.make_replay_tables(self._spec, policy)

  @property
  def device(self) -> str:
    """What the learner runs on."""
    device = jax.devices()[0]
    return device.platform if device.platform == 'cpu' else f'{device.platform} ({device.device_kind})'

  @property
  def replay_bytes(self) -> int:
    """Memory that replay will take at the most."""
    return self._builder.projected_replay_bytes(self._spec, self._settings.steps)

  def run(self, directory: Path) -> Evaluation:
    """Trains to the end, from the checkpoint in the directory if there is one.

    Args:
      directory: takes logs, curve and checkpoints.

    Returns:
      The last evaluation.
    """
    settings = self._settings
    report = Report(settings, directory)

    def logger_factory(label: str, steps_key: str | None = None, task_instance: int = 0) -> loggers.Logger:
      del steps_key, task_instance
      return report.make_logger(label)

    builder: Any = WatchedBuilder(self._builder, report.progress.advance)
    # Acme declares whole minutes, and takes any number of them.
    minutes: Any = settings.checkpoint_minutes
    experiment = experiments.ExperimentConfig(
      builder=builder,
      network_factory=self._network_factory,
      environment_factory=lambda seed: environments.make(settings.env, seed=int(seed)),
      max_num_actor_steps=settings.steps,
      seed=settings.seed,
      environment_spec=self._spec,
      logger_factory=logger_factory,
      checkpointing=experiments.CheckpointingConfig(
        directory=str(directory), add_uid=False, time_delta_minutes=minutes
      ),
    )
    try:
      experiments.run_experiment(experiment, settings.eval_every, settings.num_eval_episodes)
    finally:
      report.close()
    return report.evaluations[-1]
