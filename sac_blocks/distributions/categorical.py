"""Policies over discrete actions, some of which may be illegal."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp

from sac_blocks import checks
from sac_blocks.types import Array, PRNGKey


@jax.tree_util.register_pytree_node_class
class Categorical:
  r"""The law of one of A actions, of which only the legal ones can be drawn.

  $$p_a = \frac{m_a e^{l_a}}{\sum_b m_b e^{l_b}}, \quad H = -\sum_{a: m_a} p_a \log p_a$$

  Illegal actions contribute exactly 0 to entropy and gradients, whatever their logits are, NaN included. A
  row without any legal action, as a terminal state may have, has probabilities and entropy 0; what is drawn
  from it means nothing. The methods follow distrax.

  Args:
    logits: `[..., A]`, unnormalised log-probabilities; minus infinity is illegal, too.
    mask: `[..., A]` bool or integer, nonzero where an action is legal; None for all.

  Raises:
    ValueError: the shapes differ or lack the action axis.
    TypeError: the mask is a floating array: an additive mask of 0 and minus infinity would mean the opposite.

  >>> pi = Categorical(jnp.array([1.0, 2.0, 5.0]), mask=jnp.array([True, True, False]))
  >>> pi.entropy()
  Array(0.582203, dtype=float32)
  >>> pi.mode()
  Array(1, dtype=int32)

  Reference: Huang and Ontañón 2020, section 3, arXiv 2006.14171, for the gradient under a mask.
  """

  def __init__(self, logits: Array, mask: Array | None = None):
    (logits,) = checks.as_floats(logits=logits)
    if logits.ndim < 1 or logits.shape[-1] == 0:
      raise ValueError(f'logits must end with the axis of A >= 1 actions [..., A], got {logits.shape}.')
    # Not isfinite: a NaN is a policy that diverged, and has to show.
    self.mask = logits != -jnp.inf
    if mask is not None:
      mask = checks.as_mask('mask', mask)
      checks.same_shape(logits=logits, mask=mask)
      self.mask &= mask
    # Masked before, to keep illegal logits out of the sum, and after, to keep 0 * inf out of gradients.
    any_legal = jnp.any(self.mask, axis=-1, keepdims=True)
    log_probs = jax.nn.log_softmax(jnp.where(self.mask, logits, jnp.where(any_legal, -jnp.inf, 0.0)))
    self._log_probs = jnp.where(self.mask, log_probs, 0.0)

  @property
  def logits(self) -> Array:
    """The log-probabilities `[..., A]`, minus infinity where illegal."""
    return jnp.where(self.mask, self._log_probs, -jnp.inf)

  @property
  def probs(self) -> Array:
    """The probabilities `[..., A]`, 0 where illegal."""
    return jnp.where(self.mask, jnp.exp(self._log_probs), 0.0)

  @property
  def batch_shape(self) -> tuple[int, ...]:
    """The leading shape `[...]`."""
    return self.mask.shape[:-1]

  @property
  def event_shape(self) -> tuple[int, ...]:
    """The action's shape, `()`."""
    return ()

  @property
  def num_categories(self) -> int:
    """A, the number of actions."""
    return self.mask.shape[-1]

  def expectation(self, values: Array) -> Array:
    r"""Sums values under the probabilities, those of illegal actions left out.

    Args:
      values: `[..., A]`, anything where illegal.

    Returns:
      `[...]`; it differentiates through probabilities and values.
    """
    checks.same_shape(values=values, logits=self.mask)
    return jnp.sum(self.probs * jnp.where(self.mask, values, 0.0), axis=-1)

  def entropy(self) -> Array:
    """Returns the exact entropy `[...]` in nats, 0 where one action or none is legal."""
    return self.expectation(-self._log_probs)

  def log_prob(self, value: Array) -> Array:
    """Returns the log-probability `[...]` of actions `[...]`, minus infinity for illegal ones."""
    value = jnp.asarray(value)
    if value.shape[max(0, value.ndim - len(self.batch_shape)) :] != self.batch_shape:
      raise ValueError(f'value must have the batch shape {self.batch_shape}, got {value.shape}.')
    logits = jnp.broadcast_to(self.logits, (*value.shape, self.num_categories))
    # Counting from the end would make an action of -1 the last one.
    index = jnp.where(value < 0, self.num_categories, value)[..., None]
    return jnp.take_along_axis(logits, index, axis=-1, mode='fill')[..., 0]

  def mode(self) -> Array:
    """Returns the most probable legal action, int32 `[...]`."""
    return jnp.argmax(self.logits, axis=-1).astype(jnp.int32)

  def sample(self, *, seed: PRNGKey, sample_shape: tuple[int, ...] = ()) -> Array:
    """Returns actions drawn, int32 `[*sample_shape, ...]`; the key is consumed."""
    return _draw(seed, self.logits, sample_shape)

  def sample_and_log_prob(self, *, seed: PRNGKey, sample_shape: tuple[int, ...] = ()) -> tuple[Array, Array]:
    """Draws actions together with their log-probabilities.

    Args:
      seed: a key, consumed.
      sample_shape: the shape of independent draws, put before the leading shape.

    Returns:
      The actions, int32 `[...]`, and their log-probabilities `[...]` in nats.
    """
    action = self.sample(seed=seed, sample_shape=sample_shape)
    return action, self.log_prob(action)

  def sample_uniformly(self, *, seed: PRNGKey) -> Array:
    """Returns actions drawn from the legal ones with equal probability, int32 `[...]`."""
    return _draw(seed, jnp.where(self.mask, 0.0, -jnp.inf), ())

  def index(self, action: Array) -> Array:
    """Returns where actions `[...]` stand in `logits`: the actions themselves."""
    return action

  def tree_flatten(self) -> tuple[tuple[Array, Array], None]:
    """Returns the arrays, both `[..., A]`, for JAX."""
    return (self.mask, self._log_probs), None

  @classmethod
  def tree_unflatten(cls, aux: None, children: tuple[Any, Any]) -> Categorical:
    """Returns the distribution rebuilt, without checks: JAX also passes placeholders."""
    del aux
    policy = object.__new__(cls)
    policy.mask, policy._log_probs = children
    return policy


