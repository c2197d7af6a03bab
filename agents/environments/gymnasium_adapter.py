"""Gymnasium's environments behind the interface of `dm_env`."""

from __future__ import annotations

import operator
from typing import TYPE_CHECKING, Any

import dm_env
import numpy as np
from dm_env import specs

from agents.environments.wrappers import CategoricalArray, map_nested

if TYPE_CHECKING:
  import gymnasium


def _spec_of_space(space: gymnasium.Space) -> specs.Array:
  from gymnasium import spaces

  if isinstance(space, spaces.Discrete):
    return specs.DiscreteArray(int(space.n))
  if isinstance(space, (spaces.MultiDiscrete, spaces.MultiBinary)):
    num_values = np.broadcast_to(getattr(space, 'nvec', 2), space.shape)
    return CategoricalArray(space.shape, space.dtype, np.zeros_like(num_values), num_values - 1)
  if isinstance(space, spaces.Box):
    return specs.BoundedArray(space.shape, space.dtype, space.low, space.high)
  raise ValueError(
    f'Got space {space}, expected Box, Discrete, MultiDiscrete or MultiBinary, or a Dict or Tuple of them '
    'as observations.'
  )


class GymnasiumEnvironment(dm_env.Environment):
  """A gymnasium environment as a `dm_env` one, in its own units and types.

  Only discrete values are counted from zero, wherever they start there.

  Args:
    environment: one that does not reset itself at the end of an episode.
    seed: given to the first reset; later ones go on with the environment's own generator.

  Raises:
    ValueError: if a space has no `dm_env` spec.
  """

  def __init__(self, environment: gymnasium.Env, *, seed: int | None = None):
    self._environment: Any = environment
    self._observation_spec = map_nested(_spec_of_space, environment.observation_space)
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
    """Acts once and returns the next step; after a last one resets, whatever the action is."""
    if self._reset_next_step:
      return self.reset()
    space = self._environment.action_space
    if isinstance(self._action_spec, specs.DiscreteArray):
      # Gymnasium refuses the scalars of JAX, and its spaces need not start at 0.
      action = operator.index(np.asarray(action).item()) + int(space.start)
    elif isinstance(self._action_spec, CategoricalArray):
      action = (np.asarray(action) + getattr(space, 'start', 0)).astype(space.dtype)
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
    return map_nested(
      lambda space, value: value - space.start if hasattr(space, 'start') else value,
      self._environment.observation_space,
      observation,
    )
