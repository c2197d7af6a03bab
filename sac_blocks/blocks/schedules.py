"""Numbers that change in the course of training."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
import optax

from sac_blocks.blocks.base import Block
from sac_blocks.types import Array, Components, Info, PRNGKey


def scheduled_value(name: str, schedule: optax.Schedule) -> Block:
  """Puts a scheduled number into `info`, where objectives read it and the log sees it.

  Args:
    name: of the entry.
    schedule: from the number of calls before this one, an int32 scalar, to the value.

  Returns:
    A block whose state is that number.

  >>> block = scheduled_value('ratio', optax.linear_schedule(0.9, 0.1, transition_steps=4))
  >>> _, state, info = block.update({}, jnp.array(2), None, None, {})
  >>> float(info['ratio']), int(state)
  (0.5, 3)

  Reference: `optax.Schedule`.
  """

  def init(params: Components) -> Array:
    del params
    return jnp.zeros((), jnp.int32)

  def update(
    params: Components, state: Array, batch: Any, key: PRNGKey, info: Info
  ) -> tuple[Components, Array, Info]:
    del batch, key, info
    return params, optax.safe_increment(state), {name: jnp.asarray(schedule(state))}

  return Block(init, update, (name,))
