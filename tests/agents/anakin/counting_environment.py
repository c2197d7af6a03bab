"""An environment whose observations tell where they are from."""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from dm_env import specs

from agents.anakin.environments import Environment, TimeStep


class State(NamedTuple):
  episode: jax.Array
  step: jax.Array


def counting(length: int, *, terminates: bool = True, num_actions: int | None = None) -> Environment:
  """Episodes of `length` steps with observation [a number of the episode, step] and reward step + action.

  The number is random, so that observations of two episodes differ.
  """

  def observe(state: State) -> jax.Array:
    return jnp.stack([state.episode, state.step]).astype(jnp.float32)

  def reset(key: jax.Array) -> tuple[State, jax.Array]:
    state = State(jax.random.randint(key, (), 0, 1_000_000), jnp.zeros((), jnp.int32))
    return state, observe(state)

  def step(state: State, action: jax.Array, key: jax.Array) -> tuple[State, TimeStep]:
    del key
    state = state._replace(step=state.step + 1)
    last = state.step >= length
    reward = state.step + jnp.sum(action)
    discount = jnp.where(last & terminates, 0.0, 1.0)
    return state, TimeStep(observe(state), reward.astype(jnp.float32), discount, last)

  action_spec = (
    specs.BoundedArray((1,), np.float32, -1.0, 1.0)
    if num_actions is None
    else specs.DiscreteArray(num_actions, np.int32)
  )
  return Environment(specs.Array((2,), np.float32), action_spec, reset, step)
