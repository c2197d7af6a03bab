"""Replay tables, and the rate limits that they can keep."""

from __future__ import annotations

import math

import reverb
import tensorflow as tf
from acme import specs, types
from reverb import rate_limiters

from agents.acme.replay.layout import RowLayout

# What Reverb 0.11 keeps of an item beside its bytes: keys, priorities, the chunk that holds them.
_ITEM_OVERHEAD_BYTES = 1536


def make_table(
  name: str,
  environment_spec: specs.EnvironmentSpec,
  *,
  max_size: int,
  min_size: int,
  batch_size: int,
  samples_per_insert: float | None = None,
  error_buffer: float | None = None,
  extras_spec: types.NestedSpec = (),
) -> reverb.Table:
  """Makes a table of transitions that is sampled uniformly and drops its oldest item first.

  Args:
    name: the table's name.
    environment_spec: of the environment whose transitions it holds.
    max_size: items that it holds at most.
    min_size: items from which on it may be sampled.
    batch_size: items that one learner step takes.
    samples_per_insert: how often an item is sampled on average; None or infinity lifts the limit, and
      only `min_size` holds.
    error_buffer: sampled items by which the ratio may be off, in both directions; needed with a ratio.
    extras_spec: what the policy adds to each step.

  Returns:
    The table.

  Raises:
    ValueError: the limits can never be met (see `make_rate_limiter`).
  """
  limiter = make_rate_limiter(
    max_size=max_size,
    min_size=min_size,
    batch_size=batch_size,
    samples_per_insert=samples_per_insert,
    error_buffer=error_buffer,
  )
  layout = RowLayout.from_environment_spec(environment_spec, extras_spec)
  return reverb.Table(
    name=name,
    sampler=reverb.selectors.Uniform(),
    remover=reverb.selectors.Fifo(),
    max_size=max_size,
    rate_limiter=limiter,
    # The name is the only text that reaches the table's readers and writers, which may live in other
    # processes and know nothing of the environment.
    signature=tf.TensorSpec((layout.row_bytes,), tf.uint8, name=layout.to_json()),
  )


def make_rate_limiter(
  *,
  max_size: int,
  min_size: int,
  batch_size: int,
  samples_per_insert: float | None = None,
  error_buffer: float | None = None,
) -> rate_limiters.RateLimiter:
  """Makes a rate limiter, and refuses one by which reader and writer would wait for ever.

  Samples and inserts are counted in items, not in batches or environment steps. From `min_size` on, samples
  wait for inserts and inserts for samples, so as to keep

    |samples_per_insert (inserts - min_size) - samples| <= error_buffer.

  When inserts are blocked, more than 2 error_buffer - samples_per_insert items can be sampled. That has to
  be a batch, or else a reader that waits for a batch and a writer that waits for room wait for each other.

  Args:
    max_size: items that the table holds at most.
    min_size: items from which on it may be sampled.
    batch_size: items that one learner step takes.
    samples_per_insert: how often an item is sampled on average; None or infinity lifts the limit, and
      only `min_size` holds.
    error_buffer: sampled items by which the ratio may be off, in both directions; needed with a ratio.

  Returns:
    The rate limiter.

  Raises:
    ValueError: with the numbers that don't go together.

  >>> make_rate_limiter(max_size=1000, min_size=5000, batch_size=256)
  Traceback (most recent call last):
  ...
  ValueError: sampling starts at min_size=5000 items, but the table holds at most max_size=1000:
  lower min_size or raise max_size.
  """
  for name, value in (('max_size', max_size), ('min_size', min_size), ('batch_size', batch_size)):
    if value < 1:
      raise ValueError(f'{name} must be at least 1, got {value}.')
  if max_size < min_size:
    raise ValueError(
      f'sampling starts at min_size={min_size} items, but the table holds at most '
      f'max_size={max_size}: lower min_size or raise max_size.'
    )
  if samples_per_insert is None or samples_per_insert == math.inf:
    return rate_limiters.MinSize(min_size)
  if not samples_per_insert > 0:
    raise ValueError(f'samples_per_insert must be positive, or None, got {samples_per_insert}.')
  narrowest = max(1.0, samples_per_insert, (batch_size + samples_per_insert) / 2)
  if error_buffer is None or not error_buffer >= narrowest:
    raise ValueError(
      f'error_buffer={error_buffer} is too narrow: with samples_per_insert={samples_per_insert} and '
      f'batches of {batch_size} items, inserts would be blocked before a batch can be sampled, and '
      f'learning would wait for ever. Raise it to at least {narrowest}, or make the batches smaller.'
    )
  return rate_limiters.SampleToInsertRatio(
    samples_per_insert=samples_per_insert,
    min_size_to_sample=min_size,
    error_buffer=float(error_buffer),
  )


def projected_bytes(
  environment_spec: specs.EnvironmentSpec, max_size: int, extras_spec: types.NestedSpec = ()
) -> int:
  """Bytes of memory that a full table takes if its data doesn't compress.

  Each transition holds both of its observations: neighbours share none.

  Args:
    environment_spec: of the environment whose transitions it holds.
    max_size: items that the table holds at most.
    extras_spec: what the policy adds to each step.

  Returns:
    The bytes, Reverb's own (1.5 KiB an item) included.
  """
  layout = RowLayout.from_environment_spec(environment_spec, extras_spec)
  return max_size * (layout.row_bytes + _ITEM_OVERHEAD_BYTES)
