"""Environments by name, behind one interface: `dm_env` with actions in [-1, 1] and float32 data.

Time limits and terminal states stay apart: the last step of an episode has discount 1 where a limit
cut it and 0 only where the task ended, so that values are bootstrapped through the cut.
"""

from __future__ import annotations

import importlib
import inspect
import operator
import warnings
from collections.abc import Callable, Mapping, Sequence
from types import ModuleType
from typing import TYPE_CHECKING, Any, Literal

import dm_env
import numpy as np
from dm_env import specs

if TYPE_CHECKING:
  import gymnasium

# What dm_control gives as the bound of an actuator that has none (MuJoCo's mjMAXVAL).
_UNBOUNDED = 1e10


def _map_nested(function: Callable[..., Any], nested: Any, *others: Any) -> Any:
  """Maps over the leaves of nested mappings and sequences, in the order of the first of them."""
  if isinstance(nested, Mapping):
    return {k: _map_nested(function, v, *(o[k] for o in others)) for k, v in nested.items()}
  if isinstance(nested, Sequence):
    return tuple(_map_nested(function, *parts) for parts in zip(nested, *others, strict=True))
  return function(nested, *others)


class Wrapper(dm_env.Environment):
  """An environment seen through two conversions, the identity by default.

  Attributes that `dm_env` does not know, such as `physics`, are those of the wrapped environment.
  """

  def __init__(self, environment: dm_env.Environment):
    self._environment = environment
    self._observation_spec = environment.observation_spec()
    self._action_spec = environment.action_spec()
    self._reward_spec = environment.reward_spec()
    self._discount_spec = environment.discount_spec()
    self._reset_next_step = True

  def to_environment(self, action: Any) -> Any:
    """Returns the wrapped environment's form of an action."""
    return action

  def from_environment(self, timestep: dm_env.TimeStep) -> dm_env.TimeStep:
    """Returns the agent's form of a time step."""
    return timestep

  def reset(self) -> dm_env.TimeStep:
    """Starts an episode and returns its first step."""
    self._reset_next_step = False
    return self.from_environment(self._environment.reset())

  def step(self, action: Any) -> dm_env.TimeStep:
    """Acts once; after a last step, resets and ignores the action, whatever it is."""
    if self._reset_next_step:
      return self.reset()
    timestep = self.from_environment(self._environment.step(self.to_environment(action)))
    self._reset_next_step = timestep.last()
    return timestep

  def observation_spec(self) -> Any:
    """Returns the spec of an observation, nested as observations are."""
    return self._observation_spec

  def action_spec(self) -> Any:
    """Returns the spec of an action."""
    return self._action_spec

  def reward_spec(self) -> Any:
    """Returns the spec of a reward."""
    return self._reward_spec

  def discount_spec(self) -> Any:
    """Returns the spec of a discount."""
    return self._discount_spec

  def close(self) -> None:
    """Frees what the wrapped environment holds."""
    self._environment.close()

  def __getattr__(self, name: str) -> Any:
    # Without this guard, copying a half-built object would recurse for ever.
    if name.startswith('_'):
      raise AttributeError(name)
    return getattr(self._environment, name)


class CanonicalActions(Wrapper):
  """Actions in [-1, 1], rescaled to the bounds of each dimension.

      environment's action = clip((high + low) / 2 + (high - low) / 2 * action, low, high)

  Args:
    environment: has one action array of real numbers, bounded in every dimension.

  Raises:
    ValueError: if the actions are of another kind, or the bounds of a dimension are infinite or
      equal; on a step, if the action has another shape or holds NaN.
  """

  def __init__(self, environment: dm_env.Environment):
    super().__init__(environment)
    spec = self._action_spec
    if not isinstance(spec, specs.Array) or not np.issubdtype(spec.dtype, np.floating):
      raise ValueError(f'Got actions {spec}, expected one array of real numbers.')
    # A bound may be one number for all dimensions; a plain Array has none.
    low = np.broadcast_to(getattr(spec, 'minimum', -np.inf), spec.shape).astype(np.float64)
    high = np.broadcast_to(getattr(spec, 'maximum', np.inf), spec.shape).astype(np.float64)
    bad = [
      f'{low[i]:g} to {high[i]:g} in dimension {", ".join(map(str, i))}'
      for i in np.ndindex(spec.shape)
      if not -_UNBOUNDED < low[i] < high[i] < _UNBOUNDED
    ]
    if bad:
      raise ValueError(
        f'Got action bounds of {"; ".join(bad)}, expected finite ones with low < high: '
        'give these dimensions bounds, or drop them, in a wrapper of the environment.'
      )
    self._low, self._high, self._dtype = low, high, spec.dtype
    self._centre, self._half_range = (high + low) / 2, (high - low) / 2
    ones = np.ones(spec.shape)
    self._action_spec = specs.BoundedArray(spec.shape, np.float32, -ones, ones, name='action')

  def to_environment(self, action: Any) -> np.ndarray:
    """Returns the action in the environment's own units."""
    action = np.asarray(action, np.float64)
    if action.shape != self._low.shape:
      raise ValueError(f'Got an action of shape {action.shape}, expected {self._low.shape}.')
    if np.isnan(action).any():
      raise ValueError(
        f'Got action {action.tolist()}, expected numbers in [-1, 1]: '
        'look for what diverged in the policy or in its inputs.'
      )
    action = self._centre + self._half_range * action
    # On a few numbers np.clip takes several times as long.
    return np.minimum(np.maximum(action, self._low), self._high).astype(self._dtype)


