"""What the default networks share between their layers and the distributions: masks and bounded scales."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import jax.numpy as jnp
import numpy as np

from sac_blocks import observations
from sac_blocks.types import Array, PyTree


def is_masked(spec: PyTree, size: int) -> bool:
  """Returns whether observations carry a mask of actions.

  Args:
    spec: the spec of one observation.
    size: the number of entries that the mask must have.

  Raises:
    ValueError: there is a mask, but of another shape or dtype.
  """
  if not observations.has_action_mask(spec):
    return False
  mask_spec = spec[observations.ACTION_MASK]
  if mask_spec.shape != (size,) or mask_spec.dtype != np.bool_:
    raise ValueError(
      f"The observation's {observations.ACTION_MASK} must be bool of shape {(size,)}, an entry for each "
      f'action, got {mask_spec}.'
    )
  return True


def input_keys(spec: PyTree, keys: Sequence[str] | None) -> Sequence[str] | None:
  """Returns the keys of an observation that a network sees: those asked for, or all but the mask.

  Args:
    spec: the spec of one observation.
    keys: those asked for, or None.

  Returns:
    The keys, or None for the whole observation.
  """
  if keys is None and observations.has_action_mask(spec):
    return tuple(key for key in spec if key != observations.ACTION_MASK)
  return keys


def bounded_scale(log_scale: str, bounds: tuple[float, float] | None) -> Callable[[Array], Array]:
  """Makes the function from a network's output to a Gaussian's scale.

  Args:
    log_scale: `'clip'`, whose gradient is 0 beyond the bounds, or `'tanh'`, smooth.
    bounds: lowest and highest log scale; by default (-20, 2) for clip and (-5, 2) for tanh.

  Returns:
    A function of arrays of any shape.

  Raises:
    ValueError: the option is unknown, or the bounds are out of order.
  """
  if log_scale not in ('clip', 'tanh'):
    raise ValueError(f"log_scale must be 'clip' or 'tanh', got {log_scale!r}.")
  low, high = bounds or ((-20.0, 2.0) if log_scale == 'clip' else (-5.0, 2.0))
  if not low < high:
    raise ValueError(f'log_scale_bounds must be (low, high) with low < high, got {(low, high)}.')
  if log_scale == 'clip':
    return lambda raw: jnp.exp(jnp.clip(raw, low, high))
  return lambda raw: jnp.exp(low + 0.5 * (high - low) * (jnp.tanh(raw) + 1.0))
