"""Values, targets and the actor's loss over hybrid actions, a choice with a continuous action."""

from __future__ import annotations

from typing import NamedTuple

import jax

from sac_blocks import checks, reductions
from sac_blocks.densities import masked_softmax
from sac_blocks.losses.values import bellman_target, categorical_soft_value
from sac_blocks.types import Array, PRNGKey, ReduceFn


class HybridEntropies(NamedTuple):
  """The entropies of the two parts of a hybrid policy.

  Attributes:
    discrete: `[...]`, of the choice, exact, in nats.
    continuous: `[...]`, of the continuous action given the choice, in nats: the estimates `-log_prob` of the
      branches, expected under the choice.
  """

  discrete: Array
  continuous: Array


def hybrid_soft_value(
  q: Array,
  logits: Array,
  log_prob: Array,
  alpha_discrete: Array | float,
  alpha_continuous: Array | float,
  mask: Array | None = None,
  *,
  reduce: ReduceFn = reductions.minimum,
  key: PRNGKey | None = None,
) -> Array:
  r"""Estimates the soft state value of a hybrid policy from one continuous action for each branch.

  $$V = \sum_k p_k \left(\min_i q_{ik} - \alpha_d \log p_k - \alpha_c \log\pi(x_k \mid k)\right),
      \quad p = \mathrm{softmax}(\text{logits}),\ x_k \sim \pi(\cdot \mid k)$$

  The expectation over the branches is exact. The two parts have a temperature each, since the entropies of
  choices and of densities are on different scales.

  Args:
    q: `[N, ..., A]`, values of the branches, each at its own $x_k$, under N critics; anything, NaN
      included, for illegal ones.
    logits: `[..., A]`, of the choice; minus infinity is illegal.
    log_prob: `[..., A]`, the log-probability of $x_k$ given the branch k, in nats; anything for illegal ones.
    alpha_discrete: the choice's temperature, a scalar or `[...]`, at least 0, in units of reward per nat.
    alpha_continuous: that of the continuous action, a scalar or `[...]`, at least 0.
    mask: `[..., A]` bool or integer, nonzero where a branch is legal; None for all.
    reduce: as in `soft_value`, for every branch by itself.
    key: consumed by a reduction that draws.

  Returns:
    `[...]`, the soft value; gradients flow to every argument but those of illegal branches, which get
    exactly 0. A row without any legal branch, as a terminal state may have, has the value 0.

  Raises:
    ValueError: the shapes don't fit, or a temperature is negative.
    TypeError: the mask is a floating array.

  >>> import jax.numpy as jnp
  >>> q, log_prob = jnp.array([[1.0, 2.0], [3.0, 0.0]]), jnp.array([-1.0, -2.0])
  >>> hybrid_soft_value(q, jnp.zeros(2), log_prob, alpha_discrete=0.0, alpha_continuous=0.5)
  Array(1.25, dtype=float32)

  Reference: Delalleau et al. 2019, arXiv 1912.11077; Christodoulou 2019, eq. 10, arXiv 1910.07207, and
  Haarnoja et al. 2018, eq. 3, arXiv 1812.05905, for the two parts.
  """
  q, logits, log_prob, alpha_discrete, alpha_continuous = checks.as_floats(
    q=q,
    logits=logits,
    log_prob=log_prob,
    alpha_discrete=alpha_discrete,
    alpha_continuous=alpha_continuous,
  )
  checks.same_shape(logits=logits, log_prob=log_prob)
  continuous_entropy = masked_softmax(logits, mask).expectation(-log_prob)
  for name, alpha in (('alpha_discrete', alpha_discrete), ('alpha_continuous', alpha_continuous)):
    checks.in_range(name, alpha, 0.0)
    checks.scalar_or_like(name, alpha, entropy=continuous_entropy)
  checks.ensemble_shape('q', q, logits=logits)
  value = categorical_soft_value(q, logits, alpha_discrete, mask, reduce=reduce, key=key)
  return value + alpha_continuous * continuous_entropy


