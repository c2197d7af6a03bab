"""What all ways to run an agent have in common."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Any

import dm_env

from agents import environments, experiments
from agents.command.registry import Agent
from agents.command.settings import Settings

from acme import specs  # isort: skip


class Runner:
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
    self._make_environment = functools.partial(_make_environment, settings.env)
    self._spec = specs.make_environment_spec(environment)
    policy = self._builder.make_policy(self._network_factory(self._spec), self._spec)
    self._builder.make_replay_tables(self._spec, policy)

  @property
  def replay_bytes(self) -> int:
    """Memory that replay will take at the most."""
    return self._builder.projected_replay_bytes(self._spec, self._settings.steps)

  def _make_experiment(
    self, directory: Path, builder: Any, logger_factory: Any, replay_minutes: Any = None
  ) -> experiments.ExperimentConfig[Any, Any, Any]:
    """Returns the run as an experiment.

    Args:
      directory: takes the checkpoints.
      builder: of the agent, as it is or wrapped.
      logger_factory: makes the loggers.
      replay_minutes: minutes between checkpoints of replay; None for none.
    """
    settings = self._settings
    # Acme declares whole minutes, and takes any number of them.
    minutes: Any = settings.checkpoint_minutes
    return experiments.ExperimentConfig(
      builder=builder,
      network_factory=self._network_factory,
      environment_factory=self._make_environment,
      max_num_actor_steps=settings.steps,
      seed=settings.seed,
      environment_spec=self._spec,
      logger_factory=logger_factory,
      checkpointing=experiments.CheckpointingConfig(
        directory=str(directory),
        add_uid=False,
        time_delta_minutes=minutes,
        replay_checkpointing_time_delta_minutes=replay_minutes,
      ),
    )


# Not a method, so that nodes of a program are sent no more than the name.
def _make_environment(name: str, seed: int) -> dm_env.Environment:
  return environments.make(name, seed=int(seed))
