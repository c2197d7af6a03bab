"""Errors and losses of an ensemble of critics."""

from __future__ import annotations

from collections.abc import Callable

import jax
import jax.numpy as jnp
import optax

from sac_blocks import checks
from sac_blocks.types import Array


def soft_td_error(q_tm1: Array, target: Array) -> Array:
  r"""Computes the temporal-difference error of every critic.

  $$\delta_i = y - q_i$$

  Args:
    q_tm1: `[N, ...]`, values of the actions taken, under N critics.
    target: `[...]`, the shared targets, as `soft_q_target` makes them.

  Returns:
    `[N, ...]`, the errors; they differentiate with respect to `q_tm1` only.

  Raises:
    ValueError: the shapes don't fit.

  >>> soft_td_error(jnp.array([[1.0], [3.0]]), jnp.array([2.0]))
  Array([[ 1.], [-1.]], dtype=float32)

  Reference: Haarnoja et al. 2018, eq. 5, arXiv 1812.05905.
  """
  q_tm1, target = checks.as_floats(q_tm1=q_tm1, target=target)
  checks.ensemble_shape('q_tm1', q_tm1, target=target)
  return jax.lax.stop_gradient(target)[None] - q_tm1


def twin_critic_loss(
  q_tm1: Array,
  target: Array,
  *,
  pointwise_loss: Callable[[Array, Array], Array] = optax.l2_loss,
) -> Array:
  r"""Sums the regression losses of all critics towards one target.

  $$L = \sum_i \tfrac{1}{2} (q_i - y)^2$$

  The sum (not the mean) over critics keeps each critic's gradient independent of their number. Well-known
  codebases differ here by factors of 2 and 4 per critic, which Adam hides but clipping and decay do not.

  Args:
    q_tm1: `[N, ...]`, values of the actions taken, under N critics.
    target: `[...]`, the shared targets, as `soft_q_target` makes them.
    pointwise_loss: replaces half the square, for example by `optax.huber_loss`; takes predictions and
      targets of one shape and returns that shape.

  Returns:
    `[...]`, one loss per example; it differentiates with respect to `q_tm1` only.

  Raises:
    ValueError: the shapes don't fit.

  >>> twin_critic_loss(jnp.array([[1.0], [3.0]]), jnp.array([2.0]))
  Array([1.], dtype=float32)

  Reference: Haarnoja et al. 2018, eq. 5, arXiv 1812.05905.
  """
  q_tm1, target = checks.as_floats(q_tm1=q_tm1, target=target)
  checks.ensemble_shape('q_tm1', q_tm1, target=target)
  losses = pointwise_loss(q_tm1, jnp.broadcast_to(jax.lax.stop_gradient(target)[None], q_tm1.shape))
  if losses.shape != q_tm1.shape:
    raise ValueError(f'pointwise_loss must keep the shape of its inputs {q_tm1.shape}, got {losses.shape}.')
  return jnp.sum(losses, axis=0)