def hybrid_soft_q_target(
  r_t: Array,
  discount_t: Array,
  q_t: Array,
  logits_t: Array,
  log_prob_t: Array,
  alpha_discrete: Array | float,
  alpha_continuous: Array | float,
  mask_t: Array | None = None,
  *,
  reduce: ReduceFn = reductions.minimum,
  key: PRNGKey | None = None,
) -> Array:
  r"""Computes the target of critics over hybrid actions, stopped.

  $$y = r_t + \gamma_t \sum_k p_k
      \left(\min_i q_{ik} - \alpha_d \log p_k - \alpha_c \log\pi(x_k \mid k)\right)$$

  Args:
    r_t: `[...]`, rewards.
    discount_t: scalar or `[...]`, final bootstrap factors: gamma included, 0 only at true termination.
    q_t: `[N, ..., A]`, values of the branches at the next state, each at an $x_k$ sampled there, under the
      N target critics.
    logits_t: `[..., A]`, of the choice at the next state; minus infinity is illegal.
    log_prob_t: `[..., A]`, the log-probability of $x_k$ given the branch k, in nats.
    alpha_discrete: the choice's temperature, a scalar or `[...]`; 0 leaves its entropy out of the target.
    alpha_continuous: that of the continuous action, a scalar or `[...]`, likewise.
    mask_t: `[..., A]` bool or integer, nonzero where a branch is legal at the next state; None for all. It
      may be empty where `discount_t` is 0.
    reduce: as in `soft_value`, for every branch by itself.
    key: consumed by a reduction that draws.

  Returns:
    `[...]`, the targets; no gradient flows through them.

  Raises:
    ValueError: the shapes don't fit, a temperature is negative, or a state that isn't terminal has no legal
      branch. Under a trace the last can't be seen: its value counts as 0 there.
    TypeError: the mask is a floating array.

  >>> import jax.numpy as jnp
  >>> q_t, log_prob_t = jnp.array([[1.0, 3.0]]), jnp.array([-1.0, -3.0])
  >>> hybrid_soft_q_target(jnp.array(1.0), jnp.array(0.5), q_t, jnp.zeros(2), log_prob_t, 0.0, 0.1)
  Array(2.1, dtype=float32)

  Reference: Delalleau et al. 2019, arXiv 1912.11077; Haarnoja et al. 2018, eqs. 2 and 6, arXiv 1812.05905.
  """
  r_t, discount_t, q_t, logits_t, log_prob_t = checks.as_floats(
    r_t=r_t, discount_t=discount_t, q_t=q_t, logits_t=logits_t, log_prob_t=log_prob_t
  )
  checks.same_shape(logits_t=logits_t, log_prob_t=log_prob_t)
  checks.ensemble_shape('q_t', q_t, logits_t=logits_t)
  checks.ensemble_shape('q_t', q_t, trailing=1, r_t=r_t)
  checks.scalar_or_like('discount_t', discount_t, r_t=r_t)
  if mask_t is not None:
    mask_t = checks.as_mask('mask_t', mask_t)
    checks.same_shape(logits_t=logits_t, mask_t=mask_t)
  value = hybrid_soft_value(
    q_t, logits_t, log_prob_t, alpha_discrete, alpha_continuous, mask_t, reduce=reduce, key=key
  )
  checks.legal_unless_terminal(masked_softmax(logits_t, mask_t).mask, discount_t)
  return bellman_target(r_t, discount_t, value)


def hybrid_actor_loss(
  logits: Array,
  log_prob: Array,
  q: Array,
  alpha_discrete: Array | float,
  alpha_continuous: Array | float,
  mask: Array | None = None,
  *,
  reduce: ReduceFn = reductions.minimum,
  key: PRNGKey | None = None,
) -> tuple[Array, HybridEntropies]:
  r"""Computes the loss of a hybrid policy from one reparameterised continuous action for each branch.

  $$L = \sum_k p_k \left(\alpha_d \log p_k + \alpha_c \log\pi(x_k \mid k) - \min_i q_{ik}(x_k)\right)$$

  Args:
    logits: `[..., A]`, of the choice; minus infinity is illegal.
    log_prob: `[..., A]`, the log-probability of $x_k$ given the branch k, in nats; anything for illegal ones.
    q: `[N, ..., A]`, values of the branches, each at its own $x_k$, under N critics; anything, NaN
      included, for illegal ones.
    alpha_discrete: the choice's temperature, a scalar or `[...]`.
    alpha_continuous: that of the continuous action, a scalar or `[...]`.
    mask: `[..., A]` bool or integer, nonzero where a branch is legal; None for all.
    reduce: as in `soft_value`, for every branch by itself.
    key: consumed by a reduction that draws.

  Returns:
    The loss `[...]`, and both entropies `[...]` in nats, for the temperature losses to reuse. The loss
    differentiates through `logits`, `log_prob` and `q`: the policy gradient reaches the Gaussians through the
    actions that `q` was computed at. All are 0 in a row without any legal branch.

  Raises:
    ValueError: the shapes don't fit, or a temperature is negative.
    TypeError: the mask is a floating array.

  >>> import jax.numpy as jnp
  >>> logits, log_prob = jnp.log(jnp.array([0.25, 0.75])), jnp.array([-1.0, -2.0])
  >>> loss, entropies = hybrid_actor_loss(logits, log_prob, jnp.array([[4.0, 8.0]]), 0.0, 0.2)
  >>> loss, entropies.discrete, entropies.continuous
  (Array(-7.35, dtype=float32), Array(0.562335, dtype=float32), Array(1.75, dtype=float32))

  Reference: Delalleau et al. 2019, arXiv 1912.11077; Christodoulou 2019, eq. 12, arXiv 1910.07207, and
  Haarnoja et al. 2018, eq. 7, arXiv 1812.05905, for the two parts.
  """
  alpha_discrete, alpha_continuous = jax.lax.stop_gradient((alpha_discrete, alpha_continuous))
  loss = -hybrid_soft_value(
    q, logits, log_prob, alpha_discrete, alpha_continuous, mask, reduce=reduce, key=key
  )
  logits, log_prob = checks.as_floats(logits=logits, log_prob=log_prob)
  policy = masked_softmax(logits, mask)
  return loss, HybridEntropies(policy.entropy(), policy.expectation(-log_prob))
