"""The block: what an update is composed of."""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol

import jax

from sac_blocks.types import Array, Components, Info, PRNGKey, PyTree


class InitFn(Protocol):
  """Makes a block's state from the named parameter components."""

  def __call__(self, params: Components) -> PyTree:
    """Returns the state; it doesn't alias `params`, so that both can be donated."""
    ...


class UpdateFn(Protocol):
  """One step of a block: a pure function, fit for jit, scan and vmap."""

  def __call__(
    self, params: Components, state: PyTree, batch: Any, key: PRNGKey, info: Info
  ) -> tuple[Components, PyTree, Info]:
    """Returns new params, new state, and what this block reports, by name, to be added to `info`.

    Args:
      params: the named components.
      state: what `init` or the last call returned.
      batch: a batch of data, `Transition` in the recipes.
      key: consumed.
      info: what earlier blocks of this update reported, by name.
    """
    ...


class Block(NamedTuple):
  """A transform of named parameter components, as an optax transform is one of gradients.

  Attributes:
    init: `init(params) -> state`.
    update: `update(params, state, batch, key, info) -> (params, state, reported)`.
    metrics: the names of the scalars that `update` reports. They must be known before the first
      batch is, so that `every` and `repeat` can carry them.
  """

  init: InitFn
  update: UpdateFn
  metrics: tuple[str, ...] = ()


def scalars(info: Info) -> dict[str, Array]:
  """Picks the single numbers out of `info`, which are all that leaves an update.

  Args:
    info: of a whole update or of one block, arrays of any shape by name.

  Returns:
    Its scalar arrays, by name.

  >>> import jax.numpy as jnp
  >>> scalars({'critic_loss': jnp.float32(2.0), 'td_error': jnp.zeros((2, 4))})
  {'critic_loss': Array(2., dtype=float32)}
  """
  return {name: value for name, value in info.items() if isinstance(value, jax.Array) and value.ndim == 0}
