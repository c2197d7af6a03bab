"""Losses of the actor."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import jax

from sac_blocks import reductions
from sac_blocks.densities import masked_softmax, sample_tanh_gaussian
from sac_blocks.losses.values import categorical_soft_value, soft_value
from sac_blocks.types import Array, PRNGKey, ReduceFn


class ActorSample(NamedTuple):
  """The action that an actor loss was computed from.

  Attributes:
    action: `[..., D]`, in [-1, 1].
    log_prob: `[...]`, its log-probability, in nats.
  """

  action: Array
  log_prob: Array


def soft_policy_loss(
  log_prob: Array,
  q: Array,
  alpha: Array | float,
  *,
  reduce: ReduceFn = reductions.minimum,
  key: PRNGKey | None = None,
) -> Array:
  r"""Computes the loss of a reparameterised policy from one sampled action.

  $$L = \alpha \log\pi(a) - \min_i q_i(a)$$

  Args:
    log_prob: `[...]`, the log-probability of the action, in nats.
    q: `[N, ...]`, values of the action under N critics.
    alpha: the temperature, a scalar or `[...]`.
    reduce: as in `soft_value`.
    key: consumed by a reduction that draws.

  Returns:
    `[...]`, one loss per example. It differentiates through both `log_prob` and `q`: the policy gradient
    reaches the actor through the action that `q` was computed at.

  Raises:
    ValueError: the shapes don't fit, or `alpha` is negative.

  >>> import jax.numpy as jnp
  >>> soft_policy_loss(jnp.array(-2.0), jnp.array([5.0, 4.0]), 0.1)
  Array(-4.2, dtype=float32)

  Reference: Haarnoja et al. 2018, eq. 7, arXiv 1812.05905.
  """
  return -soft_value(q, log_prob, alpha, reduce=reduce, key=key)


def tanh_gaussian_actor_loss(
  loc: Array,
  scale: Array,
  critic: Callable[[Array], Array],
  alpha: Array | float,
  key: PRNGKey,
) -> tuple[Array, ActorSample]:
  r"""Computes the actor loss of a tanh-Gaussian policy at one reparameterised action.

  $$L = \alpha \log\pi(a) - \min_i q_i(a), \quad a = \tanh(\mu + \sigma \epsilon),
      \ \epsilon \sim \mathcal{N}(0, I)$$

  Args:
    loc: `[..., D]`, means before the tanh.
    scale: `[..., D]`, positive standard deviations before the tanh.
    critic: maps an action `[..., D]` to values `[N, ...]`; the gradient flows through it to the action.
    alpha: the temperature, a scalar or `[...]`.
    key: consumed.

  Returns:
    The loss `[...]` and the sampled action with its log-probability, for the temperature loss to reuse.

  Raises:
    ValueError: the shapes don't fit, or `alpha` is negative.

  >>> import jax, jax.numpy as jnp
  >>> loss, sample = tanh_gaussian_actor_loss(
  ...     jnp.zeros((4, 2)), jnp.ones((4, 2)), lambda a: jnp.zeros((2, 4)), 0.1, jax.random.key(0))
  >>> loss.shape, sample.action.shape, sample.log_prob.shape
  ((4,), (4, 2), (4,))

  Reference: Haarnoja et al. 2018, eq. 7 and appendix C, arXiv 1812.05905.
  """
  sample = ActorSample(*sample_tanh_gaussian(loc, scale, key))
  return soft_policy_loss(sample.log_prob, critic(sample.action), alpha), sample


def categorical_actor_loss(
  logits: Array,
  q: Array,
  alpha: Array | float,
  mask: Array | None = None,
  *,
  reduce: ReduceFn = reductions.minimum,
  key: PRNGKey | None = None,
) -> tuple[Array, Array]:
  r"""Computes the loss of a policy over discrete actions, exactly.

  $$L = \sum_a p_a \left(\alpha \log p_a - \mathrm{sg}(\min_i q_{ia})\right),
      \quad p = \mathrm{softmax}(\text{logits})$$

  Args:
    logits: `[..., A]`, of the policy; minus infinity is illegal.
    q: `[N, ..., A]`, values of all actions under N critics; anything, NaN included, for illegal ones.
    alpha: the temperature, a scalar or `[...]`.
    mask: `[..., A]` bool or integer, nonzero where an action is legal; None for all.
    reduce: as in `soft_value`, for every action by itself.
    key: consumed by a reduction that draws.

  Returns:
    The loss `[...]`, which differentiates with respect to `logits` only, and the policy's entropy `[...]` in
    nats, for the temperature loss to reuse. Both are 0 in a row without any legal action.

  Raises:
    ValueError: the shapes don't fit, or `alpha` is negative.
    TypeError: the mask is a floating array.

  >>> import jax.numpy as jnp
  >>> loss, entropy = categorical_actor_loss(jnp.array([200.0, 0.0, 0.0]), jnp.array([[1.0, 2.0, 3.0]]), 0.2)
  >>> loss, entropy
  (Array(-1., dtype=float32), Array(0., dtype=float32))

  Reference: Christodoulou 2019, eq. 12, arXiv 1910.07207.
  """
  q, alpha = jax.lax.stop_gradient((q, alpha))
  losses = -categorical_soft_value(q, logits, alpha, mask, reduce=reduce, key=key)
  return losses, masked_softmax(logits, mask).entropy()
