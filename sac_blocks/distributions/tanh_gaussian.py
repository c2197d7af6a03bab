"""The squashed Gaussian policy."""

from __future__ import annotations

import math

import jax
import jax.numpy as jnp
import numpy as np

from sac_blocks import checks
from sac_blocks.types import Array, PRNGKey

_LOG_2 = math.log(2.0)
_HALF_LOG_2_PI = 0.5 * math.log(2.0 * math.pi)
# The trapezoidal rule for E[f(Z)], Z ~ N(0, 1): exact to rounding for scales up to e^2, where Gauss-Hermite
# of 64 nodes is off by 0.02 nats, as a softplus that is steep in Z is no polynomial.
_NODES = np.linspace(-8.0, 8.0, 257)
_WEIGHTS = np.exp(-0.5 * _NODES**2) * (_NODES[1] - _NODES[0]) / math.sqrt(2.0 * math.pi)


@jax.tree_util.register_pytree_node_class
class TanhGaussian:
  r"""The law of $\tanh(u)$, $u \sim \mathcal{N}(\mu, \mathrm{diag}\,\sigma^2)$, on the box $[-1, 1]^D$.

  $$\log\pi(a) = \sum_d \log\mathcal{N}(u_d; \mu_d, \sigma_d) - 2 (\log 2 - u_d - \mathrm{softplus}(-2 u_d))$$

  Sampling and then asking for the log-probability of the action is unsafe: tanh rounds to exactly 1 near
  u = 9 in float32, and u cannot be had back. `sample_and_log_prob` keeps u and is exact everywhere;
  `log_prob` is for actions that come from elsewhere (demonstrations, replay).

  The methods follow distrax, so that either can stand for the other. It is written out here since
  importing distrax imports TensorFlow where that is installed, which costs seconds.

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

  Reference: Haarnoja et al. 2018, appendix C, arXiv 1812.05905.
  """

  def __init__(self, loc: Array, scale: Array):
    self.loc, self.scale = checks.as_floats(loc=loc, scale=scale)
    checks.same_shape(loc=self.loc, scale=self.scale)
    if self.loc.ndim < 1:
      raise ValueError('loc and scale must end with the action axis [..., D], got scalars.')
    checks.in_range('scale', self.scale, 0.0, open_low=True)

  @property
  def batch_shape(self) -> tuple[int, ...]:
    """The leading shape `[...]`."""
    return self.loc.shape[:-1]

  @property
  def event_shape(self) -> tuple[int, ...]:
    """The action's shape, `(D,)`."""
    return self.loc.shape[-1:]

  def sample_and_log_prob(self, *, seed: PRNGKey, sample_shape: tuple[int, ...] = ()) -> tuple[Array, Array]:
    """Samples a reparameterised action together with its log-probability.

    Args:
      seed: a key, consumed.
      sample_shape: the shape of independent draws, put before the leading shape.

    Returns:
      The action `[..., D]` in [-1, 1] and its log-probability `[...]` in nats.
    """
    epsilon = jax.random.normal(seed, sample_shape + self.loc.shape, self.loc.dtype)
    loc, scale = (jnp.broadcast_to(x, epsilon.shape) for x in (self.loc, self.scale))
    u = loc + scale * epsilon
    # From epsilon rather than from (u - loc) / scale, which cancels badly for a large loc.
    log_density = -0.5 * jnp.square(epsilon) - jnp.log(scale) - _HALF_LOG_2_PI
    return jnp.tanh(u), jnp.sum(log_density - _tanh_log_det(u), axis=-1)

  def sample(self, *, seed: PRNGKey, sample_shape: tuple[int, ...] = ()) -> Array:
    """Returns an action sampled, `[*sample_shape, ..., D]`; see `sample_and_log_prob`."""
    return self.sample_and_log_prob(seed=seed, sample_shape=sample_shape)[0]

  def sample_uniformly(self, *, seed: PRNGKey) -> Array:
    """Returns an action `[..., D]` drawn uniformly from the box, whatever the policy; the key is consumed."""
    return jax.random.uniform(seed, self.loc.shape, self.loc.dtype, -1.0, 1.0)

  def log_prob(self, action: Array) -> Array:
    """Computes the log-probability of a stored action.

    Args:
      action: `[..., D]`, with or without a `sample_shape` before the leading shape. Entries at or beyond
        ±1 are taken at the last value inside that the dtype resolves, ±(1 - eps), so that value and
        gradient are finite.

    Returns:
      `[...]`, in nats.

    Raises:
      ValueError: the action's shape doesn't end with that of `loc`.
    """
    action, loc, scale = checks.as_floats(action=action, loc=self.loc, scale=self.scale)
    if action.shape[max(0, action.ndim - loc.ndim) :] != loc.shape:
      raise ValueError(f'action must have the shape of loc {loc.shape}, got {action.shape}.')
    loc, scale = (jnp.broadcast_to(x, action.shape) for x in (loc, scale))
    bound = 1.0 - float(jnp.finfo(action.dtype).eps)
    u = jnp.arctanh(jnp.clip(action, -bound, bound))
    z = (u - loc) / scale
    log_density = -0.5 * jnp.square(z) - jnp.log(scale) - _HALF_LOG_2_PI
    return jnp.sum(log_density - _tanh_log_det(u), axis=-1)

  def mode(self) -> Array:
    """Returns the greedy action `[..., D]`, tanh of the mean.

    It is the median of the law; the density itself may peak at the bounds, where it is no use to act.
    """
    return jnp.tanh(self.loc)

  def entropy(self) -> Array:
    """Returns the differential entropy `[...]` in nats, by quadrature.

    It is at most D log 2, the entropy of the uniform law. Training uses `-log_prob` of a sample instead,
    which comes for free; this is for looking at a policy.
    """
    axes = tuple(range(self.loc.ndim))
    nodes, weights = (jnp.expand_dims(jnp.asarray(x, self.loc.dtype), axes) for x in (_NODES, _WEIGHTS))
    u = self.loc[..., None] + self.scale[..., None] * nodes
    gaussian = 0.5 + _HALF_LOG_2_PI + jnp.log(self.scale)
    # A sum of products, which no accelerator rounds to fewer bits as it may a matrix product.
    return jnp.sum(gaussian + jnp.sum(_tanh_log_det(u) * weights, axis=-1), axis=-1)

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


def _tanh_log_det(u: Array) -> Array:
  """log(1 - tanh(u)^2), exact where 1 - tanh(u)^2 underflows."""
  return 2.0 * (_LOG_2 - u - jax.nn.softplus(-2.0 * u))
