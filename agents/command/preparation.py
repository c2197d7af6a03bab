"""From the settings of a run to a run that is ready to start."""

from __future__ import annotations

import contextlib
import dataclasses
import importlib.util
import os
import platform
import types
from collections.abc import Sequence
from typing import Any

from absl import logging

from agents import environments
from agents.command import options
from agents.command.options import AGENTS, Agent
from agents.command.settings import Settings, UsageError, usage_errors

_LOGGING_MODULES = ('matplotlib', 'tensorboardX', 'tqdm')
_ACME_MODULES = ('acme', 'launchpad', 'reverb', 'tensorflow', *_LOGGING_MODULES)
_ON_DEVICE_MODULES = ('orbax.checkpoint', *_LOGGING_MODULES)


def quieten_imports() -> None:
  """Keeps what TensorFlow, absl and Gym say about themselves off the terminal; warnings and errors stay.

  They read the setting, or print, when they are imported.
  """
  os.environ.setdefault('TF_CPP_MIN_LOG_LEVEL', '2')
  logging.set_verbosity(logging.WARNING)
  with contextlib.suppress(ImportError):
    # Gym, which Acme imports, asks its users to move to Gymnasium.
    from gym_notices import notices

    notices.notices.clear()


def prepare(settings: Settings) -> tuple[Settings, Any]:
  """Makes the run that the settings ask for.

  The checks come in the order of what they take: to import Acme takes ten seconds.

  Args:
    settings: with the overrides as they were given.

  Returns:
    The settings with all options, and the runner, see `acme_runners.Runner`.

  Raises:
    UsageError: there can be no such run.
  """
  return _prepare_on_device(settings) if settings.runner == 'anakin' else _prepare_with_acme(settings)


def _prepare_with_acme(settings: Settings) -> tuple[Settings, Any]:
  _check_installed(
    _ACME_MODULES,
    'the Acme runner needs Python 3.10 on Linux and `uv sync --python 3.10 --extra acme --extra envs`, '
    'while --runner=anakin needs neither',
  )
  with usage_errors(ValueError, ImportError):
    environment = environments.make(settings.env, seed=settings.seed)
  agent = AGENTS[settings.agent]()
  if settings.runner == 'distributed' and settings.launch == 'local_mp':
    import jax

    # The memory of an accelerator is the learner's, which is another process.
    jax.config.update('jax_platforms', 'cpu')
  with usage_errors(ValueError, about='--config_overrides: '):
    config = agent.config(**options.convert(settings.config, options.option_types(agent.config)))
  networks = _network_options(settings, agent)
  _check_learning(settings, 'min_replay_size', config.min_replay_size)
  with usage_errors(ValueError):
    agent.make_networks(
      types.SimpleNamespace(observations=environment.observation_spec(), actions=environment.action_spec()),
      **networks,
    )
  settings = dataclasses.replace(settings, config=dataclasses.asdict(config), networks=networks)
  with usage_errors(ValueError):
    runner = _make_acme_runner(settings, agent, environment)
  environment.close()
  return settings, runner


def _make_acme_runner(settings: Settings, agent: Agent, environment: Any) -> Any:
  if settings.runner == 'distributed':
    from agents.command.acme_runners import DistributedRunner

    return DistributedRunner(settings, agent, environment)
  from agents.command.acme_runners import LocalRunner

  return LocalRunner(settings, agent, environment)


def _prepare_on_device(settings: Settings) -> tuple[Settings, Any]:
  _check_installed(_ON_DEVICE_MODULES, 'the on-device runner needs `uv sync --extra anakin`')
  from agents.anakin.environments import make
  from agents.command.anakin_runner import AnakinRunner, convert_options

  agent = AGENTS[settings.agent]()
  with usage_errors(ValueError, ImportError):
    environment = make(settings.env)
  with usage_errors(ValueError, about='--config_overrides: '):
    config = convert_options(agent, settings.config)
  settings = dataclasses.replace(settings, config=config, networks=_network_options(settings, agent))
  _check_learning(settings, 'learning_starts', config['learning_starts'])
  with usage_errors(ValueError):
    return settings, AnakinRunner(settings, agent, environment)


def _network_options(settings: Settings, agent: Agent) -> dict[str, Any]:
  with usage_errors(ValueError, about='--network_overrides: '):
    return options.convert(settings.networks, options.option_types(agent.network_options))


def _check_learning(settings: Settings, option: str, steps: int) -> None:
  if settings.steps < steps:
    raise UsageError(
      f'--steps={settings.steps} ends the run before learning starts, which {option}={steps} transitions '
      'must come before: raise the one or override the other'
    )


def _check_installed(modules: Sequence[str], need: str) -> None:
  missing = [name for name in modules if not _is_installed(name)]
  if missing:
    raise UsageError(f'{need}, but this is Python {platform.python_version()} without {", ".join(missing)}')


def _is_installed(module: str) -> bool:
  try:
    return importlib.util.find_spec(module) is not None
  except ModuleNotFoundError:  # The package that it would be in is missing.
    return False
