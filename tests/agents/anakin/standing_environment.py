"""An environment in which nothing moves, so that each transition can be worked out."""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from dm_env import specs

from agents.anakin.environments import Environment, TimeStep
from tests.plain_networks import ACTION_SIZE, OBSERVATION_SIZE


class State(NamedTuple):
  observation: jax.Array
  step: jax.Array


def standing(length: int) -> Environment:
  """Episodes of `length` steps that all show one observation, drawn at the start, for the plain networks.

  The reward is the observation's first number plus the mean action.
  """

  def reset(key: jax.Array) -> tuple[State, jax.Array]:
    state = State(jax.random.normal(key, (OBSERVATION_SIZE,)), jnp.zeros((), jnp.int32))
    return state, state.observation

  def step(state: State, action: jax.Array, key: jax.Array) -> tuple[State, TimeStep]:
    del key
    state = state._replace(step=state.step + 1)
    reward = state.observation[0] + jnp.mean(action)
    return state, TimeStep(state.observation, reward, jnp.ones(()), state.step >= length)

  return Environment(
    specs.Array((OBSERVATION_SIZE,), np.float32),
    specs.BoundedArray((ACTION_SIZE,), np.float32, -1.0, 1.0),
    reset,
    step,
  )
