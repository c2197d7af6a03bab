"""Errors and losses of an ensemble of critics."""

from __future__ import annotations

from collections.abc import Callable

import jax
import jax.numpy as jnp
import optax

from sac_blocks import checks
from sac_blocks.types import Array


def q_at_action(q: Array, action: Array) -> Array:
  r"""Picks the values of the actions taken.

  $$q_i(a) = q_{ia}$$

  Args:
    q: `[N, ..., A]`, values of all actions under N critics.
    action: int `[...]`, in [0, A).

  Returns:
    `[N, ...]`, the values; NaN under a trace for an action out of range.

  Raises:
    ValueError: the shapes don't fit, or an action that can be read is out of range.
    TypeError: the actions are not integers.

  >>> q_at_action(jnp.array([[[1.0, 2.0]], [[3.0, 4.0]]]), jnp.array([1]))
  Array([[2.],
         [4.]], dtype=float32)

  Reference: `rlax.batched_index`, for an ensemble.
  """
  (q,) = checks.as_floats(q=q)
  checks.ensemble_shape('q', q, trailing=1, action=action)
  action = checks.as_actions('action', action, q.shape[-1])
  # Counting from the end would make an action of -1 the last one.
  action = jnp.where(action < 0, q.shape[-1], action)
  index = jnp.broadcast_to(action[None, ..., None], (*q.shape[:-1], 1))
  return jnp.take_along_axis(q, index, axis=-1, mode='fill')[..., 0]


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


def categorical_twin_critic_loss(
  q_tm1: Array,
  a_tm1: Array,
  target: Array,
  mask_tm1: Array | None = None,
  *,
  pointwise_loss: Callable[[Array, Array], Array] = optax.l2_loss,
) -> Array:
  r"""Sums the regression losses of all critics, at the actions taken, towards one target.

  $$L = \sum_i \tfrac{1}{2} (q_{i a} - y)^2$$

  Args:
    q_tm1: `[N, ..., A]`, values of all actions under N critics.
    a_tm1: int `[...]`, the actions taken.
    target: `[...]`, the shared targets, as `categorical_soft_q_target` makes them.
    mask_tm1: `[..., A]` bool or integer, nonzero where an action is legal; None for all.
    pointwise_loss: as in `twin_critic_loss`.

  Returns:
    `[...]`, one loss per example; it differentiates with respect to `q_tm1` only, and there in the actions
    taken. An illegal one, as a padded or terminal row may hold, contributes exactly 0.

  Raises:
    ValueError: the shapes don't fit, or values that can be read show an action out of range, or an illegal
      one in a row that has legal ones.
    TypeError: the actions are not integers, or the mask is a floating array.

  >>> q_tm1 = jnp.array([[[1.0, 9.0]], [[3.0, 9.0]]])
  >>> categorical_twin_critic_loss(q_tm1, jnp.array([0]), jnp.array([2.0]))
  Array([1.], dtype=float32)

  Reference: Christodoulou 2019, eq. 4, arXiv 1910.07207; Haarnoja et al. 2018, eq. 5, arXiv 1812.05905.
  """
  q_tm1, target = checks.as_floats(q_tm1=q_tm1, target=target)
  checks.ensemble_shape('q_tm1', q_tm1, trailing=1, a_tm1=a_tm1, target=target)
  mask = None if mask_tm1 is None else checks.as_mask('mask_tm1', mask_tm1)
  if mask is not None:
    checks.ensemble_shape('q_tm1', q_tm1, mask_tm1=mask)
  a_tm1 = checks.as_actions('a_tm1', a_tm1, q_tm1.shape[-1])
  q = q_at_action(q_tm1, a_tm1)
  if mask is None:
    return twin_critic_loss(q, target, pointwise_loss=pointwise_loss)
  legal = jnp.take_along_axis(mask, a_tm1[..., None], axis=-1)[..., 0]
  checks.legal_actions('a_tm1', legal, mask)
  # The target of such a row may be anything, too.
  q, target = jnp.where(legal, q, 0.0), jnp.where(legal, target, 0.0)
  return jnp.where(legal, twin_critic_loss(q, target, pointwise_loss=pointwise_loss), 0.0)
