"""Environments by name."""

from __future__ import annotations

import contextlib
import importlib
import inspect
import operator
import os
import sys
import warnings
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Literal

import dm_env
import numpy as np
from dm_env import specs

from agents.environments.gymnasium_adapter import GymnasiumEnvironment
from agents.environments.wrappers import (
  ActionMasks,
  CanonicalActions,
  DiscreteActions,
  FlatObservations,
  SinglePrecision,
  TimeLimit,
)
from agents.optional import import_module


def _import(module: str, where: str = '') -> ModuleType:
  return import_module(module, f'`uv sync --extra envs` brings it{where}')


@contextlib.contextmanager
def _current_directory_importable() -> Iterator[None]:
  """Finds modules in the current directory first, as `python -m` does and console scripts do not."""
  directory = os.getcwd()
  sys.path.insert(0, directory)
  try:
    yield
  finally:
    if directory in sys.path:
      sys.path.remove(directory)


def _load_bsuite(task: str, seed: int, own_time_limit: bool) -> dm_env.Environment:
  del own_time_limit  # The length of an episode is part of the task.
  bsuite = _import('bsuite.bsuite', ' on Python 3.10')
  settings = _import('bsuite.sweep').SETTINGS
  loaders = bsuite.EXPERIMENT_NAME_TO_ENVIRONMENT
  if task not in settings:
    raise ValueError(
      f'Unknown bsuite environment {task!r}, expected an experiment and the number of its setting, '
      f'such as catch/0; the experiments are {", ".join(loaders)}.'
    )
  load = loaders[task.partition('/')[0]]
  # bandit and discounting_chain have no randomness; bsuite cannot seed deep_sea_stochastic.
  seeding = {'seed': seed} if 'seed' in inspect.signature(load).parameters else {}
  return load(**settings[task] | seeding)


def _load_dm_control(task: str, seed: int, own_time_limit: bool) -> dm_env.Environment:
  with warnings.catch_warnings():
    # Where there is no display, which only rendering needs, the import warns of it.
    warnings.simplefilter('ignore')
    suite = _import('dm_control.suite', ' on Python 3.10')
  domain, _, name = task.partition(':')
  if (domain, name) not in suite.ALL_TASKS:
    known = ', '.join(suite.TASKS_BY_DOMAIN.get(domain, suite.TASKS_BY_DOMAIN))
    raise ValueError(
      f'Unknown dm_control task {task!r}, expected a domain, a colon and a task, '
      f'such as cartpole:swingup; choose from {known}.'
    )
  return suite.load(
    domain, name, {'random': seed} if own_time_limit else {'random': seed, 'time_limit': np.inf}
  )


def _load_dm_env(task: str, seed: int, own_time_limit: bool) -> dm_env.Environment:
  del own_time_limit  # It is part of the environment that the factory makes.
  module, _, attribute = task.partition(':')
  if not all(part.isidentifier() for part in [*module.split('.'), *attribute.split('.')]):
    raise ValueError(
      f"Got environment 'dm_env:{task}', expected a module, a colon and a function that makes the "
      'environment, such as dm_env:my_package.my_module:make_environment.'
    )
  with _current_directory_importable():
    try:
      imported = importlib.import_module(module)
    except ModuleNotFoundError as error:
      if not f'{module}.'.startswith(f'{error.name}.'):
        raise
      raise ImportError(
        f'There is no module {error.name} for the environment dm_env:{task}: looked in {os.getcwd()} and '
        'among the installed packages.'
      ) from None
    try:
      factory = operator.attrgetter(attribute)(imported)
    except AttributeError:
      raise ImportError(
        f'The module {module} has no {attribute}, which should make the environment dm_env:{task}.'
      ) from None
    if not callable(factory):
      raise ValueError(f'Got {factory!r} as dm_env:{task}, expected a function that makes an environment.')
    signature = inspect.signature(factory)
    seeding = {'seed': seed} if 'seed' in signature.parameters else {}
    try:
      signature.bind(**seeding)
    except TypeError as error:
      raise ValueError(
        f'Got {attribute}{signature} as dm_env:{task}, expected a function that needs no argument but seed: '
        f'{error}.'
      ) from None
    environment = factory(**seeding)
  if not isinstance(environment, dm_env.Environment):
    raise ValueError(
      f'Got a {type(environment).__name__} from dm_env:{task}, expected a dm_env.Environment; one of '
      'gymnasium is registered and named gymnasium:my_module:MyEnvironment-v0.'
    )
  return environment


