"""Experience on the device: a ring of time rows, each with a step of every environment."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from agents.anakin.rollout import Step
from sac_blocks import Transition


class Rows(NamedTuple):
  """Steps as they are stored, time first: `[T, E, ...]`.

  Attributes:
    observation: before the step.
    action: what was done.
    reward: of the step.
    discount: 0 where the step terminated the task, else 1.
    last: whether the episode ended with it.
    next_observation: after the step; at the end of an episode its final one.
  """

  observation: Any
  action: Any
  reward: jax.Array
  discount: jax.Array
  last: jax.Array
  next_observation: Any


class Replay(NamedTuple):
  """The ring.

  Attributes:
    rows: the steps; what lies beyond `size` rows was never written.
    head: where the next row goes.
    size: rows that were written, up to all.
  """

  rows: Rows
  head: jax.Array
  size: jax.Array


def from_steps(steps: Step) -> Rows:
  """Returns the rows of a rollout."""
  timestep = steps.timestep
  return Rows(
    steps.observation,
    steps.action,
    timestep.reward.astype(jnp.float32),
    timestep.discount.astype(jnp.float32),
    timestep.last,
    timestep.observation,
  )


def projected_bytes(rows: Any, capacity: int) -> int:
  """Returns the bytes of a ring.

  Args:
    rows: rows of any number, or their shapes and dtypes, `[L, E, ...]`.
    capacity: time rows of the ring.
  """
  return sum(
    capacity * math.prod(leaf.shape[1:]) * jnp.dtype(leaf.dtype).itemsize for leaf in jax.tree.leaves(rows)
  )


def init(rows: Any, capacity: int) -> Replay:
  """Makes an empty ring.

  Args:
    rows: the rows that are added at once, or their shapes and dtypes, `[L, E, ...]`.
    capacity: time rows of the ring, a multiple of L.

  Raises:
    ValueError: the capacity is no multiple of L.
  """
  length = jax.tree.leaves(rows)[0].shape[0]
  if capacity < length or capacity % length:
    raise ValueError(
      f'The capacity must be a multiple of the {length} rows that are added at once, got {capacity}.'
    )
  return Replay(
    jax.tree.map(lambda x: jnp.zeros((capacity, *x.shape[1:]), x.dtype), rows),
    jnp.zeros((), jnp.int32),
    jnp.zeros((), jnp.int32),
  )


def add(replay: Replay, rows: Rows) -> Replay:
  """Writes rows at the head, over the oldest ones where the ring is full.

  Args:
    replay: the ring.
    rows: as many as `init` was told, `[L, E, ...]`.
  """
  length, capacity = rows.reward.shape[0], replay.rows.reward.shape[0]

  return Replay(
    _write(replay.rows, rows, replay.head),
    (replay.head + length) % capacity,
    jnp.minimum(replay.size + length, capacity),
  )


def _write_once(ring: Rows, rows: Rows, head: jax.Array) -> Rows:
  # In place inside of a compiled loop, unlike a scatter over indices modulo the capacity.
  return jax.tree.map(lambda x, new: jax.lax.dynamic_update_slice_in_dim(x, new, head, axis=0), ring, rows)


@jax.custom_batching.custom_vmap
def _write(ring: Rows, rows: Rows, head: jax.Array) -> Rows:
  """Writes rows at the head, by a loop that runs once, which XLA does not know.

  It would merge the write with the draw that follows, need the ring as it was for that, and so copy all of it
  in every iteration of the trainer.
  """

  def body(carry: tuple[Rows, jax.Array]) -> tuple[Rows, jax.Array]:
    return _write_once(carry[0], rows, carry[1]), carry[1] + rows.reward.shape[0]

  end = head + rows.reward.shape[0]
  return jax.lax.while_loop(lambda carry: carry[1] < end, body, (ring, head))[0]


@_write.def_vmap
def _write_side_by_side(
  axis_size: int, in_batched: list[Any], ring: Rows, rows: Rows, head: jax.Array
) -> tuple[Rows, Any]:
  # Mapped over seeds the loop would choose between the old and the new ring at each place, while the plain
  # write becomes a scatter, which is not merged.
  del axis_size
  in_axes = jax.tree.map(lambda batched: 0 if batched else None, tuple(in_batched))
  ring = jax.vmap(_write_once, in_axes)(ring, rows, head)
  return ring, jax.tree.map(lambda _: True, ring)


def sample(
  replay: Replay,
  key: jax.Array,
  batch_size: int,
  *,
  n_step: int = 1,
  discount: float | jax.Array = 0.99,
  reward_scale: float | jax.Array = 1.0,
) -> Transition:
  """Draws n-step transitions, uniformly with replacement.

  A window starts at any step but the newest n - 1 rows, so it never reaches the head. The cost does not
  depend on the capacity.

  Args:
    replay: a ring with at least n rows written, of which there is no check here.
    key: of the draw.
    batch_size: B.
    n_step: n, at least 1.
    discount: gamma, per step.
    reward_scale: factor on the rewards.

  Returns:
    A batch `[B, ...]`.
  """
  capacity, num_envs = replay.rows.reward.shape
  time_key, env_key = jax.random.split(key)
  offset = jax.random.randint(time_key, (batch_size,), 0, replay.size - n_step + 1)
  start = (replay.head - replay.size + offset) % capacity
  env = jax.random.randint(env_key, (batch_size,), 0, num_envs)
  return windows(replay, start, env, n_step=n_step, discount=discount, reward_scale=reward_scale)


def windows(
  replay: Replay,
  start: jax.Array,
  env: jax.Array,
  *,
  n_step: int,
  discount: float | jax.Array,
  reward_scale: float | jax.Array,
) -> Transition:
  r"""Reads the n-step transitions that start at given steps.

  A window ends after m = n steps, or earlier with its episode:

    r_t = scale sum_{k<m} gamma^k (prod_{j<k} d_j) r_k,   discount_t = gamma^m prod_{j<m} d_j.

  Args:
    replay: the ring.
    start: int `[B]`, rows, none of them among the newest n - 1.
    env: int `[B]`, whose steps.
    n_step: n, at least 1.
    discount: gamma, per step.
    reward_scale: factor on the rewards.

  Returns:
    A batch `[B, ...]`.
  """
  capacity, batch_size = replay.rows.reward.shape[0], start.shape[0]
  rewards, discounts = jnp.zeros(batch_size), jnp.ones(batch_size)
  end, over = start, jnp.zeros(batch_size, bool)
  for k in range(n_step):
    row = (start + k) % capacity
    end = jnp.where(over, end, row)
    rewards = jnp.where(over, rewards, rewards + discounts * replay.rows.reward[row, env])
    discounts = jnp.where(over, discounts, discounts * discount * replay.rows.discount[row, env])
    over |= replay.rows.last[row, env]
  return Transition(
    obs_tm1=jax.tree.map(lambda x: x[start, env], replay.rows.observation),
    a_tm1=jax.tree.map(lambda x: x[start, env], replay.rows.action),
    r_t=reward_scale * rewards,
    discount_t=discounts,
    obs_t=jax.tree.map(lambda x: x[end, env], replay.rows.next_observation),
  )