def _single_precision(spec: specs.Array) -> specs.Array:
  if isinstance(spec, specs.DiscreteArray):
    return spec.replace(dtype=np.int32)
  if spec.dtype == np.uint8:
    return spec
  if spec.dtype.kind not in 'biuf':
    raise ValueError(f'Got observations {spec}, expected numbers.')
  # Bounds near the largest float64 stand for none, and become infinite.
  with np.errstate(over='ignore'):
    return spec.replace(dtype=np.float32)


class SinglePrecision(Wrapper):
  """Observations, rewards and discounts in float32; bytes stay uint8, discrete values are int32.

  Observations are copies, as some environments write the next one into the same memory. Mappings
  and sequences of them become dicts and tuples, in the order of the spec.

  Raises:
    ValueError: if an observation does not consist of numbers.
  """

  def __init__(self, environment: dm_env.Environment):
    super().__init__(environment)
    self._observation_spec = _map_nested(_single_precision, self._observation_spec)
    if isinstance(self._action_spec, specs.DiscreteArray):
      self._action_spec = _single_precision(self._action_spec)
    self._reward_spec = specs.Array((), np.float32, name='reward')
    self._discount_spec = specs.BoundedArray((), np.float32, 0.0, 1.0, name='discount')

  def from_environment(self, timestep: dm_env.TimeStep) -> dm_env.TimeStep:
    """Returns the time step with its arrays cast."""
    observation = _map_nested(
      lambda spec, value: np.array(value, spec.dtype), self._observation_spec, timestep.observation
    )
    if timestep.first():
      return dm_env.restart(observation)
    # Some environments reward with an array of one element.
    reward = np.float32(np.asarray(timestep.reward).item())
    return dm_env.TimeStep(timestep.step_type, reward, np.float32(timestep.discount), observation)


def _is_image(spec: Any) -> bool:
  return isinstance(spec, specs.Array) and spec.dtype == np.uint8 and len(spec.shape) in (2, 3)


def _to_vector(spec: specs.Array, value: Any) -> np.ndarray:
  if isinstance(spec, specs.DiscreteArray):
    return np.eye(spec.num_values)[value]
  return np.ravel(value)


class FlatObservations(Wrapper):
  """All entries of an observation in one float32 vector, in the order of the spec.

  A scalar takes one place; a discrete value becomes a one-hot vector.

  Raises:
    ValueError: if an entry is an image (uint8 with two or three axes).
  """

  def __init__(self, environment: dm_env.Environment):
    super().__init__(environment)
    self._nested_spec = self._observation_spec
    example = self._flatten(_map_nested(self._example, self._nested_spec))
    self._observation_spec = specs.Array(example.shape, np.float32, name='observation')

  def from_environment(self, timestep: dm_env.TimeStep) -> dm_env.TimeStep:
    """Returns the time step with its observation as one vector."""
    return timestep._replace(observation=self._flatten(timestep.observation))

  def _flatten(self, observation: Any) -> np.ndarray:
    parts: list[np.ndarray] = []
    _map_nested(lambda s, v: parts.append(_to_vector(s, v)), self._nested_spec, observation)
    return np.concatenate(parts, dtype=np.float32)

  @staticmethod
  def _example(spec: specs.Array) -> np.ndarray:
    if _is_image(spec):
      raise ValueError(
        f'Got an image of shape {spec.shape} among the observations to flatten, expected scalars '
        "and vectors: keep its shape with observations='native'."
      )
    return spec.generate_value()


class TimeLimit(Wrapper):
  """Cuts episodes after a number of steps, leaving the discount of the step at the cut as it is."""

  def __init__(self, environment: dm_env.Environment, max_episode_steps: int):
    super().__init__(environment)
    self._max_episode_steps = max_episode_steps
    self._steps = 0

  def from_environment(self, timestep: dm_env.TimeStep) -> dm_env.TimeStep:
    """Returns the time step, as the last of its episode where the limit is reached."""
    self._steps = 0 if timestep.first() else self._steps + 1
    if self._steps < self._max_episode_steps:
      return timestep
    return timestep._replace(step_type=dm_env.StepType.LAST)


