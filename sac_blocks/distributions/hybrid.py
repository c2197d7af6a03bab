"""Policies over a discrete choice and a continuous action together."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import distrax
import jax
import jax.numpy as jnp
from tensorflow_probability.substrates import jax as tfp

from sac_blocks.distributions import batches
from sac_blocks.distributions.categorical import Categorical
from sac_blocks.distributions.tanh_gaussian import TanhGaussian
from sac_blocks.types import Array, PRNGKey


@jax.tree_util.register_pytree_node_class
class Hybrid(distrax.Distribution):
  r"""The law of a choice among A branches and of a continuous action, which may depend on the choice.

  $$\pi(k, x) = p_k\, \pi(x \mid k)$$

  An action is a dict of `discrete`, int32 `[...]`, and `continuous`, `[..., D]` in [-1, 1]. With a Gaussian
  for each branch the action is a parameterised one, a choice with parameters of its own; with a shared one
  the two parts are independent.

  Illegal branches can't be drawn, and their Gaussians contribute exactly 0 to gradients, whatever their `loc`
  is: a standard Gaussian stands for them.

  It is a distrax distribution whose events, their shapes and dtypes are such dicts, as with `distrax.Joint`;
  that one has independent parts only. Entropy and KL divergence are those of the choice, plus those of the
  continuous action given the choice, expected under it. There is no mean: choices have none.

  Args:
    categorical: the law of the choice, with logits `[..., A]`.
    continuous: the law of the continuous action: `loc` and `scale` are `[..., A, D]`, one Gaussian for each
      branch, or `[..., D]`, one that all branches share.

  Raises:
    ValueError: the shapes fit neither way.

  >>> choice = Categorical(jnp.array([0.0, 1.0]))
  >>> pi = Hybrid(choice, TanhGaussian(jnp.array([[0.0], [9.0]]), jnp.ones((2, 1))))
  >>> pi.mode()
  {'discrete': Array(1, dtype=int32), 'continuous': Array([1.], dtype=float32)}
  >>> x, log_prob = pi.sample_branches(seed=jax.random.key(0))
  >>> x.shape, log_prob.shape
  ((2, 1), (2,))

  Reference: Delalleau et al. 2019, arXiv 1912.11077.
  """

  def __init__(self, categorical: Categorical, continuous: TanhGaussian):
    if continuous.batch_shape not in (categorical.batch_shape, categorical.mask.shape):
      raise ValueError(
        'continuous must have loc [..., A, D] or [..., D] for logits [..., A], got loc '
        f'{continuous.loc.shape} for logits {categorical.mask.shape}.'
      )
    self.categorical = categorical
    self.continuous = continuous
    drawn = jnp.any(categorical.mask, axis=-1) if self.shared else categorical.mask
    # Here and not on the samples, since 0 times the slope at a loc of NaN or infinity is NaN.
    self.continuous = TanhGaussian(
      jnp.where(drawn[..., None], continuous.loc, 0.0), jnp.where(drawn[..., None], continuous.scale, 1.0)
    )

  @property
  def shared(self) -> bool:
    """Whether all branches share one Gaussian."""
    return self.continuous.loc.ndim == self.categorical.mask.ndim

  @property
  def batch_shape(self) -> tuple[int, ...]:
    """The leading shape `[...]`."""
    return self.categorical.batch_shape

  @property
  def event_shape(self) -> dict[str, tuple[int, ...]]:
    """The shapes of the action's parts, `()` and `(D,)`."""
    return {'discrete': (), 'continuous': self.continuous.event_shape}

  def _sample_n_and_log_prob(self, key: PRNGKey, n: int) -> tuple[dict[str, Array], Array]:
    discrete_key, continuous_key = jax.random.split(key)
    choice, log_prob = self.categorical.sample_and_log_prob(seed=discrete_key, sample_shape=(n,))
    x, log_prob_x = self._branch(choice).sample_and_log_prob(seed=continuous_key)
    return {'discrete': choice, 'continuous': x}, log_prob + log_prob_x

  def _sample_n(self, key: PRNGKey, n: int) -> dict[str, Array]:
    return self._sample_n_and_log_prob(key, n)[0]

  def log_prob(self, value: Mapping[str, Array]) -> Array:
    """Returns the log-probability `[...]` of actions, minus infinity where the choice is illegal.

    Args:
      value: a dict of `discrete`, `[...]`, and `continuous`, `[..., D]`, both with or without a
        `sample_shape` before the leading shape.
    """
    choice = jnp.asarray(value['discrete'])
    log_prob = self.categorical.log_prob(choice)
    return log_prob + self._branch(choice).log_prob(value['continuous'])

  def entropy(self) -> Array:
    """Returns the entropy `[...]` in nats: the choice's, and the mean of the branches', by quadrature."""
    return self.categorical.entropy() + self.categorical.expectation(self._branches().entropy())

  def sample_branches(self, *, seed: PRNGKey) -> tuple[Array, Array]:
    """Samples a reparameterised continuous action for every branch, for expectations over the choice.

    Args:
      seed: a key, consumed.

    Returns:
      The continuous actions `[..., A, D]` and their log-probabilities `[..., A]` given the branch, in nats;
      the same in all legal branches where they share a Gaussian. In illegal branches they mean nothing.
    """
    x, log_prob = self.continuous.sample_and_log_prob(seed=seed)
    if self.shared:
      # Not broadcast alone, or what comes back from illegal branches would reach the legal ones' Gaussian.
      mask = self.categorical.mask
      x = jnp.where(mask[..., None], x[..., None, :], 0.0)
      log_prob = jnp.where(mask, log_prob[..., None], 0.0)
    return x, log_prob

  def mode(self) -> dict[str, Array]:
    """Returns the greedy action: the most probable legal branch `[...]`, and tanh of its mean `[..., D]`."""
    choice = self.categorical.mode()
    return {'discrete': choice, 'continuous': self._branch(choice).mode()}

  def sample_uniformly(self, *, seed: PRNGKey) -> dict[str, Array]:
    """Returns a branch `[...]` drawn uniformly from the legal ones, and an action `[..., D]` from the box."""
    discrete_key, continuous_key = jax.random.split(seed)
    choice = self.categorical.sample_uniformly(seed=discrete_key)
    return {'discrete': choice, 'continuous': self._branch(choice).sample_uniformly(seed=continuous_key)}

  def tree_flatten(self) -> tuple[tuple[Categorical, TanhGaussian], None]:
    """Returns the two parts, for JAX."""
    return (self.categorical, self.continuous), None

  @classmethod
  def tree_unflatten(cls, aux: None, children: tuple[Any, Any]) -> Hybrid:
    """Returns the distribution rebuilt, without checks: JAX also passes placeholders."""
    del aux
    policy = object.__new__(cls)
    policy.categorical, policy.continuous = children
    return policy

  def __getitem__(self, index: Any) -> Hybrid:
    return batches.select(self, index)

  def _branch(self, choice: Array) -> TanhGaussian:
    """Returns the law of the continuous action given branches, `[..., D]` for `[...]` in range."""
    leading = choice.shape[: choice.ndim - len(self.batch_shape)]
    law = jax.tree_util.tree_map(lambda x: jnp.broadcast_to(x, (*leading, *x.shape)), self.continuous)
    if self.shared:
      return law
    index = choice[..., None, None]
    return jax.tree_util.tree_map(lambda x: jnp.take_along_axis(x, index, axis=-2)[..., 0, :], law)

  def _branches(self) -> TanhGaussian:
    """Returns the laws of the continuous action given each branch, `[..., A, D]`."""
    if not self.shared:
      return self.continuous
    shape = (*self.categorical.mask.shape, *self.continuous.event_shape)
    return jax.tree_util.tree_map(lambda x: jnp.broadcast_to(x[..., None, :], shape), self.continuous)


@tfp.distributions.RegisterKL(Hybrid, Hybrid)
def _kl(p: Hybrid, q: Hybrid, **unused: Any) -> Array:
  p, q = batches.align(p, q)
  # The choice first, which says what is wrong where the numbers of branches differ.
  choice = p.categorical.kl_divergence(q.categorical)
  return choice + p.categorical.expectation(p._branches().kl_divergence(q._branches()))
