"""The temperature loss and default target entropies."""

from __future__ import annotations

from typing import Literal

import jax
import jax.numpy as jnp
import numpy as np

from sac_blocks import checks
from sac_blocks.types import Array


def temperature_loss(
  log_alpha: Array,
  entropy: Array,
  target_entropy: Array | float,
  *,
  parameterization: Literal['alpha', 'log_alpha'] = 'alpha',
) -> Array:
  r"""Computes the loss whose descent raises the temperature while the entropy is below its target.

  $$L = \exp(\log\alpha)\, \mathrm{sg}(H - \bar H)
      \quad\text{or}\quad L = \log\alpha\ \mathrm{sg}(H - \bar H)$$

  The two agree in the sign of the gradient and at $\alpha = 1$; the first, the paper's and Acme's, scales the
  gradient by $\alpha$, the second, of Stable-Baselines3 and the paper's own code, doesn't.

  Args:
    log_alpha: scalar or `[...]`, the learned logarithm of the temperature.
    entropy: `[...]`, entropies in nats: `-log_prob` of a sampled action, or exact for discrete actions.
    target_entropy: scalar or `[...]`, in nats.
    parameterization: `'alpha'` for the first form, `'log_alpha'` for the second.

  Returns:
    `[...]`, one loss per example; it differentiates with respect to `log_alpha` only.

  Raises:
    ValueError: the shapes don't fit or the parameterization is unknown.

  >>> jax.grad(temperature_loss)(0.0, jnp.array(-1.5), -1.0)
  Array(-0.5, dtype=float32, weak_type=True)

  Reference: Haarnoja et al. 2018, eq. 18, arXiv 1812.05905.
  """
  log_alpha, entropy, target_entropy = checks.as_floats(
    log_alpha=log_alpha, entropy=entropy, target_entropy=target_entropy
  )
  checks.scalar_or_like('log_alpha', log_alpha, entropy=entropy)
  checks.scalar_or_like('target_entropy', target_entropy, entropy=entropy)
  if parameterization == 'alpha':
    multiplier = jnp.exp(log_alpha)
  elif parameterization == 'log_alpha':
    multiplier = log_alpha
  else:
    raise ValueError(f"parameterization must be 'alpha' or 'log_alpha', got {parameterization!r}.")
  return multiplier * jax.lax.stop_gradient(entropy - target_entropy)


def continuous_target_entropy(num_dimensions: int, scale: Array | float = 1.0) -> Array | float:
  r"""Returns the usual target entropy of a continuous policy.

  $$\bar H = -\text{scale} \cdot D$$

  Args:
    num_dimensions: D, the number of action dimensions, at least 1.
    scale: a scalar, nats below zero for each dimension.

  Returns:
    The target entropy in nats, a scalar, for actions in the canonical box [-1, 1].

  Raises:
    ValueError: D is below 1.

  >>> continuous_target_entropy(6)
  -6.0

  Reference: Haarnoja et al. 2018, table 1 (appendix D), arXiv 1812.05905.
  """
  if num_dimensions < 1:
    raise ValueError(f'num_dimensions must be at least 1, got {num_dimensions}.')
  return -1.0 * scale * num_dimensions


def discrete_target_entropy(
  num_actions: int | Array | np.ndarray, ratio: Array | float = 0.98
) -> Array | float:
  r"""Returns a part of the largest entropy that a policy over discrete actions can have.

  $$\bar H = \text{ratio} \cdot \log A, \quad\text{with a mask}\quad
      \bar H = \text{ratio} \cdot \log \sum_a m_a$$

  With a mask it follows the state: a target from the number of all actions may lie above what the legal ones
  allow, and alpha would rise for ever. The paper's ratio is far too high for most tasks, too: at 0.98 the
  better of two actions has a probability of 0.58 at the most. Entropies add over the factors of a factored
  action, so pass the product of their sizes, or the joint mask.

  Args:
    num_actions: A, a number of at least 1, or a legality mask `[..., A]`, bool or integer.
    ratio: a scalar in [0, 1].

  Returns:
    The target entropy in nats, a number, or `[...]` for a mask; exactly 0 where a single action is legal, and
    where none is, as in a terminal state.

  Raises:
    ValueError: the ratio is no scalar in [0, 1], or the number is below 1.
    TypeError: the mask is a floating array.

  >>> round(discrete_target_entropy(2), 6)
  0.679284
  >>> discrete_target_entropy(jnp.array([[1, 1, 0, 0], [0, 0, 1, 0]]))
  Array([0.6792842, 0.       ], dtype=float32)

  Reference: Christodoulou 2019, hyperparameters (a target entropy of 0.98 log A), arXiv 1910.07207.
  """
  if jnp.shape(ratio) != ():
    raise ValueError(f'ratio must be a scalar, got shape {jnp.shape(ratio)}.')
  checks.in_range('ratio', ratio, 0.0, 1.0)
  if isinstance(num_actions, (int, np.integer)):
    if num_actions < 1:
      raise ValueError(f'num_actions must be at least 1, got {num_actions}.')
    return ratio * float(np.log(num_actions))
  mask = checks.as_mask('num_actions', num_actions)
  if mask.ndim < 1:
    raise ValueError(f'num_actions must be a number or a mask [..., A], got an array of shape {mask.shape}.')
  (ratio,) = checks.as_floats(ratio=ratio)
  return ratio * jnp.log(jnp.maximum(jnp.sum(mask, axis=-1), 1).astype(ratio.dtype))
