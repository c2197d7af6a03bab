"""Environments by name."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from agents.anakin.environments.adapters import from_brax, from_gymnax
from agents.anakin.environments.cartpole import cartpole
from agents.anakin.environments.catch import catch
from agents.anakin.environments.pendulum import pendulum
from agents.anakin.environments.protocol import Environment
from agents.anakin.environments.wrappers import canonical_actions, time_limit
from agents.optional import import_module

_TASKS: Mapping[str, Callable[[], Environment]] = {
  'cartpole': lambda: time_limit(cartpole(), 500),
  'catch': catch,
  'pendulum': lambda: time_limit(pendulum(), 200),
}


def _builtin(task: str) -> Environment:
  if task not in _TASKS:
    raise ValueError(f'There is no task {task!r}, expected one of {sorted(_TASKS)}.')
  return _TASKS[task]()


def _gymnax(task: str) -> Environment:
  gymnax = import_module('gymnax', '`uv sync --extra anakin` brings it')
  if task not in gymnax.registered_envs:
    raise ValueError(f'gymnax has no environment {task!r}, it has {sorted(gymnax.registered_envs)}.')
  environment, params = gymnax.make(task)
  return from_gymnax(environment, params)


def _brax(task: str) -> Environment:
  envs: Any = import_module('brax.envs', '`uv sync --extra brax` brings it')
  return from_brax(envs.get_environment(task))


_LIBRARIES: Mapping[str, Callable[[str], Environment]] = {
  'brax': _brax,
  'builtin': _builtin,
  'gymnax': _gymnax,
}


def make(name: str) -> Environment:
  """Makes an environment with actions in [-1, 1], or discrete ones, and the time limit of its library.

  Args:
    name: library, colon, environment: `gymnax:Pendulum-v1`, `brax:inverted_pendulum`, or a task of ours,
      which needs no library: `builtin:pendulum`, `builtin:cartpole`, `builtin:catch`.

  Returns:
    The environment.

  Raises:
    ImportError: the library is not installed.
    ValueError: there is no such library or environment, or its actions are of another kind.
  """
  library, colon, task = name.partition(':')
  if not colon or library not in _LIBRARIES:
    raise ValueError(
      f'Environments on the device are named library:environment with a library of {sorted(_LIBRARIES)}, as '
      f'in gymnax:Pendulum-v1, got {name!r}.'
    )
  return canonical_actions(_LIBRARIES[library](task))