def _load_gymnasium(task: str, seed: int, own_time_limit: bool) -> dm_env.Environment:
  gymnasium = _import('gymnasium')
  try:
    # The name may bring the module that registers the environment.
    with _current_directory_importable():
      environment = gymnasium.make(task, max_episode_steps=None if own_time_limit else -1)
  except gymnasium.error.DependencyNotInstalled as error:
    raise ImportError(f'The environment gymnasium:{task} needs another package: {error}') from None
  except gymnasium.error.Error as error:
    raise ValueError(f'Unknown gymnasium environment {task!r}: {error}') from None
  return GymnasiumEnvironment(environment, seed=seed)


_LOADERS: dict[str, Callable[[str, int, bool], dm_env.Environment]] = {
  'bsuite': _load_bsuite,
  'dm_control': _load_dm_control,
  'dm_env': _load_dm_env,
  'gymnasium': _load_gymnasium,
}


def make(
  name: str,
  *,
  seed: int = 0,
  observations: Literal['flat', 'native'] = 'flat',
  max_episode_steps: int | None = None,
) -> dm_env.Environment:
  """Builds an environment with actions in [-1, 1] (or discrete ones) and float32 data.

  Discrete actions are int32 and counted from zero: a number (`DiscreteArray`), or a vector of K for
  MultiDiscrete ones (`BoundedArray` from 0 to the number of values of each factor less one).

  Observations that are dicts with the key `action_mask` tell which actions are legal in their state: a bool
  array, True for legal, `[A]` for a discrete action and `[sum of the numbers of values]` for a
  MultiDiscrete one, the masks of its factors one after the other. The environment may give it as zeros
  and ones of any type. It must allow something in every factor, but for the last step of an episode that
  terminated.

  Args:
    name: library, colon, environment: `gymnasium:Pendulum-v1`, `dm_control:cartpole:swingup`,
      `bsuite:catch/0`. An environment of your own is `dm_env:my_package.my_module:make_environment`, a
      function that returns a `dm_env.Environment` and is called with `seed` if it takes that; or
      `gymnasium:my_package.my_module:MyEnvironment-v0`, which the module registers. Such modules are looked
      for in the current directory first, while the environment is made.
    seed: of the environment's random numbers; the same seed and actions give the same episodes.
    observations: 'flat' for one vector (a lone image stays an image), or with an action mask a dict of
      this vector as `observation`, and `action_mask`; 'native' for the arrays, dicts or tuples that the
      environment gives.
    max_episode_steps: steps after which an episode is cut, with discount 1; replaces the time limit
      of gymnasium and dm_control, and comes on top of others. None keeps theirs.

  Returns:
    The environment.

  Raises:
    ValueError: if there is no such environment, or its actions, observations or masks are not supported.
    ImportError: if its library is not installed, and the message says what to install; or if there is no
      such module or function of your own.

  Example:
    >>> environment = make('gymnasium:Pendulum-v1', seed=1)
    >>> environment.reset().observation.shape
    (3,)
    >>> float(environment.step([0.5]).discount)
    1.0
  """
  library, _, task = name.partition(':')
  if library not in _LOADERS:
    raise ValueError(
      f"Unknown environment {name!r}, expected a name such as 'gymnasium:Pendulum-v1' that starts "
      f'with one of {", ".join(f"{known}:" for known in _LOADERS)}.'
    )
  if observations not in ('flat', 'native'):
    raise ValueError(f"Got observations={observations!r}, expected 'flat' or 'native'.")
  if not 0 <= seed < 2**32:
    raise ValueError(f'Got seed={seed}, expected a whole number from 0 to 2**32 - 1.')
  if max_episode_steps is not None and max_episode_steps < 1:
    raise ValueError(f'Got max_episode_steps={max_episode_steps}, expected at least 1, or None.')

  environment = _LOADERS[library](task, int(seed), max_episode_steps is None)
  if max_episode_steps is not None:
    environment = TimeLimit(environment, max_episode_steps)
  actions = environment.action_spec()
  discrete = isinstance(actions, specs.Array) and np.issubdtype(actions.dtype, np.integer)
  environment = DiscreteActions(environment) if discrete else CanonicalActions(environment)
  # Late, since it brings JAX, which no import of this module should.
  from sac_blocks.observations import has_action_mask

  if has_action_mask(environment.observation_spec()):
    environment = ActionMasks(environment)
  environment = SinglePrecision(environment)
  return FlatObservations(environment) if observations == 'flat' else environment