def _spec_of_space(space: gymnasium.Space) -> specs.Array:
  from gymnasium import spaces

  if isinstance(space, spaces.Discrete):
    return specs.DiscreteArray(int(space.n))
  if isinstance(space, spaces.Box):
    return specs.BoundedArray(space.shape, space.dtype, space.low, space.high)
  raise ValueError(
    f'Got space {space}, expected Box or Discrete, or a Dict or Tuple of them as observations.'
  )


class GymnasiumEnvironment(dm_env.Environment):
  """A gymnasium environment as a `dm_env` one, in its own units and types.

  Args:
    environment: one that does not reset itself at the end of an episode.
    seed: given to the first reset; later ones go on with the environment's own generator.

  Raises:
    ValueError: if a space has no `dm_env` spec.
  """

  def __init__(self, environment: gymnasium.Env, *, seed: int | None = None):
    self._environment: Any = environment
    self._observation_spec = _map_nested(_spec_of_space, environment.observation_space)
    self._action_spec = _spec_of_space(environment.action_space)
    self._seed = seed
    self._reset_next_step = True

  def reset(self) -> dm_env.TimeStep:
    """Starts an episode and returns its first step."""
    self._reset_next_step = False
    observation, _ = self._environment.reset(seed=self._seed)
    self._seed = None
    return dm_env.restart(self._count_from_zero(observation))

  def step(self, action: Any) -> dm_env.TimeStep:
    """Acts once; after a last step, resets and ignores the action, whatever it is."""
    if self._reset_next_step:
      return self.reset()
    if isinstance(self._action_spec, specs.DiscreteArray):
      # Gymnasium refuses the scalars of JAX, and its spaces need not start at 0.
      action = operator.index(np.asarray(action).item()) + int(self._environment.action_space.start)
    observation, reward, terminated, truncated, _ = self._environment.step(action)
    observation = self._count_from_zero(observation)
    self._reset_next_step = bool(terminated or truncated)
    if terminated:
      return dm_env.termination(reward, observation)
    if truncated:
      return dm_env.truncation(reward, observation)
    return dm_env.transition(reward, observation)

  def observation_spec(self) -> Any:
    """Returns the spec of an observation, nested as observations are."""
    return self._observation_spec

  def action_spec(self) -> specs.BoundedArray:
    """Returns the spec of an action."""
    return self._action_spec

  def close(self) -> None:
    """Frees what the environment holds."""
    self._environment.close()

  def _count_from_zero(self, observation: Any) -> Any:
    return _map_nested(
      lambda space, value: value - space.start if hasattr(space, 'start') else value,
      self._environment.observation_space,
      observation,
    )


def _import(module: str, where: str = '') -> ModuleType:
  package = module.partition('.')[0]
  try:
    return importlib.import_module(module)
  except ModuleNotFoundError as error:
    if error.name != package:
      raise
  raise ImportError(f'{package} is not installed: `uv sync --extra envs` brings it{where}.')


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


def _load_gymnasium(task: str, seed: int, own_time_limit: bool) -> dm_env.Environment:
  gymnasium = _import('gymnasium')
  try:
    environment = gymnasium.make(task, max_episode_steps=None if own_time_limit else -1)
  except gymnasium.error.DependencyNotInstalled as error:
    raise ImportError(f'The environment gymnasium:{task} needs another package: {error}') from None
  except gymnasium.error.Error as error:
    raise ValueError(f'Unknown gymnasium environment {task!r}: {error}') from None
  return GymnasiumEnvironment(environment, seed=seed)


_LOADERS: dict[str, Callable[[str, int, bool], dm_env.Environment]] = {
  'bsuite': _load_bsuite,
  'dm_control': _load_dm_control,
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

  Args:
    name: library, colon, environment: `gymnasium:Pendulum-v1`, `dm_control:cartpole:swingup`,
      `bsuite:catch/0`.
    seed: of the environment's random numbers; the same seed and actions give the same episodes.
    observations: 'flat' for one vector (a lone image stays an image); 'native' for the arrays,
      dicts or tuples that the environment gives.
    max_episode_steps: steps after which an episode is cut, with discount 1; replaces the time limit
      of gymnasium and dm_control. None keeps theirs.

  Returns:
    The environment.

  Raises:
    ValueError: if there is no such environment, or its actions or observations are not supported.
    ImportError: if its library is not installed; the message says what to install.

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
  if not isinstance(environment.action_spec(), specs.DiscreteArray):
    environment = CanonicalActions(environment)
  environment = SinglePrecision(environment)
  if observations == 'flat' and not _is_image(environment.observation_spec()):
    environment = FlatObservations(environment)
  return environment