@jax.tree_util.register_pytree_node_class
class FactoredCategorical:
  r"""The law of K independent discrete actions, of which factor k has $n_k$ values.

  $$p_{a_1 \dots a_K} = \prod_k p^k_{a_k}, \quad H = \sum_k H^k$$

  As a law of the $\prod_k n_k$ joint actions it goes wherever a `Categorical` does: `logits` and `index` give
  the joint view, in which the last factor varies fastest.

  Args:
    logits: `[..., sum(sizes)]`, the factors' logits side by side; minus infinity is illegal.
    sizes: the number of values of each factor, as `nvec` of gymnasium's `MultiDiscrete`.
    mask: `[..., sum(sizes)]` bool or integer, nonzero where a value is legal; None for all.

  Raises:
    ValueError: the sizes don't add up to the last axis, or the shapes differ.
    TypeError: the mask is a floating array.

  >>> pi = FactoredCategorical(jnp.zeros(11), sizes=(3, 3, 2, 3))
  >>> pi.logits.shape, pi.mode(), pi.index(jnp.array([0, 0, 1, 2]))
  ((54,), Array([0, 0, 0, 0], dtype=int32), Array(5, dtype=int32))

  Reference: Tavakoli et al. 2018, section 3, arXiv 1711.08946, for independent action branches.
  """

  def __init__(self, logits: Array, sizes: Sequence[int], mask: Array | None = None):
    sizes = tuple(map(int, sizes))
    (logits,) = checks.as_floats(logits=logits)
    if not sizes or min(sizes) < 1 or logits.shape[-1:] != (sum(sizes),):
      raise ValueError(
        f'logits must end with the sizes {sizes} side by side, [..., {sum(sizes)}], got {logits.shape}.'
      )
    if mask is not None:
      mask = checks.as_mask('mask', mask)
      checks.same_shape(logits=logits, mask=mask)
    ends = [sum(sizes[: k + 1]) for k in range(len(sizes))]
    parts = [slice(end - size, end) for end, size in zip(ends, sizes, strict=True)]
    self.factors = tuple(
      Categorical(logits[..., part], None if mask is None else mask[..., part]) for part in parts
    )

  @property
  def sizes(self) -> tuple[int, ...]:
    """The number of values of each factor."""
    return tuple(factor.num_categories for factor in self.factors)

  @property
  def num_categories(self) -> int:
    """The number of joint actions."""
    return math.prod(self.sizes)

  @property
  def batch_shape(self) -> tuple[int, ...]:
    """The leading shape `[...]`."""
    return self.factors[0].batch_shape

  @property
  def event_shape(self) -> tuple[int, ...]:
    """The action's shape, `(K,)`."""
    return (len(self.factors),)

  @property
  def logits(self) -> Array:
    """The joint log-probabilities `[..., prod(sizes)]`, minus infinity where any factor is illegal."""
    return self._joint([factor.logits for factor in self.factors], jnp.add)

  @property
  def probs(self) -> Array:
    """The joint probabilities `[..., prod(sizes)]`."""
    return self._joint([factor.probs for factor in self.factors], jnp.multiply)

  @property
  def mask(self) -> Array:
    """The legal joint actions, bool `[..., prod(sizes)]`."""
    return self._joint([factor.mask for factor in self.factors], jnp.logical_and)

  def _joint(self, parts: Sequence[Array], combine: Callable[[Array, Array], Array]) -> Array:
    joint = parts[0]
    for part in parts[1:]:
      size = joint.shape[-1] * part.shape[-1]
      joint = combine(joint[..., :, None], part[..., None, :]).reshape(*self.batch_shape, size)
    return joint

  def index(self, action: Array) -> Array:
    """Returns where actions `[..., K]` stand among the joint ones, int32 `[...]`; -1 if out of range."""
    action = jnp.asarray(action)
    if action.shape[-1:] != self.event_shape:
      raise ValueError(f'action must be [..., {len(self.factors)}], got shape {action.shape}.')
    if not jnp.issubdtype(action.dtype, jnp.integer):
      raise TypeError(f'action must hold integers, got dtype {action.dtype}.')
    index = jnp.zeros(action.shape[:-1], jnp.int32)
    in_range = jnp.ones(action.shape[:-1], bool)
    for k, size in enumerate(self.sizes):
      value = action[..., k].astype(jnp.int32)
      index = index * size + value
      in_range &= (value >= 0) & (value < size)
    return jnp.where(in_range, index, -1)

  def entropy(self) -> Array:
    """Returns the exact entropy `[...]` in nats, the sum of the factors'."""
    total = jnp.sum(jnp.stack([factor.entropy() for factor in self.factors]), axis=0)
    # Where one factor has no legal value, no joint action is legal.
    legal = jnp.stack([jnp.any(factor.mask, axis=-1) for factor in self.factors])
    return jnp.where(jnp.all(legal, axis=0), total, 0.0)

  def log_prob(self, value: Array) -> Array:
    """Returns the log-probability `[...]` of actions `[..., K]`, minus infinity for illegal ones."""
    value = jnp.asarray(value)
    expected = (*self.batch_shape, *self.event_shape)
    if value.shape[max(0, value.ndim - len(expected)) :] != expected:
      raise ValueError(f'value must have the shape {expected}, got {value.shape}.')
    return jnp.sum(jnp.stack([f.log_prob(value[..., k]) for k, f in enumerate(self.factors)]), axis=0)

  def mode(self) -> Array:
    """Returns the most probable legal action, int32 `[..., K]`."""
    return jnp.stack([factor.mode() for factor in self.factors], axis=-1)

  def sample(self, *, seed: PRNGKey, sample_shape: tuple[int, ...] = ()) -> Array:
    """Returns actions drawn, int32 `[*sample_shape, ..., K]`; the key is consumed."""
    return self.sample_and_log_prob(seed=seed, sample_shape=sample_shape)[0]

  def sample_and_log_prob(self, *, seed: PRNGKey, sample_shape: tuple[int, ...] = ()) -> tuple[Array, Array]:
    """Draws actions together with their log-probabilities.

    Args:
      seed: a key, consumed.
      sample_shape: the shape of independent draws, put before the leading shape.

    Returns:
      The actions, int32 `[..., K]`, and their log-probabilities `[...]` in nats.
    """
    draws = [
      factor.sample_and_log_prob(seed=key, sample_shape=sample_shape)
      for factor, key in zip(self.factors, jax.random.split(seed, len(self.factors)), strict=True)
    ]
    actions, log_probs = zip(*draws, strict=True)
    return jnp.stack(actions, axis=-1), jnp.sum(jnp.stack(log_probs), axis=0)

  def sample_uniformly(self, *, seed: PRNGKey) -> Array:
    """Returns actions drawn from the legal ones with equal probability, int32 `[..., K]`."""
    keys = jax.random.split(seed, len(self.factors))
    draws = [f.sample_uniformly(seed=key) for f, key in zip(self.factors, keys, strict=True)]
    return jnp.stack(draws, axis=-1)

  def tree_flatten(self) -> tuple[tuple[tuple[Categorical, ...]], None]:
    """Returns the factors, for JAX."""
    return (self.factors,), None

  @classmethod
  def tree_unflatten(cls, aux: None, children: tuple[Any]) -> FactoredCategorical:
    """Returns the distribution rebuilt, without checks: JAX also passes placeholders."""
    del aux
    policy = object.__new__(cls)
    (policy.factors,) = children
    return policy


def _draw(key: PRNGKey, logits: Array, sample_shape: tuple[int, ...]) -> Array:
  shape = (*sample_shape, *logits.shape[:-1])
  return jax.random.categorical(key, logits, axis=-1, shape=shape).astype(jnp.int32)
