"""What objectives share in their use of ensembles of critics."""

from __future__ import annotations

from collections.abc import Callable

import jax.numpy as jnp

from sac_blocks import checks
from sac_blocks.losses.critic import categorical_twin_critic_loss, q_at_action, soft_td_error
from sac_blocks.types import Array, Transition


def reduction(over_critics: str) -> Callable[[Array], Array]:
  """Makes the function from q `[N, ..., A]` to the ensemble that the losses take the minimum of.

  Args:
    over_critics: `'min'` or `'mean'`.

  Returns:
    A function of q, which leaves the critics' axis in its place.

  Raises:
    ValueError: `over_critics` is neither.
  """
  if over_critics not in ('min', 'mean'):
    raise ValueError(f"over_critics must be 'min' or 'mean', got {over_critics!r}.")
  return (lambda q: jnp.mean(q, axis=0, keepdims=True)) if over_critics == 'mean' else lambda q: q


def regression(
  q_tm1: Array,
  a_tm1: Array,
  target: Array,
  batch: Transition,
  pointwise_loss: Callable[[Array, Array], Array],
) -> tuple[Array, dict[str, Array]]:
  """Computes the critics' loss of a batch, and what is reported of it.

  Args:
    q_tm1: `[N, B, A]`, values of all actions.
    a_tm1: int `[B]`, the places of the actions taken.
    target: `[B]`.
    batch: for its `weights`.
    pointwise_loss: as in `twin_critic_loss`.

  Returns:
    The mean over examples of `categorical_twin_critic_loss`, weighted if the batch has weights, and a dict of
    `td_error` `[N, B]` and the scalar `q_mean`, both at the actions taken.
  """
  losses = categorical_twin_critic_loss(q_tm1, a_tm1, target, pointwise_loss=pointwise_loss)
  return summary(losses, q_at_action(q_tm1, a_tm1), target, batch)


def summary(losses: Array, q_tm1: Array, target: Array, batch: Transition) -> tuple[Array, dict[str, Array]]:
  """Reduces the critics' losses over examples, and reports on the values that they are of.

  Args:
    losses: `[B]`.
    q_tm1: `[N, B]`, values of the actions taken.
    target: `[B]`.
    batch: for its `weights`.

  Returns:
    The mean of the losses, weighted if the batch has weights, and a dict of `td_error` `[N, B]` and the
    scalar `q_mean`.
  """
  if batch.weights is not None:
    checks.same_shape(weights=batch.weights, r_t=batch.r_t)
    losses = batch.weights * losses
  return jnp.mean(losses), {'td_error': soft_td_error(q_tm1, target), 'q_mean': jnp.mean(q_tm1)}
