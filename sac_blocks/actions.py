"""The kinds of action, as records that the algorithm's parts ask.

All of Soft Actor-Critic is one quantity, the soft value of a policy pi,

  V(s) = E_a[ reduce(Q(s, a)) - alpha log pi(a | s) ],

towards which critics regress and which actors climb. Kinds of action differ in how the expectation is taken,
by a reparameterised sample, exactly, or by a sum over branches of samples, and in how Q of an action taken is
read. A further kind is a further record.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

from sac_blocks.densities import masked_softmax
from sac_blocks.losses.critic import q_at_action
from sac_blocks.losses.hybrid import hybrid_soft_value
from sac_blocks.losses.temperature import continuous_target_entropy, discrete_target_entropy
from sac_blocks.losses.values import categorical_soft_value, soft_value
from sac_blocks.types import Actions, Array, Info, PRNGKey, PyTree, ReduceFn, SoftValue

__all__ = ['continuous_target', 'discrete_target', 'enumerated', 'hybrid', 'sampled']

#: The part of the largest entropy that discrete policies are held to: at half of log 2 the better of two
#: actions has a probability of 0.89.
TARGET_ENTROPY_RATIO = 0.5


def sampled(num_dimensions: int) -> Actions:
  """Makes the kind of continuous actions, whose expectations one reparameterised sample estimates.

  Args:
    num_dimensions: D, at least 1.

  Returns:
    The kind. Its policies are `Distribution`s over actions `[..., D]` in [-1, 1], distrax's too; its critics
    take an action and give `[N, ...]`; the target entropy is -D.

  Raises:
    ValueError: D is below 1.

  >>> sampled(6).target_entropy
  -6.0

  Reference: Haarnoja et al. 2018, eqs. 3 and 7, arXiv 1812.05905.
  """

  def value(
    policy: Any, critic: Callable[..., Array], alpha: PyTree, reduce: ReduceFn, key: PRNGKey | None
  ) -> SoftValue:
    action, log_prob = policy.sample_and_log_prob(seed=key)
    q = critic(action)
    return SoftValue(soft_value(q, log_prob, alpha, reduce=reduce, key=_reduce_key(key)), -log_prob)

  return Actions(
    soft_value=value,
    taken=lambda policy, critic, action: critic(action),
    greedy=_mode,
    uniform=_uniform_in_the_box,
    target_entropy=continuous_target_entropy(num_dimensions),
    num_dimensions=num_dimensions,
  )


def enumerated(num_actions: int) -> Actions:
  """Makes the kind of discrete and factored actions, whose expectations are exact sums.

  Args:
    num_actions: A, the number of (joint) actions, at least 1.

  Returns:
    The kind. Its policies are `DiscreteDistribution`s, distrax's `Categorical` too; its critics take no
    action and give `[N, ..., A]`; the target entropy is half of the largest that a state's legal actions
    allow.

  Raises:
    ValueError: A is below 1.

  >>> enumerated(4).num_actions
  4

  Reference: Christodoulou 2019, eqs. 10 to 12, arXiv 1910.07207.
  """
  if num_actions < 1:
    raise ValueError(f'num_actions must be at least 1, got {num_actions}.')

  def value(
    policy: Any, critic: Callable[..., Array], alpha: PyTree, reduce: ReduceFn, key: PRNGKey | None
  ) -> SoftValue:
    logits = policy.logits
    law = masked_softmax(logits)
    v = categorical_soft_value(critic(), logits, alpha, reduce=reduce, key=_reduce_key(key))
    return SoftValue(v, law.entropy(), law.mask)

  def taken(policy: Any, critic: Callable[..., Array], action: Any) -> Array:
    return q_at_action(critic(), policy.index(action) if hasattr(policy, 'index') else action)

  def uniform(policy: Any, key: PRNGKey) -> Any:
    if hasattr(policy, 'sample_uniformly'):
      return policy.sample_uniformly(seed=key)
    return jax.random.categorical(key, jnp.where(policy.logits == -jnp.inf, -jnp.inf, 0.0))

  return Actions(
    soft_value=value,
    taken=taken,
    greedy=lambda policy: policy.mode(),
    uniform=uniform,
    target_entropy=discrete_target(TARGET_ENTROPY_RATIO),
    num_actions=num_actions,
  )


def hybrid(num_actions: int, num_dimensions: int) -> Actions:
  """Makes the kind of a discrete choice with a continuous action, a temperature for each part.

  The expectation over the choice is exact, that over the continuous action is estimated by one sample for
  every branch.

  Args:
    num_actions: A, the number of branches, at least 1.
    num_dimensions: D, of the continuous action, at least 1.

  Returns:
    The kind. Its policies are `Hybrid`s, its actions dicts of `discrete` and `continuous`; its critics take a
    continuous action for each branch, `[..., A, D]`, and give `[N, ..., A]`; entropies, temperatures and
    target entropies are dicts of the two parts.

  Raises:
    ValueError: A or D is below 1.

  >>> hybrid(3, 2).parts
  ('discrete', 'continuous')

  Reference: Delalleau et al. 2019, arXiv 1912.11077.
  """
  if num_actions < 1:
    raise ValueError(f'num_actions must be at least 1, got {num_actions}.')

  def value(
    policy: Any, critic: Callable[..., Array], alpha: PyTree, reduce: ReduceFn, key: PRNGKey | None
  ) -> SoftValue:
    x, log_prob = policy.sample_branches(seed=key)
    logits = policy.categorical.logits
    v = hybrid_soft_value(
      critic(x),
      logits,
      log_prob,
      alpha['discrete'],
      alpha['continuous'],
      reduce=reduce,
      key=_reduce_key(key),
    )
    law = masked_softmax(logits)
    entropy = {'discrete': law.entropy(), 'continuous': law.expectation(-log_prob)}
    return SoftValue(v, entropy, law.mask)

  def taken(policy: Any, critic: Callable[..., Array], action: Any) -> Array:
    del policy
    choice, x = action['discrete'], action['continuous']
    if jnp.shape(x) != (*jnp.shape(choice), num_dimensions):
      raise ValueError(
        f"The action's 'continuous' must be [..., {num_dimensions}] where 'discrete' is [...], got "
        f'{jnp.shape(x)} and {jnp.shape(choice)}.'
      )
    # In all branches, as critics take it; only the entry of the branch taken is read.
    return q_at_action(critic(jnp.repeat(x[..., None, :], num_actions, axis=-2)), choice)

  return Actions(
    soft_value=value,
    taken=taken,
    greedy=lambda policy: policy.mode(),
    uniform=lambda policy, key: policy.sample_uniformly(seed=key),
    target_entropy={
      'discrete': discrete_target(TARGET_ENTROPY_RATIO),
      'continuous': continuous_target(num_dimensions),
    },
    parts=('discrete', 'continuous'),
    num_dimensions=num_dimensions,
    num_actions=num_actions,
  )


def discrete_target(ratio: Array | float | Callable[[Info], Any]) -> Callable[[Info], Array]:
  """Makes the target entropy of enumerated actions, for each state by its number of legal ones.

  Args:
    ratio: a part of the largest entropy, a scalar in [0, 1], or a function of `info` that gives one.

  Returns:
    A function of `info`, which holds the actor objective's `legal` `[B, A]`, to nats `[B]`.

  >>> discrete_target(0.5)({'legal': jnp.array([[True, True, False]])})
  Array([0.3465736], dtype=float32)

  Reference: `sac_blocks.discrete_target_entropy`.
  """
  return lambda info: discrete_target_entropy(info['legal'], ratio(info) if callable(ratio) else ratio)


def continuous_target(num_dimensions: int, scale: Array | float = 1.0) -> Callable[[Info], Array]:
  """Makes the target entropy of a hybrid's continuous action.

  Args:
    num_dimensions: D.
    scale: a scalar, nats below zero for each dimension.

  Returns:
    A function of `info`, which holds the actor objective's `legal` `[B, A]`, to nats `[B]`: 0 where nothing
    is legal, as the entropy is there, so that there is nothing to learn from.

  >>> continuous_target(2)({'legal': jnp.array([[True, False], [False, False]])})
  Array([-2.,  0.], dtype=float32...)

  Reference: `sac_blocks.continuous_target_entropy`.
  """
  target = continuous_target_entropy(num_dimensions, scale)
  return lambda info: jnp.where(jnp.any(info['legal'], axis=-1), target, 0.0)


def _reduce_key(key: PRNGKey | None) -> PRNGKey | None:
  # The key itself is the sample's.
  return None if key is None else jax.random.fold_in(key, 1)


def _mode(policy: Any) -> Array:
  """The mode; where a transformed law has none in closed form, that of the law within, transformed."""
  try:
    return policy.mode()
  except NotImplementedError:
    if hasattr(policy, 'bijector'):
      return policy.bijector.forward(_mode(policy.distribution))
    if hasattr(policy, 'distribution'):
      return _mode(policy.distribution)
    raise


def _uniform_in_the_box(policy: Any, key: PRNGKey) -> Array:
  if hasattr(policy, 'sample_uniformly'):
    return policy.sample_uniformly(seed=key)
  if not hasattr(policy, 'batch_shape') or not hasattr(policy, 'event_shape'):
    raise TypeError(
      'Uniform actions need a policy with `sample_uniformly(seed=)`, or with `batch_shape` and `event_shape` '
      f'as distrax has them, got {type(policy).__name__}.'
    )
  return jax.random.uniform(key, (*policy.batch_shape, *policy.event_shape), minval=-1.0, maxval=1.0)
