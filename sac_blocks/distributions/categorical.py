"""Policies over discrete actions, some of which may be illegal."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import distrax
import jax
import jax.numpy as jnp
from tensorflow_probability.substrates import jax as tfp

from sac_blocks import checks
from sac_blocks.densities import MaskedSoftmax, masked_softmax
from sac_blocks.distributions import batches
from sac_blocks.types import Array, PRNGKey


@jax.tree_util.register_pytree_node_class
class Categorical(distrax.Categorical):
  r"""The law of one of A actions, of which only the legal ones can be drawn.

  $$p_a = \frac{m_a e^{l_a}}{\sum_b m_b e^{l_b}}, \quad H = -\sum_{a: m_a} p_a \log p_a$$

  Illegal actions contribute exactly 0 to entropy and gradients, whatever their logits are, NaN included. A
  row without any legal action, as a terminal state may have, has probabilities and entropy 0; what is drawn
  from it means nothing.

  It is a distrax `Categorical`. The KL divergence to another one sums over this one's legal actions; it is
  infinite, with a gradient of 0, where the other forbids what this one may draw. It goes to and from the
  `Categorical` of distrax and TFP, too, whose logits of minus infinity count as illegal.

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
    self._softmax = masked_softmax(logits, mask)

  @property
  def mask(self) -> Array:
    """The legal actions, bool `[..., A]`."""
    return self._softmax.mask

  @property
  def logits(self) -> Array:
    """The log-probabilities `[..., A]`, minus infinity where illegal."""
    return self._softmax.logits

  @property
  def probs(self) -> Array:
    """The probabilities `[..., A]`, 0 where illegal."""
    return self._softmax.probs

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
    return self._softmax.expectation(values)

  def entropy(self) -> Array:
    """Returns the exact entropy `[...]` in nats, 0 where one action or none is legal."""
    return self._softmax.entropy()

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

  def prob(self, value: Array) -> Array:
    """Returns the probability `[...]` of actions `[...]`, 0 for illegal ones."""
    return jnp.exp(self.log_prob(value))

  def _sample_n(self, key: PRNGKey, n: int) -> Array:
    return _draw(key, self.logits, (n,))

  def sample_uniformly(self, *, seed: PRNGKey) -> Array:
    """Returns actions drawn from the legal ones with equal probability, int32 `[...]`."""
    return _draw(seed, jnp.where(self.mask, 0.0, -jnp.inf), ())

  def index(self, action: Array) -> Array:
    """Returns where actions `[...]` stand in `logits`: the actions themselves."""
    return action

  def __getitem__(self, index: Any) -> Categorical:
    return batches.select(self, index)

  def tree_flatten(self) -> tuple[tuple[Array, Array], None]:
    """Returns the arrays, both `[..., A]`, for JAX."""
    return (self._softmax.mask, self._softmax.log_probs), None

  @classmethod
  def tree_unflatten(cls, aux: None, children: tuple[Any, Any]) -> Categorical:
    """Returns the distribution rebuilt, without checks: JAX also passes placeholders."""
    del aux
    policy = object.__new__(cls)
    policy._softmax = MaskedSoftmax(*children)
    return policy


@jax.tree_util.register_pytree_node_class
class FactoredCategorical(distrax.Distribution):
  r"""The law of K independent discrete actions, of which factor k has $n_k$ values.

  $$p_{a_1 \dots a_K} = \prod_k p^k_{a_k}, \quad H = \sum_k H^k$$

  As a law of the $\prod_k n_k$ joint actions it goes wherever a `Categorical` does: `logits` and `index` give
  the joint view, in which the last factor varies fastest. It is a distrax distribution; its KL divergence is
  the sum of the factors'.

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
    return jnp.where(self._any_legal, total, 0.0)

  @property
  def _any_legal(self) -> Array:
    # Where one factor has no legal value, no joint action is legal.
    return jnp.all(jnp.stack([jnp.any(factor.mask, axis=-1) for factor in self.factors]), axis=0)

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

  def _sample_n(self, key: PRNGKey, n: int) -> Array:
    keys = jax.random.split(key, len(self.factors))
    draws = [f.sample(seed=key, sample_shape=(n,)) for f, key in zip(self.factors, keys, strict=True)]
    return jnp.stack(draws, axis=-1)

  def sample_uniformly(self, *, seed: PRNGKey) -> Array:
    """Returns actions drawn from the legal ones with equal probability, int32 `[..., K]`."""
    keys = jax.random.split(seed, len(self.factors))
    draws = [f.sample_uniformly(seed=key) for f, key in zip(self.factors, keys, strict=True)]
    return jnp.stack(draws, axis=-1)

  def __getitem__(self, index: Any) -> FactoredCategorical:
    return batches.select(self, index)

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


def _kl(p: Any, q: Any, **unused: Any) -> Array:
  """KL(p || q) of two categorical laws, of which at least one is this module's."""
  p, q = (law if isinstance(law, Categorical) else Categorical(law.logits_parameter()) for law in (p, q))
  if p.num_categories != q.num_categories:
    raise ValueError(
      f'Both laws must have one number of actions, got {p.num_categories} and {q.num_categories}.'
    )
  p, q = batches.align(p, q)
  both = p.mask & q.mask
  # Each apart, since the difference is of finite numbers only.
  finite = p.expectation(jnp.where(both, p._softmax.log_probs - q._softmax.log_probs, 0.0))
  # A probability that underflows is 0, so that it costs nothing.
  outside = jnp.any(p.mask & ~q.mask & (p.probs > 0.0), axis=-1)
  return jnp.where(outside, jnp.inf, finite)


tfp.distributions.RegisterKL(Categorical, Categorical)(_kl)
for _other in (distrax.Categorical, tfp.distributions.Categorical):
  tfp.distributions.RegisterKL(Categorical, _other)(_kl)
  tfp.distributions.RegisterKL(_other, Categorical)(_kl)


@tfp.distributions.RegisterKL(FactoredCategorical, FactoredCategorical)
def _factored_kl(p: FactoredCategorical, q: FactoredCategorical, **unused: Any) -> Array:
  if p.sizes != q.sizes:
    raise ValueError(f'Both laws must have factors of the same sizes, got {p.sizes} and {q.sizes}.')
  p, q = batches.align(p, q)
  total = jnp.sum(jnp.stack([_kl(*pair) for pair in zip(p.factors, q.factors, strict=True)]), axis=0)
  return jnp.where(p._any_legal, total, 0.0)
