"""Environments made of others."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from dm_env import specs

from agents.anakin.environments.protocol import Environment, PRNGKey, TimeStep


class TimeLimitState(NamedTuple):
  """The state within, and the steps of the present episode."""

  state: Any
  steps: jax.Array


def time_limit(environment: Environment, max_steps: int) -> Environment:
  """Ends episodes after so many steps, without terminating the task: the discount stays what it is.

  Args:
    environment: what to limit.
    max_steps: of an episode, at least 1.

  Returns:
    The limited environment.

  Raises:
    ValueError: `max_steps` is not positive.
  """
  if max_steps < 1:
    raise ValueError(f'max_steps must be at least 1, got {max_steps}.')

  def reset(key: PRNGKey) -> tuple[TimeLimitState, Any]:
    state, observation = environment.reset(key)
    return TimeLimitState(state, jnp.zeros((), jnp.int32)), observation

  def step(state: TimeLimitState, action: Any, key: PRNGKey) -> tuple[TimeLimitState, TimeStep]:
    inner, timestep = environment.step(state.state, action, key)
    steps = state.steps + 1
    return TimeLimitState(inner, steps), timestep._replace(last=timestep.last | (steps >= max_steps))

  return environment._replace(reset=reset, step=step, render=_within(environment.render))


def canonical_actions(environment: Environment) -> Environment:
  """Takes actions in [-1, 1] for each dimension of a bounded box, and any action where it is discrete.

  Args:
    environment: with a `BoundedArray` of finite bounds, or a `DiscreteArray`, as its action spec.

  Returns:
    The environment whose bounds are -1 and 1; actions beyond them are clipped.

  Raises:
    ValueError: a bound is not finite.
  """
  spec = environment.action_spec
  if isinstance(spec, specs.DiscreteArray):
    return environment
  low, high = (
    np.broadcast_to(bound, spec.shape).astype(np.float32) for bound in (spec.minimum, spec.maximum)
  )
  if not (np.isfinite(low).all() and np.isfinite(high).all()):
    raise ValueError(
      f'Actions must have finite bounds, got {spec.minimum} to {spec.maximum}: bound them in the environment.'
    )

  def step(state: Any, action: jax.Array, key: PRNGKey) -> tuple[Any, TimeStep]:
    unit = jnp.clip(action, -1.0, 1.0)
    # Exact at both ends, which the middle plus half of the range is not.
    return environment.step(state, 0.5 * ((1.0 - unit) * low + (1.0 + unit) * high), key)

  return environment._replace(
    action_spec=specs.BoundedArray(spec.shape, np.float32, -1.0, 1.0, spec.name), step=step
  )


def _within(render: Any) -> Any:
  return None if render is None else lambda state: render(state.state)
