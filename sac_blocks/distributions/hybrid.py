"""Policies over a discrete choice and a continuous action together."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp

from sac_blocks.distributions.categorical import Categorical
from sac_blocks.distributions.tanh_gaussian import TanhGaussian
from sac_blocks.types import Array, PRNGKey


@jax.tree_util.register_pytree_node_class
class Hybrid:
  r"""The law of a choice among A branches and of a continuous action, which may depend on the choice.

  $$\pi(k, x) = p_k\, \pi(x \mid k)$$

  An action is a dict of `discrete`, int32 `[...]`, and `continuous`, `[..., D]` in [-1, 1]. With a Gaussian
  for each branch the action is a parameterised one, a choice with parameters of its own; with a shared one
  the two parts are independent.

  Illegal branches can't be drawn, and their Gaussians contribute exactly 0 to gradients, whatever their `loc`
  is: a standard Gaussian stands for them.

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

  def sample_and_log_prob(self, *, seed: PRNGKey) -> tuple[dict[str, Array], Array]:
    """Draws an action together with its log-probability.

    Args:
      seed: a key, consumed.

    Returns:
      The action, and the log-probability `[...]` of both its parts together, in nats.
    """
    discrete_key, continuous_key = jax.random.split(seed)
    choice, log_prob = self.categorical.sample_and_log_prob(seed=discrete_key)
    x, log_prob_x = self._branch(choice).sample_and_log_prob(seed=continuous_key)
    return {'discrete': choice, 'continuous': x}, log_prob + log_prob_x

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

  def _branch(self, choice: Array) -> TanhGaussian:
    """Returns the law of the continuous action given the branches `[...]`."""
    if self.shared:
      return self.continuous
    index = choice[..., None, None]
    return jax.tree.map(lambda x: jnp.take_along_axis(x, index, axis=-2)[..., 0, :], self.continuous)
