"""The squashed Gaussian policy."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import distrax
import jax
import jax.numpy as jnp
import numpy as np
from tensorflow_probability.substrates import jax as tfp

from sac_blocks import checks, densities
from sac_blocks.distributions import batches
from sac_blocks.types import Array, PRNGKey

_HALF_LOG_2_PI = 0.5 * math.log(2.0 * math.pi)
# The trapezoidal rule for E[f(Z)], Z ~ N(0, 1): exact to rounding for scales up to e^2, where Gauss-Hermite
# of 64 nodes is off by 0.02 nats, as a softplus that is steep in Z is no polynomial.
_NODES = np.linspace(-8.0, 8.0, 257)
_WEIGHTS = np.exp(-0.5 * _NODES**2) * (_NODES[1] - _NODES[0]) / math.sqrt(2.0 * math.pi)


@jax.tree_util.register_pytree_node_class
class TanhGaussian(distrax.Distribution):
  r"""The law of $\tanh(u)$, $u \sim \mathcal{N}(\mu, \mathrm{diag}\,\sigma^2)$, on the box $[-1, 1]^D$.

  $$\log\pi(a) = \sum_d \log\mathcal{N}(u_d; \mu_d, \sigma_d) - 2 (\log 2 - u_d - \mathrm{softplus}(-2 u_d))$$

  Sampling and then asking for the log-probability of the action is unsafe: tanh rounds to exactly 1 near
  u = 9 in float32, and u cannot be had back. `sample_and_log_prob` keeps u and is exact everywhere;
  `log_prob` is for actions that come from elsewhere (demonstrations, replay).

  It is a distrax distribution. The KL divergence to another one is that of the two Gaussians, since tanh maps
  one to one; it goes to and from `distrax.Transformed` with a `distrax.MultivariateNormalDiag`, too.

  Args:
    loc: `[..., D]`, means before the tanh.
    scale: `[..., D]`, standard deviations before the tanh, positive.

  Raises:
    ValueError: the shapes differ or lack the action axis, or a scale is not positive.

  >>> pi = TanhGaussian(jnp.zeros(2), jnp.ones(2))
  >>> pi.log_prob(jnp.zeros(2))
  Array(-1.837877, dtype=float32)
  >>> pi.mode()
  Array([0., 0.], dtype=float32)
  >>> pi.kl_divergence(TanhGaussian(jnp.ones(2), jnp.ones(2)))
  Array(1., dtype=float32)

  Reference: Haarnoja et al. 2018, appendix C, arXiv 1812.05905.
  """

  def __init__(self, loc: Array, scale: Array):
    self.loc, self.scale = densities.gaussian_parameters(loc, scale)

  @property
  def batch_shape(self) -> tuple[int, ...]:
    """The leading shape `[...]`."""
    return self.loc.shape[:-1]

  @property
  def event_shape(self) -> tuple[int, ...]:
    """The action's shape, `(D,)`."""
    return self.loc.shape[-1:]

  def sample_and_log_prob(
    self, *, seed: int | PRNGKey, sample_shape: int | Sequence[int] = ()
  ) -> tuple[Array, Array]:
    """Samples a reparameterised action together with its log-probability, exact wherever tanh saturates.

    Args:
      seed: a key, consumed, or an integer to make one of.
      sample_shape: the shape of independent draws, put before the leading shape.

    Returns:
      The action `[..., D]` in [-1, 1] and its log-probability `[...]` in nats.
    """
    key = jax.random.PRNGKey(seed) if isinstance(seed, (int, np.integer)) else seed
    shape = tuple(sample_shape) if isinstance(sample_shape, Sequence) else (sample_shape,)
    # Not by way of distrax's axis of samples, which costs the update a few kernels.
    return densities.sample_tanh_gaussian(self.loc, self.scale, key, shape)

  def _sample_n_and_log_prob(self, key: PRNGKey, n: int) -> tuple[Array, Array]:
    return densities.sample_tanh_gaussian(self.loc, self.scale, key, (n,))

  def _sample_n(self, key: PRNGKey, n: int) -> Array:
    return self._sample_n_and_log_prob(key, n)[0]

  def sample_uniformly(self, *, seed: PRNGKey) -> Array:
    """Returns an action `[..., D]` drawn uniformly from the box, whatever the policy; the key is consumed."""
    return jax.random.uniform(seed, self.loc.shape, self.loc.dtype, -1.0, 1.0)

  def log_prob(self, value: Array) -> Array:
    """Computes the log-probability of a stored action.

    Args:
      value: `[..., D]`, with or without a `sample_shape` before the leading shape. Entries at or beyond
        ±1 are taken at the last value inside that the dtype resolves, ±(1 - eps), so that value and
        gradient are finite.

    Returns:
      `[...]`, in nats.

    Raises:
      ValueError: the action's shape doesn't end with that of `loc`.
    """
    value, loc, scale = checks.as_floats(value=value, loc=self.loc, scale=self.scale)
    if value.shape[max(0, value.ndim - loc.ndim) :] != loc.shape:
      raise ValueError(f'value must have the shape of loc {loc.shape}, got {value.shape}.')
    loc, scale = (jnp.broadcast_to(x, value.shape) for x in (loc, scale))
    bound = 1.0 - float(jnp.finfo(value.dtype).eps)
    u = jnp.arctanh(jnp.clip(value, -bound, bound))
    return densities.tanh_gaussian_log_density(u, (u - loc) / scale, scale)

  def mode(self) -> Array:
    """Returns the greedy action `[..., D]`, tanh of the mean.

    It is the median of the law; the density itself may peak at the bounds, where it is no use to act.
    """
    return jnp.tanh(self.loc)

  def median(self) -> Array:
    """Returns the median of each entry of the action, `[..., D]`."""
    return jnp.tanh(self.loc)

  def mean(self) -> Array:
    """Returns the mean action `[..., D]`, by quadrature; it lies nearer to 0 than the `mode`."""
    return self._expectation(jnp.tanh)

  def variance(self) -> Array:
    """Returns the variance of each entry of the action, `[..., D]`, by quadrature."""
    mean = self.mean()[..., None]
    return self._expectation(lambda u: jnp.square(jnp.tanh(u) - mean))

  def stddev(self) -> Array:
    """Returns the standard deviation of each entry `[..., D]`; at 0, far outside, its gradient is 0."""
    variance = self.variance()
    return jnp.where(variance > 0.0, jnp.sqrt(jnp.where(variance > 0.0, variance, 1.0)), 0.0)

  def entropy(self) -> Array:
    """Returns the differential entropy `[...]` in nats, by quadrature.

    It is at most D log 2, the entropy of the uniform law. Training uses `-log_prob` of a sample instead,
    which comes for free; this is for looking at a policy.
    """
    gaussian = 0.5 + _HALF_LOG_2_PI + jnp.log(self.scale)
    return jnp.sum(gaussian + self._expectation(densities.tanh_log_det), axis=-1)

  def _expectation(self, function: Callable[[Array], Array]) -> Array:
    """Integrates a function of the value before the tanh, entry by entry: `[..., D]`."""
    axes = tuple(range(self.loc.ndim))
    nodes, weights = (jnp.expand_dims(jnp.asarray(x, self.loc.dtype), axes) for x in (_NODES, _WEIGHTS))
    # A sum of products, which no accelerator rounds to fewer bits as it may a matrix product.
    return jnp.sum(function(self.loc[..., None] + self.scale[..., None] * nodes) * weights, axis=-1)

  def __getitem__(self, index: Any) -> TanhGaussian:
    return batches.select(self, index)

  def tree_flatten(self) -> tuple[tuple[Array, Array], None]:
    """Returns `loc` and `scale`, both `[..., D]`, for JAX."""
    return (self.loc, self.scale), None

  @classmethod
  def tree_unflatten(cls, aux_data: None, children: tuple[Array, Array]) -> TanhGaussian:
    """Returns the distribution rebuilt, without checks: JAX also passes placeholders."""
    del aux_data
    distribution = object.__new__(cls)
    distribution.loc, distribution.scale = children
    return distribution

  def __repr__(self) -> str:
    return f'TanhGaussian(loc={self.loc!r}, scale={self.scale!r})'


@tfp.distributions.RegisterKL(TanhGaussian, TanhGaussian)
def _kl(p: TanhGaussian, q: TanhGaussian, **unused: Any) -> Array:
  p, q = batches.align(p, q)
  ratio, distance = p.scale / q.scale, (p.loc - q.loc) / q.scale
  return 0.5 * jnp.sum(jnp.square(ratio) - 1.0 - 2.0 * jnp.log(ratio) + jnp.square(distance), axis=-1)


@tfp.distributions.RegisterKL(TanhGaussian, distrax.Transformed)
def _kl_to_transformed(p: TanhGaussian, q: distrax.Transformed, **options: Any) -> Array:
  return _transformed(p).kl_divergence(q, **options)


@tfp.distributions.RegisterKL(distrax.Transformed, TanhGaussian)
def _kl_from_transformed(p: distrax.Transformed, q: TanhGaussian, **options: Any) -> Array:
  return p.kl_divergence(_transformed(q), **options)


def _transformed(law: TanhGaussian) -> distrax.Transformed:
  """The same law in the words of distrax, whose log-probabilities aren't safe far outside."""
  return distrax.Transformed(
    distrax.MultivariateNormalDiag(law.loc, law.scale), distrax.Block(distrax.Tanh(), 1)
  )
