"""Soft values and bootstrapped targets."""

from __future__ import annotations

import functools

import jax
import jax.numpy as jnp

from sac_blocks import checks, reductions
from sac_blocks.densities import masked_softmax
from sac_blocks.types import Array, PRNGKey, ReduceFn


def soft_value(
  q: Array,
  log_prob: Array,
  alpha: Array | float,
  *,
  reduce: ReduceFn = reductions.minimum,
  key: PRNGKey | None = None,
) -> Array:
  r"""Estimates the soft state value from one sampled action.

  $$V = \min_i q_i - \alpha \log\pi(a)$$

  Args:
    q: `[N, ...]`, values of the sampled action under N critics.
    log_prob: `[...]`, its log-probability, in nats.
    alpha: the temperature, a scalar or `[...]`, at least 0, in units of reward per nat.
    reduce: what stands for Q instead of the minimum over critics, one of `sac_blocks.reductions` or your own.
    key: consumed by a reduction that draws.

  Returns:
    `[...]`, the soft value; gradients flow to every argument.

  Raises:
    ValueError: the shapes don't fit, or `alpha` is negative.

  >>> soft_value(jnp.array([5.0, 4.0]), jnp.array(-2.0), 0.1)
  Array(4.2, dtype=float32)

  Reference: Haarnoja et al. 2018, eq. 3, arXiv 1812.05905; minimum over critics: Fujimoto et al. 2018,
  arXiv 1802.09477.
  """
  q, log_prob, alpha = checks.as_floats(q=q, log_prob=log_prob, alpha=alpha)
  checks.in_range('alpha', alpha, 0.0)
  checks.ensemble_shape('q', q, log_prob=log_prob)
  checks.scalar_or_like('alpha', alpha, log_prob=log_prob)
  return reductions.apply(reduce, q, key) - alpha * log_prob


def categorical_soft_value(
  q: Array,
  logits: Array,
  alpha: Array | float,
  mask: Array | None = None,
  *,
  reduce: ReduceFn = reductions.minimum,
  key: PRNGKey | None = None,
) -> Array:
  r"""Computes the soft state value of a policy over discrete actions, exactly.

  $$V = \sum_a p_a \left(\min_i q_{ia} - \alpha \log p_a\right), \quad p = \mathrm{softmax}(\text{logits})$$

  Args:
    q: `[N, ..., A]`, values of all actions under N critics; anything, NaN included, for illegal ones.
    logits: `[..., A]`, of the policy; minus infinity is illegal.
    alpha: the temperature, a scalar or `[...]`, at least 0, in units of reward per nat.
    mask: `[..., A]` bool or integer, nonzero where an action is legal; None for all.
    reduce: as in `soft_value`, for every action by itself.
    key: consumed by a reduction that draws.

  Returns:
    `[...]`, the soft value; gradients flow to every argument but those of illegal actions, which get
    exactly 0. A row without any legal action, as a terminal state may have, has the value 0.

  Raises:
    ValueError: the shapes don't fit, or `alpha` is negative.
    TypeError: the mask is a floating array.

  >>> categorical_soft_value(jnp.array([[1.0, 2.0, 100.0]]), jnp.zeros(3), 0.2, jnp.array([1, 1, 0]))
  Array(1.6386294, dtype=float32)

  Reference: Christodoulou 2019, eq. 10, arXiv 1910.07207.
  """
  q, logits, alpha = checks.as_floats(q=q, logits=logits, alpha=alpha)
  checks.in_range('alpha', alpha, 0.0)
  policy = masked_softmax(logits, mask)
  checks.ensemble_shape('q', q, logits=logits)
  entropy = policy.entropy()
  checks.scalar_or_like('alpha', alpha, entropy=entropy)
  return policy.expectation(reductions.apply(reduce, jnp.where(policy.mask, q, 0.0), key)) + alpha * entropy


