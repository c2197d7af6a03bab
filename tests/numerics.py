"""Numerical tools of the tests: double precision, finite differences, error messages."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable
from typing import Any

import jax
import numpy as np
import pytest


def enable_x64() -> contextlib.AbstractContextManager[Any]:
  """Returns a context in which jax computes in float64, under the name this jax has for it."""
  if hasattr(jax, 'enable_x64'):
    return jax.enable_x64(True)
  from jax.experimental import enable_x64 as experimental_enable_x64

  return experimental_enable_x64()


def finite_differences(function: Callable[[np.ndarray], Any], x: Any, *, step: float = 1e-5) -> np.ndarray:
  """Returns the gradient of the sum of `function` at `x`, by central differences in float64."""
  x = np.asarray(x, np.float64)
  gradient = np.zeros_like(x)
  for index in np.ndindex(x.shape):
    above, below = x.copy(), x.copy()
    above[index] += step
    below[index] -= step
    rise = np.sum(np.asarray(function(above), np.float64)) - np.sum(np.asarray(function(below), np.float64))
    gradient[index] = rise / (2.0 * step)
  return gradient


@contextlib.contextmanager
def raises_naming(**shapes: tuple[int, ...]):
  """Expects a ValueError whose message holds every keyword as a word and its value as a shape."""
  with pytest.raises(ValueError) as error_info:  # noqa: PT011
    yield
  message = str(error_info.value)
  for name, shape in shapes.items():
    assert re.search(rf'\b{name}\b', message), f'{name!r} is not named in: {message}'
    inner = ', '.join(map(str, shape))
    assert re.search(rf'[\[(]{re.escape(inner)},?[\])]', message), (
      f'the shape {shape} of {name!r} is not given in: {message}'
    )
