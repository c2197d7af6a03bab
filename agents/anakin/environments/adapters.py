"""Environments of other libraries."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from dm_env import specs

from agents.anakin.environments.protocol import Environment, PRNGKey, TimeStep
from agents.anakin.environments.wrappers import time_limit

_NO_LIMIT = np.iinfo(np.int32).max


def from_gymnax(environment: Any, params: Any = None) -> Environment:
  """Adapts a gymnax environment, of releases before 1.0 (`step_env` returns 5 values) or after (6).

  Before 1.0 gymnax counts the end of the time limit as termination. So its own limit,
  `params.max_steps_in_episode`, is lifted, and `time_limit` takes its place.

  Args:
    environment: as from `gymnax.make`.
    params: of the environment; by default its own.

  Returns:
    The environment.

  Raises:
    ValueError: the action space is neither discrete nor a box.
  """
  params = environment.default_params if params is None else params
  max_steps = getattr(params, 'max_steps_in_episode', None)
  observations, actions = environment.observation_space(params), environment.action_space(params)
  key = jax.random.key(0)
  _, state = jax.eval_shape(environment.reset_env, key, params)
  num_values = len(
    jax.eval_shape(environment.step_env, key, state, jax.eval_shape(actions.sample, key), params)
  )
  if num_values == 5 and max_steps is not None:
    params = params.replace(max_steps_in_episode=_NO_LIMIT)

  def reset(key: PRNGKey) -> tuple[Any, Any]:
    observation, state = environment.reset_env(key, params)
    return state, observation

  def step(state: Any, action: jax.Array, key: PRNGKey) -> tuple[Any, TimeStep]:
    observation, state, reward, *ends, _ = environment.step_env(key, state, action, params)
    terminated, truncated = ends if len(ends) == 2 else (ends[0], False)
    terminated = jnp.asarray(terminated, bool)
    timestep = TimeStep(
      observation,
      jnp.asarray(reward, jnp.float32),
      1.0 - terminated.astype(jnp.float32),
      terminated | truncated,
    )
    return state, timestep

  adapted = Environment(
    specs.Array(observations.shape, np.dtype(observations.dtype), 'observation'),
    _action_spec(actions),
    reset,
    step,
  )
  return time_limit(adapted, int(max_steps)) if num_values == 5 and max_steps is not None else adapted


def from_brax(environment: Any, max_steps: int = 1000) -> Environment:
  """Adapts a brax environment without wrappers, as from `brax.envs.get_environment`.

  Args:
    environment: without brax's own time limit and automatic reset.
    max_steps: of an episode.

  Returns:
    The environment; its actions are in [-1, 1].
  """
  # Of a start rather than of `observation_size`, which says nothing of dtypes.
  observations = jax.eval_shape(environment.reset, jax.random.key(0)).obs

  def reset(key: PRNGKey) -> tuple[Any, Any]:
    state = environment.reset(key)
    return state, state.obs

  def step(state: Any, action: jax.Array, key: PRNGKey) -> tuple[Any, TimeStep]:
    del key
    # Some of its steps give plain numbers, or other dtypes than its resets, which no loop can carry.
    state = jax.tree.map(_like, environment.step(state, action), state)
    terminated = state.done > 0.5
    return state, TimeStep(
      state.obs, state.reward.astype(jnp.float32), 1.0 - terminated.astype(jnp.float32), terminated
    )

  return time_limit(
    Environment(
      jax.tree.map(lambda x: specs.Array(x.shape, np.dtype(x.dtype), 'observation'), observations),
      specs.BoundedArray((environment.action_size,), np.float32, -1.0, 1.0, 'action'),
      reset,
      step,
    ),
    max_steps,
  )


def _like(new: Any, old: jax.Array) -> jax.Array:
  new = jnp.asarray(new)
  return new if new.dtype == old.dtype else new.astype(old.dtype)


def _action_spec(space: Any) -> specs.Array:
  if hasattr(space, 'n'):
    return specs.DiscreteArray(int(space.n), np.int32, 'action')
  if hasattr(space, 'low') and hasattr(space, 'high'):
    return specs.BoundedArray(
      space.shape, np.float32, np.asarray(space.low), np.asarray(space.high), 'action'
    )
  raise ValueError(f'Actions must be discrete or a box, got {space}: adapt the environment by hand.')
