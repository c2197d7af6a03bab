"""Acting in many environments at once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from agents.anakin.environments import Environment, TimeStep


class ActingState(NamedTuple):
  """Where a number of environments are, each within an episode.

  Attributes:
    environments: their states.
    observation: what each shows, `[E, ...]`.
    episode_return: rewards of the present episode so far, `[E]`.
    episode_length: its steps so far, `[E]`.
  """

  environments: Any
  observation: Any
  episode_return: jax.Array
  episode_length: jax.Array


class Step(NamedTuple):
  """One step of every environment; where an episode has ended the return and the length are those of it all.

  Attributes:
    observation: before the step, `[E, ...]`.
    action: what was done, `[E, ...]`.
    timestep: what came of it, with the final observation of an episode at its end.
    episode_return: rewards of the episode up to this step, `[E]`.
    episode_length: its steps up to this one, `[E]`.
  """

  observation: Any
  action: Any
  timestep: TimeStep
  episode_return: jax.Array
  episode_length: jax.Array


def start(environment: Environment, num_envs: int, key: jax.Array) -> ActingState:
  """Starts an episode in each of a number of environments."""
  states, observation = jax.vmap(environment.reset)(jax.random.split(key, num_envs))
  return ActingState(states, observation, jnp.zeros(num_envs, jnp.float32), jnp.zeros(num_envs, jnp.int32))


def step(
  environment: Environment,
  select_action: Callable[[Any, jax.Array], Any],
  state: ActingState,
  key: jax.Array,
) -> tuple[ActingState, Step]:
  """Takes one step in every environment, and starts a new episode where one has ended.

  Args:
    environment: what to act in.
    select_action: `select_action(observation, key)` returns an action for each row, `[E, ...]`.
    state: where the environments are.
    key: is split for the actions, the environments and the new episodes.

  Returns:
    Where they are then, and the step.
  """
  num_envs = state.episode_length.shape[0]
  action_key, step_key, reset_key = jax.random.split(key, 3)
  action = select_action(state.observation, action_key)
  environments, timestep = jax.vmap(environment.step)(
    state.environments, action, jax.random.split(step_key, num_envs)
  )
  taken = Step(
    state.observation,
    action,
    timestep,
    state.episode_return + timestep.reward,
    state.episode_length + 1,
  )
  fresh = start(environment, num_envs, reset_key)
  gone_on = ActingState(environments, timestep.observation, taken.episode_return, taken.episode_length)

  def choose(new: jax.Array, old: jax.Array) -> jax.Array:
    return jnp.where(timestep.last.reshape(num_envs, *(1,) * (old.ndim - 1)), new, old)

  return jax.tree.map(choose, fresh, gone_on), taken


def rollout(
  environment: Environment,
  select_action: Callable[[Any, jax.Array], Any],
  state: ActingState,
  key: jax.Array,
  length: int,
) -> tuple[ActingState, Step]:
  """Takes a number of steps in every environment.

  Args:
    environment: what to act in.
    select_action: as in `step`.
    state: where the environments are.
    key: is split over the steps.
    length: steps in each environment.

  Returns:
    Where they are then, and the steps, `[length, E, ...]`.
  """

  def one(state: ActingState, key: jax.Array) -> tuple[ActingState, Step]:
    return step(environment, select_action, state, key)

  return jax.lax.scan(one, state, jax.random.split(key, length))
