"""Runs an agent on the device, environment, replay and learning compiled together, for many seeds at once."""

from __future__ import annotations

import dataclasses
import types
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp

from agents import anakin
from agents.anakin import callbacks
from agents.anakin.devices import Devices
from agents.anakin.environments import Environment
from agents.command import options
from agents.command.options import Agent
from agents.command.reporting import CURVE_FILE_NAME, device_name, learner_period
from agents.command.settings import Settings
from agents.config import ReplayConfig
from agents.records.metrics import Evaluation, pool
from agents.signals import Interrupts

CHECKPOINTS = 'checkpoints'
# The loop's options that are flags of their own, or none at all.
_FLAGS = {'num_steps': 'steps', 'eval_every': 'eval_every', 'num_eval_episodes': 'num_eval_episodes'}


def _field_names(dataclass: Any) -> set[str]:
  return {field.name for field in dataclasses.fields(dataclass)}


_LOOP = _field_names(anakin.AnakinConfig) - {*_FLAGS, 'report_every'}


def convert_options(agent: Agent, values: Mapping[str, Any]) -> dict[str, Any]:
  """Checks names and types of options for a run on the device, and fills in those that are left out.

  Args:
    agent: whose options they are, besides those of the loop.
    values: by name.

  Returns:
    All options of the loop and of the algorithm; where both have one, it has the agent's default.

  Raises:
    ValueError: a name is unknown, or a value of another type than expected.
  """
  # What else the agent has about replay holds for Reverb's.
  unused = _field_names(ReplayConfig) - _LOOP
  types_by_name = {
    **{name: kind for name, kind in options.option_types(anakin.AnakinConfig).items() if name in _LOOP},
    **{name: kind for name, kind in options.option_types(agent.config).items() if name not in unused},
  }
  defaults = {**dataclasses.asdict(anakin.AnakinConfig()), **dataclasses.asdict(agent.config())}
  converted = options.convert(values, types_by_name)
  return {name: converted.get(name, defaults[name]) for name in types_by_name}


class AnakinRunner:
  """A run on the device that is ready to start; making it writes nothing.

  With several seeds the directory holds a run of one seed each in `seed_0`, `seed_1`, ..., numbered as their
  seeds are, and a curve of all.

  Args:
    settings: of the run; `config` holds every option of the loop and of the algorithm.
    agent: what the settings name.
    environment: what the settings name.

  Raises:
    ValueError: the agent doesn't fit the environment, replay doesn't fit in memory, or there are too few
      devices, or environments or batches don't divide by them.
  """

  def __init__(self, settings: Settings, agent: Agent, environment: Environment):
    self._settings = settings
    self._environment = environment
    self._config = anakin.AnakinConfig(
      **{name: value for name, value in settings.config.items() if name in _LOOP},
      **{name: getattr(settings, flag) for name, flag in _FLAGS.items()},
      report_every=learner_period(settings),
    )
    spec = types.SimpleNamespace(observations=environment.observation_spec, actions=environment.action_spec)
    config = agent.config(
      num_learner_devices=settings.num_devices,
      **{name: value for name, value in settings.config.items() if name in _field_names(agent.config)},
    )
    if settings.num_devices > 1:
      Devices(settings.num_devices, seeds=settings.num_seeds > 1).share(self._config)
    self._algorithm = agent.make_algorithm(config, agent.make_networks(spec, **settings.networks))
    init = anakin.make_trainer(environment, self._algorithm, self._config).init
    keys = [jax.random.key(settings.seed + i) for i in range(settings.num_seeds)]
    self._key = keys[0] if settings.num_seeds == 1 else jnp.stack(keys)
    self._shapes = jax.eval_shape(init if settings.num_seeds == 1 else jax.vmap(init), self._key)

  @property
  def device(self) -> str:
    """What the run takes."""
    number = self._settings.num_devices
    return device_name() if number == 1 else f'{number} devices, {device_name()}'

  @property
  def replay_bytes(self) -> int:
    """Memory that replay takes."""
    stored = jax.tree.leaves((self._shapes.replay, self._shapes.priorities))
    return sum(leaf.size * leaf.dtype.itemsize for leaf in stored)

  def run(self, directory: Path) -> Evaluation:
    """Trains to the end, from the checkpoint in the directory if there is one.

    Args:
      directory: takes logs, curve and checkpoints.

    Returns:
      The last evaluation, over the episodes of all seeds.

    Raises:
      KeyboardInterrupt: upon Ctrl-C, once everything is saved.
    """
    settings = self._settings
    recording = callbacks.record(directory)
    with Interrupts() as interrupts, interrupts.noted():
      anakin.train(
        self._environment,
        self._algorithm,
        self._config,
        self._key,
        [
          recording,
          callbacks.show_progress(settings.steps, recorded=recording),
          callbacks.save_curve(
            directory / CURVE_FILE_NAME,
            f'{settings.agent} on {settings.env}',
            label=f'seed {settings.seed}' if settings.num_seeds == 1 else settings.agent,
            recorded=recording,
          ),
          callbacks.save_checkpoints(directory / CHECKPOINTS, settings.checkpoint_minutes),
          lambda report: interrupts.pressed,
        ],
        state=self._restored(directory / CHECKPOINTS),
        num_devices=settings.num_devices,
      )
    if interrupts.pressed:
      raise KeyboardInterrupt
    return pool([evaluations[-1] for evaluations in recording.evaluations])

  def _restored(self, checkpoints: Path) -> anakin.TrainState | None:
    if callbacks.saved_steps(checkpoints) is None:
      return None
    return callbacks.restore(checkpoints, self._shapes)
