"""Updates of target networks."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import optax

from sac_blocks import checks
from sac_blocks.types import Array, PyTree


def polyak_update(online: PyTree, target: PyTree, tau: Array | float) -> PyTree:
  r"""Moves the target a step towards the online parameters.

  $$\bar\theta \leftarrow (1 - \tau) \bar\theta + \tau \theta$$

  Args:
    online: tree of arrays, the parameters that are learned.
    target: tree of the same structure and shapes.
    tau: a scalar, the step size in [0, 1] per update; 1 copies.

  Returns:
    The new target, a tree of the same structure and shapes; each leaf keeps the target's dtype.

  Raises:
    ValueError: structures or shapes differ, or `tau` lies outside [0, 1].

  >>> polyak_update({'w': jnp.ones(2)}, {'w': jnp.zeros(2)}, tau=0.25)
  {'w': Array([0.25, 0.25], dtype=float32)}

  Reference: Haarnoja et al. 2018, algorithm 1, arXiv 1812.05905; `optax.incremental_update`.
  """
  checks.same_structure(online=online, target=target)
  checks.in_range('tau', tau, 0.0, 1.0)
  return _like(target, optax.incremental_update(online, target, tau))


def periodic_update(online: PyTree, target: PyTree, step: Array | int, period: int) -> PyTree:
  r"""Copies the online parameters into the target every `period` steps.

  Args:
    online: tree of arrays, the parameters that are learned.
    target: tree of the same structure and shapes.
    step: int scalar, the number of the current update; a copy is made where it is a multiple of `period`.
    period: updates between copies, at least 1.

  Returns:
    The new target, a tree of the same structure and shapes; each leaf keeps the target's dtype.

  Raises:
    ValueError: structures or shapes differ, or `period` is below 1.

  >>> periodic_update(jnp.ones(2), jnp.zeros(2), step=3, period=2)
  Array([0., 0.], dtype=float32)
  >>> periodic_update(jnp.ones(2), jnp.zeros(2), step=4, period=2)
  Array([1., 1.], dtype=float32)

  Reference: Mnih et al. 2015, algorithm 1; `optax.periodic_update`.
  """
  checks.same_structure(online=online, target=target)
  if period < 1:
    raise ValueError(f'period must be at least 1, got {period}.')
  return optax.periodic_update(_like(target, online), target, jnp.asarray(step), period)


def _like(target: PyTree, tree: PyTree) -> PyTree:
  return jax.tree.map(lambda t, x: jnp.asarray(x, jnp.asarray(t).dtype), target, tree)
