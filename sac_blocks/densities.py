"""The arithmetic of policies that losses and distributions share, arrays in and arrays out.

It needs no distrax, whose import brings TensorFlow Probability and, where that is installed, TensorFlow:
seconds of start-up that users of the losses shouldn't pay.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import jax
import jax.numpy as jnp

from sac_blocks import checks
from sac_blocks.types import Array, PRNGKey

_LOG_2 = math.log(2.0)
_HALF_LOG_2_PI = 0.5 * math.log(2.0 * math.pi)


class MaskedSoftmax(NamedTuple):
  """Probabilities of A actions, of which some may be illegal; made by `masked_softmax`.

  Attributes:
    mask: `[..., A]` bool, the legal actions.
    log_probs: `[..., A]`, log-probabilities, 0 where illegal, which keeps 0 times infinity out of gradients.
  """

  mask: Array
  log_probs: Array

  @property
  def logits(self) -> Array:
    """The log-probabilities `[..., A]`, minus infinity where illegal."""
    return jnp.where(self.mask, self.log_probs, -jnp.inf)

  @property
  def probs(self) -> Array:
    """The probabilities `[..., A]`, 0 where illegal."""
    return jnp.where(self.mask, jnp.exp(self.log_probs), 0.0)

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
    return self.expectation(-self.log_probs)


def masked_softmax(logits: Array, mask: Array | None = None) -> MaskedSoftmax:
  r"""Computes the probabilities of legal actions.

  $$p_a = \frac{m_a e^{l_a}}{\sum_b m_b e^{l_b}}$$

  Illegal actions contribute exactly 0 to values and gradients, whatever their logits are, NaN included. A row
  without any legal action has probabilities and entropy 0.

  Args:
    logits: `[..., A]`, unnormalised log-probabilities; minus infinity is illegal, too.
    mask: `[..., A]` bool or integer, nonzero where an action is legal; None for all.

  Returns:
    The legal actions and their log-probabilities, both `[..., A]`.

  Raises:
    ValueError: the shapes differ or lack the action axis.
    TypeError: the mask is a floating array: an additive mask of 0 and minus infinity would mean the opposite.

  >>> masked_softmax(jnp.array([1.0, 2.0, 5.0]), jnp.array([True, True, False])).entropy()
  Array(0.582203, dtype=float32)

  Reference: Huang and Ontañón 2020, section 3, arXiv 2006.14171, for the gradient under a mask.
  """
  (logits,) = checks.as_floats(logits=logits)
  if logits.ndim < 1 or logits.shape[-1] == 0:
    raise ValueError(f'logits must end with the axis of A >= 1 actions [..., A], got {logits.shape}.')
  # Not isfinite: a NaN is a policy that diverged, and has to show.
  legal = logits != -jnp.inf
  if mask is not None:
    mask = checks.as_mask('mask', mask)
    checks.same_shape(logits=logits, mask=mask)
    legal &= mask
  # Masked before, to keep illegal logits out of the sum, and after, to keep 0 * inf out of gradients.
  any_legal = jnp.any(legal, axis=-1, keepdims=True)
  log_probs = jax.nn.log_softmax(jnp.where(legal, logits, jnp.where(any_legal, -jnp.inf, 0.0)))
  return MaskedSoftmax(legal, jnp.where(legal, log_probs, 0.0))


def gaussian_parameters(loc: Array, scale: Array) -> tuple[Array, Array]:
  """Checks the parameters of a diagonal Gaussian.

  Args:
    loc: `[..., D]`, means.
    scale: `[..., D]`, standard deviations, positive.

  Returns:
    Both, `[..., D]`, in one floating dtype.

  Raises:
    ValueError: the shapes differ or lack the action axis, or a scale is not positive.
  """
  loc, scale = checks.as_floats(loc=loc, scale=scale)
  checks.same_shape(loc=loc, scale=scale)
  if loc.ndim < 1:
    raise ValueError('loc and scale must end with the action axis [..., D], got scalars.')
  checks.in_range('scale', scale, 0.0, open_low=True)
  return loc, scale


def tanh_log_det(u: Array) -> Array:
  """Computes log(1 - tanh(u)^2), exact where 1 - tanh(u)^2 underflows.

  Args:
    u: of any shape.

  Returns:
    The logarithms, of the same shape.
  """
  return 2.0 * (_LOG_2 - u - jax.nn.softplus(-2.0 * u))


def tanh_gaussian_log_density(u: Array, z: Array, scale: Array) -> Array:
  r"""Computes the log-density of the action $\tanh(u)$, $u = \mu + \sigma z$.

  $$\sum_d \log\mathcal{N}(u_d; \mu_d, \sigma_d) - 2 (\log 2 - u_d - \mathrm{softplus}(-2 u_d))$$

  Args:
    u: `[..., D]`, the value before the tanh.
    z: `[..., D]`, the same in units of the Gaussian. Not computed from u here: (u - loc) / scale cancels
      badly for a large loc, and who has sampled knows z.
    scale: `[..., D]`, standard deviations.

  Returns:
    `[...]`, in nats.

  Reference: Haarnoja et al. 2018, appendix C, arXiv 1812.05905.
  """
  log_density = -0.5 * jnp.square(z) - jnp.log(scale) - _HALF_LOG_2_PI
  return jnp.sum(log_density - tanh_log_det(u), axis=-1)


def sample_tanh_gaussian(
  loc: Array, scale: Array, key: PRNGKey, sample_shape: tuple[int, ...] = ()
) -> tuple[Array, Array]:
  r"""Samples a reparameterised action together with its log-probability.

  $$a = \tanh(\mu + \sigma \epsilon), \quad \epsilon \sim \mathcal{N}(0, I)$$

  Args:
    loc: `[..., D]`, means before the tanh.
    scale: `[..., D]`, positive standard deviations before the tanh.
    key: consumed.
    sample_shape: the shape of independent draws, put before the leading shape.

  Returns:
    The action `[..., D]` in [-1, 1] and its log-probability `[...]` in nats.

  Raises:
    ValueError: the shapes differ or lack the action axis, or a scale is not positive.

  >>> action, log_prob = sample_tanh_gaussian(jnp.zeros((4, 2)), jnp.ones((4, 2)), jax.random.key(0))
  >>> action.shape, log_prob.shape
  ((4, 2), (4,))

  Reference: Haarnoja et al. 2018, appendix C, arXiv 1812.05905.
  """
  loc, scale = gaussian_parameters(loc, scale)
  epsilon = jax.random.normal(key, sample_shape + loc.shape, loc.dtype)
  loc, scale = (jnp.broadcast_to(x, epsilon.shape) for x in (loc, scale))
  u = loc + scale * epsilon
  return jnp.tanh(u), tanh_gaussian_log_density(u, epsilon, scale)
