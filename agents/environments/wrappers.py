"""Environments seen through conversions, which make one interface of many: `dm_env` in the agent's units."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import dm_env
import numpy as np
from dm_env import specs

# What dm_control gives as the bound of an actuator that has none (MuJoCo's mjMAXVAL).
_UNBOUNDED = 1e10


def _observations() -> Any:
  # Late, since it brings JAX: a slip in the command is answered without.
  from sac_blocks import observations

  return observations


class CategoricalArray(specs.BoundedArray):
  """The spec of several discrete values, counted from zero, that must not be taken for quantities."""

  def __reduce__(self) -> Any:
    # The one of BoundedArray names its own class, so that a copy would forget what it is.
    return type(self), (self.shape, self.dtype, self.minimum, self.maximum, self.name)


def map_nested(function: Callable[..., Any], nested: Any, *others: Any) -> Any:
  """Maps over the leaves of nested mappings and sequences, in the order of the first of them."""
  if isinstance(nested, Mapping):
    return {k: map_nested(function, v, *(o[k] for o in others)) for k, v in nested.items()}
  if isinstance(nested, Sequence):
    return tuple(map_nested(function, *parts) for parts in zip(nested, *others, strict=True))
  return function(nested, *others)


class Wrapper(dm_env.Environment):
  """An environment seen through two conversions, the identity by default.

  Attributes that `dm_env` does not know, such as `physics`, are those of the wrapped environment.

  Args:
    environment: the one to wrap.
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
    """Acts once and returns the next step; after a last one resets, whatever the action is."""
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


class DiscreteActions(Wrapper):
  """Discrete actions in int32 and counted from zero: one number, or a vector of one for each factor.

      environment's action = minimum + action

  Args:
    environment: has actions of a `DiscreteArray`, or of a vector of bounded integers (MultiDiscrete).

  Raises:
    ValueError: if the actions are of another kind; on a step, if the action is none of them.
  """

  def __init__(self, environment: dm_env.Environment):
    super().__init__(environment)
    spec = self._action_spec
    vector = isinstance(spec, specs.BoundedArray) and spec.dtype.kind in 'iu' and len(spec.shape) == 1
    if not vector and not isinstance(spec, specs.DiscreteArray):
      raise ValueError(
        f'Got actions {spec}, expected a DiscreteArray, or a BoundedArray of integers with one axis.'
      )
    if np.any(spec.minimum < -(2**31)) or np.any(spec.maximum >= 2**31):
      raise ValueError(
        f'Got integer actions from {spec.minimum.tolist()} to {spec.maximum.tolist()}, expected the bounds '
        'of discrete ones.'
      )
    low, high = (
      np.broadcast_to(bound, spec.shape).astype(np.int64) for bound in (spec.minimum, spec.maximum)
    )
    self._low, self._highest, self._dtype = low, high - low, spec.dtype
    if isinstance(spec, specs.DiscreteArray):
      self._action_spec = spec.replace(dtype=np.int32)
    else:
      self._action_spec = specs.BoundedArray(
        spec.shape, np.int32, np.zeros_like(low), self._highest, name='action'
      )

  def to_environment(self, action: Any) -> Any:
    """Returns the action in the environment's own units."""
    action = np.asarray(action)
    if (
      action.shape != self._low.shape
      or action.dtype.kind not in 'iu'
      or ((action < 0) | (action > self._highest)).any()
    ):
      raise ValueError(
        f'Got action {action.tolist()} of shape {action.shape} and {action.dtype}, expected whole numbers '
        f'of shape {self._low.shape} from 0 to {self._highest.tolist()}.'
      )
    return (action + self._low).astype(self._dtype)


class ActionMasks(Wrapper):
  """The legality of actions in bool, True for legal, where observations are dicts with `action_mask`.

  The mask has an entry for each action, or for each value of each factor, first those of the first
  factor. Its values may come as bool or as numbers, zero and one.

  Args:
    environment: has discrete actions and dict observations, with the mask at the top level.

  Raises:
    ValueError: if the actions are continuous, or the mask has another size; on a step, if the mask
      allows nothing, or nothing in one factor, at a state whose value takes an action: any but a
      terminal one, so also the last before a time limit, through which values are bootstrapped.
  """

  def __init__(self, environment: dm_env.Environment):
    super().__init__(environment)
    actions, mask = self._action_spec, self._observation_spec[_observations().ACTION_MASK]
    if not isinstance(actions, specs.BoundedArray) or not np.issubdtype(actions.dtype, np.integer):
      raise ValueError(
        f'Got an {_observations().ACTION_MASK} among the observations but continuous actions {actions}, '
        'expected discrete '
        'ones: drop the mask, or give it another name if it is none, in a wrapper of the environment.'
      )
    num_values = np.ravel(actions.maximum.astype(np.int64) - actions.minimum + 1)
    self._shape = (int(num_values.sum()),)
    self._first_values = np.cumsum(num_values) - num_values
    if not isinstance(mask, specs.Array) or mask.shape != self._shape:
      raise ValueError(
        f'Got {_observations().ACTION_MASK} {mask}, expected shape {self._shape}: '
        'an entry for each value of an action, '
        f'of which there are {" + ".join(map(str, num_values))}.'
      )
    mask = specs.Array(self._shape, bool, name=_observations().ACTION_MASK)
    self._observation_spec = {**self._observation_spec, _observations().ACTION_MASK: mask}

  def from_environment(self, timestep: dm_env.TimeStep) -> dm_env.TimeStep:
    """Returns the time step with its mask in bool."""
    given = np.asarray(timestep.observation[_observations().ACTION_MASK])
    mask = given.astype(bool)
    if given.shape != self._shape or (mask != given).any():
      raise ValueError(
        f'Got {_observations().ACTION_MASK} {given.tolist()} of shape {given.shape}, '
        f'expected zeros and ones of shape '
        f'{self._shape}.'
      )
    terminal = timestep.last() and timestep.discount == 0
    illegal = ~np.logical_or.reduceat(mask, self._first_values)
    if illegal.any() and not terminal:
      where = f' in factor {np.argmax(illegal)}' if illegal.size > 1 else ''
      raise ValueError(
        f'Got {_observations().ACTION_MASK} {given.tolist()}, which allows no action{where}, '
        'expected a legal one in every '
        'state but those that end an episode with discount 0: mend it in the environment, or end the '
        'episode with a termination there.'
      )
    return timestep._replace(observation={**timestep.observation, _observations().ACTION_MASK: mask})