def bellman_target(r_t: Array, discount_t: Array, v_t: Array) -> Array:
  r"""Backs up the value of the state arrived at, stopped.

  $$y = r_t + \gamma_t V(s_t)$$

  Args:
    r_t: `[...]`, rewards.
    discount_t: scalar or `[...]`, final bootstrap factors: gamma included, 0 only at true termination.
    v_t: `[...]`, values of the states arrived at, soft ones in Soft Actor-Critic.

  Returns:
    `[...]`, the targets; no gradient flows through them.

  Raises:
    ValueError: the shapes don't fit.

  >>> bellman_target(jnp.array([1.0, 1.0]), jnp.array([0.99, 0.0]), jnp.array([10.0, 10.0]))
  Array([10.9, 1. ], dtype=float32)

  Reference: Haarnoja et al. 2018, eq. 2, arXiv 1812.05905.
  """
  r_t, discount_t, v_t = checks.as_floats(r_t=r_t, discount_t=discount_t, v_t=v_t)
  checks.same_shape(r_t=r_t, v_t=v_t)
  checks.scalar_or_like('discount_t', discount_t, r_t=r_t)
  return jax.lax.stop_gradient(r_t + discount_t * v_t)


def soft_q_target(
  r_t: Array,
  discount_t: Array,
  q_t: Array,
  log_prob_t: Array,
  alpha: Array | float,
  *,
  reduce: ReduceFn = reductions.minimum,
  key: PRNGKey | None = None,
) -> Array:
  r"""Computes the target of the critics, stopped.

  $$y = r_t + \gamma_t \left(\min_i q_i(s_t, a) - \alpha \log\pi(a \mid s_t)\right), \quad a \sim \pi(s_t)$$

  Args:
    r_t: `[...]`, rewards.
    discount_t: scalar or `[...]`, final bootstrap factors: gamma included, 0 only at true termination.
    q_t: `[N, ...]`, values of an action sampled at the next state, under the N target critics.
    log_prob_t: `[...]`, the log-probability of that action, in nats.
    alpha: the temperature, a scalar or `[...]`; 0 leaves the entropy out of the target.
    reduce: as in `soft_value`.
    key: consumed by a reduction that draws.

  Returns:
    `[...]`, the targets; no gradient flows through them.

  Raises:
    ValueError: the shapes don't fit, or `alpha` is negative.

  >>> soft_q_target(jnp.array(1.0), jnp.array(0.99), jnp.array([5.0, 4.0]), jnp.array(-2.0), 0.1)
  Array(5.158, dtype=float32)

  Reference: Haarnoja et al. 2018, eqs. 2, 3 and 6, arXiv 1812.05905.
  """
  r_t, discount_t, q_t, log_prob_t, alpha = checks.as_floats(
    r_t=r_t, discount_t=discount_t, q_t=q_t, log_prob_t=log_prob_t, alpha=alpha
  )
  checks.same_shape(r_t=r_t, log_prob_t=log_prob_t)
  checks.ensemble_shape('q_t', q_t, log_prob_t=log_prob_t)
  return bellman_target(r_t, discount_t, soft_value(q_t, log_prob_t, alpha, reduce=reduce, key=key))


