"""What the distributions share: rows of a batch, and pairs of batches for divergences between two laws."""

from __future__ import annotations

import math
from typing import Any, TypeVar

import distrax
import jax
import numpy as np

LawT = TypeVar('LawT', bound=distrax.Distribution)


def select(law: LawT, index: Any) -> LawT:
  """Picks rows of a distribution's batch.

  Args:
    law: with leaves that lead with its batch shape.
    index: as NumPy takes it, for an array of the batch shape.

  Returns:
    The law of those rows.

  Raises:
    IndexError: the batch shape has no such rows.
  """
  batch = law.batch_shape
  rows = np.arange(math.prod(batch)).reshape(batch)[index]
  return jax.tree_util.tree_map(lambda x: x.reshape(math.prod(batch), *x.shape[len(batch) :])[rows], law)


def align(p: LawT, q: LawT) -> tuple[LawT, LawT]:
  """Repeats the law of the smaller batch, such as a prior, to compare it with every row of the other.

  Args:
    p: a law.
    q: another law of the same kind.

  Returns:
    Both, with the larger batch shape.

  Raises:
    ValueError: the events have two shapes, or neither batch shape ends with the other one.
  """
  if p.event_shape != q.event_shape:
    raise ValueError(f'Both laws must have one event shape, got {p.event_shape} and {q.event_shape}.')
  shorter, longer = sorted((p.batch_shape, q.batch_shape), key=len)
  if longer[len(longer) - len(shorter) :] != shorter:
    raise ValueError(
      f'Both laws must have one batch shape, or one of them the last axes of the other, got {p.batch_shape} '
      f'and {q.batch_shape}.'
    )

  def repeated(law: LawT) -> LawT:
    leading = longer[: len(longer) - len(law.batch_shape)]
    return jax.tree_util.tree_map(lambda x: jax.numpy.broadcast_to(x, (*leading, *x.shape)), law)

  return repeated(p), repeated(q)