def _single_precision(spec: specs.Array) -> specs.Array:
  if isinstance(spec, (specs.DiscreteArray, CategoricalArray)):
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

  An action mask keeps its type, which `ActionMasks` has made bool. Observations are copies, as some
  environments write the next one into the same memory. Mappings and sequences of them become dicts
  and tuples, in the order of the spec.

  Args:
    environment: one whose observations consist of numbers.

  Raises:
    ValueError: if an observation does not consist of numbers.
  """

  def __init__(self, environment: dm_env.Environment):
    super().__init__(environment)
    spec = self._observation_spec
    self._observation_spec = map_nested(_single_precision, spec)
    if _observations().has_action_mask(spec):
      self._observation_spec[_observations().ACTION_MASK] = spec[_observations().ACTION_MASK]
    self._reward_spec = specs.Array((), np.float32, name='reward')
    self._discount_spec = specs.BoundedArray((), np.float32, 0.0, 1.0, name='discount')

  def from_environment(self, timestep: dm_env.TimeStep) -> dm_env.TimeStep:
    """Returns the time step with its arrays cast."""
    observation = map_nested(
      lambda spec, value: np.array(value, spec.dtype), self._observation_spec, timestep.observation
    )
    if timestep.first():
      return dm_env.restart(observation)
    # Some environments reward with an array of one element.
    reward = np.float32(np.asarray(timestep.reward).item())
    return dm_env.TimeStep(timestep.step_type, reward, np.float32(timestep.discount), observation)


def _to_vector(spec: specs.Array, value: Any) -> np.ndarray:
  if isinstance(spec, (specs.DiscreteArray, CategoricalArray)):
    highest = np.broadcast_to(spec.maximum, spec.shape)
    one_hots = [np.eye(n + 1)[v] for n, v in zip(np.ravel(highest), np.ravel(value), strict=True)]
    return np.concatenate(one_hots)
  return np.ravel(value)


class FlatObservations(Wrapper):
  """All entries of an observation in one float32 vector, in the order of the spec.

  A scalar takes one place; a discrete value becomes a one-hot vector. An image (uint8 with two or
  three axes) stays as it is where it is the only entry. An action mask stays apart: with one, the
  observation is a dict of the rest as `observation`, and `action_mask`.

  Args:
    environment: one whose observations consist of numbers.

  Raises:
    ValueError: if there is an image among other entries, or nothing to observe.
  """

  def __init__(self, environment: dm_env.Environment):
    super().__init__(environment)
    spec = self._observation_spec
    self._has_mask = _observations().has_action_mask(spec)
    self._nested_spec = (
      {k: v for k, v in spec.items() if k != _observations().ACTION_MASK} if self._has_mask else spec
    )
    entries: list[specs.Array] = []
    map_nested(entries.append, self._nested_spec)
    if not entries:
      raise ValueError(f'Got observations {spec}, expected an entry{" besides the mask" * self._has_mask}.')
    self._lone_image = len(entries) == 1 and _observations().is_image(entries[0])
    if self._lone_image:
      flat_spec = entries[0]
    else:
      example = self._flatten(map_nested(self._example, self._nested_spec))
      flat_spec = specs.Array(example.shape, np.float32, name='observation')
    self._observation_spec = self._beside_mask(flat_spec, spec)

  def from_environment(self, timestep: dm_env.TimeStep) -> dm_env.TimeStep:
    """Returns the time step with its observation as one vector, beside the mask if there is one."""
    flat = self._flatten(timestep.observation)
    return timestep._replace(observation=self._beside_mask(flat, timestep.observation))

  def _beside_mask(self, flat: Any, nested: Any) -> Any:
    return (
      {'observation': flat, _observations().ACTION_MASK: nested[_observations().ACTION_MASK]}
      if self._has_mask
      else flat
    )

  def _flatten(self, observation: Any) -> np.ndarray:
    entries: list[tuple[specs.Array, Any]] = []
    map_nested(lambda s, v: entries.append((s, v)), self._nested_spec, observation)
    if self._lone_image:
      return entries[0][1]
    return np.concatenate([_to_vector(*entry) for entry in entries], dtype=np.float32)

  @staticmethod
  def _example(spec: specs.Array) -> np.ndarray:
    if _observations().is_image(spec):
      raise ValueError(
        f'Got an image of shape {spec.shape} among the observations to flatten, expected scalars '
        "and vectors: keep its shape with observations='native'."
      )
    return spec.generate_value()


class TimeLimit(Wrapper):
  """Cuts episodes after a number of steps, leaving the discount of the step at the cut as it is.

  Args:
    environment: the one to wrap.
    max_episode_steps: steps after which an episode is cut.
  """

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