def categorical_soft_q_target(
  r_t: Array,
  discount_t: Array,
  q_t: Array,
  logits_t: Array,
  alpha: Array | float,
  mask_t: Array | None = None,
  *,
  reduce: ReduceFn = reductions.minimum,
  key: PRNGKey | None = None,
) -> Array:
  r"""Computes the target of critics over discrete actions, stopped.

  $$y = r_t + \gamma_t \sum_a p_a \left(\min_i q_{ia} - \alpha \log p_a\right)$$

  Args:
    r_t: `[...]`, rewards.
    discount_t: scalar or `[...]`, final bootstrap factors: gamma included, 0 only at true termination.
    q_t: `[N, ..., A]`, values of all actions at the next state, under the N target critics.
    logits_t: `[..., A]`, of the policy at the next state; minus infinity is illegal.
    alpha: the temperature, a scalar or `[...]`; 0 leaves the entropy out of the target.
    mask_t: `[..., A]` bool or integer, nonzero where an action is legal at the next state; None for all. It
      may be empty where `discount_t` is 0.
    reduce: as in `soft_value`, for every action by itself.
    key: consumed by a reduction that draws.

  Returns:
    `[...]`, the targets; no gradient flows through them.

  Raises:
    ValueError: the shapes don't fit, `alpha` is negative, or a state that isn't terminal has no legal
      action. Under a trace the last can't be seen: its value counts as 0 there.
    TypeError: the mask is a floating array.

  >>> categorical_soft_q_target(jnp.array(1.0), jnp.array(0.5), jnp.array([[1.0, 3.0]]), jnp.zeros(2), 0.0)
  Array(2., dtype=float32)

  Reference: Christodoulou 2019, eqs. 2 and 10, arXiv 1910.07207.
  """
  r_t, discount_t, q_t, logits_t, alpha = checks.as_floats(
    r_t=r_t, discount_t=discount_t, q_t=q_t, logits_t=logits_t, alpha=alpha
  )
  checks.ensemble_shape('q_t', q_t, logits_t=logits_t)
  checks.ensemble_shape('q_t', q_t, trailing=1, r_t=r_t)
  if mask_t is not None:
    mask_t = checks.as_mask('mask_t', mask_t)
    checks.same_shape(logits_t=logits_t, mask_t=mask_t)
  value = categorical_soft_value(q_t, logits_t, alpha, mask_t, reduce=reduce, key=key)
  target = bellman_target(r_t, discount_t, value)
  checks.legal_unless_terminal(masked_softmax(logits_t, mask_t).mask, discount_t)
  return target


def n_step_soft_q_target(r_t: Array, discount_t: Array, v_t: Array, n: int) -> Array:
  r"""Computes n-step bootstrapped targets over soft values along a trajectory, stopped.

  $$y_t = \sum_{k=0}^{n-1} \Big(\prod_{j<k} \gamma_{t+j}\Big) r_{t+k}
      + \Big(\prod_{j<n} \gamma_{t+j}\Big) V_{t+n-1}$$

  Near the end of the trajectory the windows shorten and bootstrap from the last value. For the entropies
  of the steps in between to count, add $\alpha$ times them to `r_t`, as soft returns do.

  Args:
    r_t: `[T, ...]`, rewards.
    discount_t: `[T, ...]`, discounts of the single steps, gamma included, 0 at termination.
    v_t: `[T, ...]`, soft values of the states arrived at, so `v_t[k]` belongs to the state after `r_t[k]`.
    n: the number of steps, at least 1.

  Returns:
    `[T, ...]`, the targets of the states that the steps left; no gradient flows through them.

  Raises:
    ValueError: the shapes differ, lack the time axis, or `n` is below 1.

  >>> r, g, v = jnp.array([1.0, 2.0, 3.0]), jnp.full(3, 0.5), jnp.full(3, 10.0)
  >>> n_step_soft_q_target(r, g, v, n=3)
  Array([4., 6., 8.], dtype=float32)

  Reference: Sutton and Barto 2018, eq. 7.1; `rlax.n_step_bootstrapped_returns`, which does the sum.
  """
  r_t, discount_t, v_t = checks.as_floats(r_t=r_t, discount_t=discount_t, v_t=v_t)
  checks.same_shape(r_t=r_t, discount_t=discount_t, v_t=v_t)
  if r_t.ndim < 1:
    raise ValueError('r_t, discount_t and v_t must lead with a time axis [T, ...], got scalars.')
  if n < 1:
    raise ValueError(f'n must be at least 1, got {n}.')
  # Imported here since rlax brings distrax and with it, where installed, TensorFlow: seconds of start-up
  # that users of the other primitives shouldn't pay.
  import rlax

  # rlax takes one trajectory; a loop over the trailing axes is a vmap each.
  returns = functools.partial(rlax.n_step_bootstrapped_returns, n=n, stop_target_gradients=True)
  for _ in range(r_t.ndim - 1):
    returns = jax.vmap(returns, in_axes=-1, out_axes=-1)
  # Under x64 rlax mixes in float64 of its own.
  return jnp.asarray(returns(r_t, discount_t, v_t), r_t.dtype)
