"""Reverb's rate limiters, as one thread that both inserts and samples has to treat them.

A table's limiter holds the balance `inserts * samples_per_insert - samples` between `min_diff`, below
which sampling waits, and `max_diff`, above which inserting waits; it also lets nothing be sampled
below `min_size_to_sample` items.
"""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Sequence
from typing import Any

import numpy as np
import reverb
import tree


def check_reachable(tables: Sequence[reverb.Table], num_steps: int) -> None:
  """Raises unless every table can be sampled before the experiment ends.

  Args:
    tables: the agent's replay tables.
    num_steps: environment steps of the experiment, each of which inserts at most one item.

  Raises:
    ValueError: a table cannot hold, or will not be given, as many items as its limiter asks for.
  """
  for table in tables:
    info = table.info
    limiter = info.rate_limiter_info
    if limiter.min_size_to_sample > info.max_size:
      raise ValueError(
        f'The replay table {info.name!r} holds at most {info.max_size} items, but its rate limiter '
        f'lets nothing be sampled below {limiter.min_size_to_sample}: learning would never start. '
        'Enlarge the table or lower min_size_to_sample.'
      )
    inserts = max(
      limiter.min_size_to_sample, math.ceil((limiter.min_diff + 1.0) / limiter.samples_per_insert)
    )
    if inserts > num_steps:
      raise ValueError(
        f'The rate limiter of the replay table {info.name!r} lets nothing be sampled before '
        f'{inserts} inserts, but the experiment ends after {num_steps} steps: learning would never '
        'start. Raise max_num_actor_steps or lower min_size_to_sample.'
      )


def unblock_inserts(tables: Sequence[reverb.Table]) -> list[reverb.Table]:
  """Returns the tables with limiters that never make an insert wait.

  A thread that waits for an insert cannot sample, so it would wait for ever.
  """

  def unblocked(table: reverb.Table) -> reverb.Table:
    limiter = table.info.rate_limiter_info
    return table.replace(
      rate_limiter=reverb.rate_limiters.RateLimiter(
        samples_per_insert=limiter.samples_per_insert,
        min_size_to_sample=limiter.min_size_to_sample,
        min_diff=limiter.min_diff,
        max_diff=sys.float_info.max,
      )
    )

  return [unblocked(table) for table in tables]


def tolerated_backlog(table: reverb.Table) -> float:
  """Returns how many samples may be outstanding before the next insert should wait for learning.

  It is half the width of the limiter's window, so that the balance is kept in its lower half; and
  infinite where the limiter sets no ratio.
  """
  limiter = table.info.rate_limiter_info
  half_width = limiter.max_diff / 2 - limiter.min_diff / 2
  return math.inf if half_width >= sys.float_info.max / 2 else max(1.0, half_width)


def describe(info: Any) -> str:
  """Returns one line about a table's contents and its limiter.

  Args:
    info: of the table, from `reverb.Table.info` or `reverb.Client.server_info`.
  """
  limiter = info.rate_limiter_info
  waiting = [what for what, can in (('inserting', _can_insert), ('sampling', _can_sample)) if not can(info)]
  return (
    f'{info.name!r} holds {info.current_size} items; {limiter.insert_stats.completed} inserts, '
    f'{limiter.sample_stats.completed} samples; samples_per_insert={limiter.samples_per_insert:g}, '
    f'min_size_to_sample={limiter.min_size_to_sample}, min_diff={_bound(limiter.min_diff)}, '
    f'max_diff={_bound(limiter.max_diff)}; {" and ".join(waiting) or "nothing"} has to wait'
  )


def _bound(value: float) -> str:
  # Limiters without a bound have the largest number there is.
  return f'{value:g}' if abs(value) < sys.float_info.max else f'{math.copysign(math.inf, value)}'


def _balance(info: Any) -> float:
  limiter = info.rate_limiter_info
  return limiter.insert_stats.completed * limiter.samples_per_insert - limiter.sample_stats.completed


def _can_sample(info: Any) -> bool:
  limiter = info.rate_limiter_info
  return info.current_size >= limiter.min_size_to_sample and _balance(info) - 1 >= limiter.min_diff


def _can_insert(info: Any) -> bool:
  limiter = info.rate_limiter_info
  return (
    info.current_size < limiter.min_size_to_sample
    or _balance(info) + limiter.samples_per_insert <= limiter.max_diff
  )


def satisfy_samplers(client: reverb.Client, tables: Sequence[reverb.Table], timeout: float) -> bool:
  """Inserts zeros until what samples from the tables has its buffers full.

  A sampler in the server's own process that waits for a limiter cannot be cancelled: the server's
  end does not reach it, and it would keep its thread and the whole table for the life of the
  process. So a table that is no longer needed is filled instead.

  Args:
    client: of the tables' server.
    tables: those to fill; their signatures have to say which zeros fit.
    timeout: seconds after which to give up.

  Returns:
    Whether every table now has samples to spare.
  """
  deadline = time.monotonic() + timeout
  return all(_satisfy(client, table, deadline) for table in tables)


def _satisfy(client: reverb.Client, table: reverb.Table | _RemoteTable, deadline: float) -> bool:
  signature = table.info.signature
  if signature is None or any(
    spec.dtype.as_numpy_dtype is object or spec.shape.rank is None for spec in tree.flatten(signature)
  ):
    return False
  zeros = tree.map_structure(
    lambda spec: np.zeros([size or 1 for size in spec.shape], spec.dtype.as_numpy_dtype), signature
  )
  num_inserts = 1
  with client.trajectory_writer(num_keep_alive_refs=1) as writer:
    while not _has_samples_to_spare(table):
      if time.monotonic() > deadline:
        return False
      for _ in range(min(num_inserts, _room(table.info))):
        writer.append(zeros)
        item = tree.map_structure(lambda column: column[-1], writer.history)
        writer.create_item(table.name, priority=1.0, trajectory=item)
      writer.flush()
      num_inserts = min(2 * num_inserts, 256)
  return True


def _room(info: Any) -> int:
  """Returns how many inserts a table allows at once, of the many that may be wanted."""
  limiter = info.rate_limiter_info
  room = max(
    limiter.min_size_to_sample - info.current_size,
    (limiter.max_diff - _balance(info)) / limiter.samples_per_insert,
  )
  # Where nothing can be sampled, one can be inserted.
  return int(min(max(room, 1.0), 256.0))


def _has_samples_to_spare(table: reverb.Table | _RemoteTable) -> bool:
  for _ in range(4):
    if not table.can_sample(1):
      return False
    # A sampler with room left takes them meanwhile.
    time.sleep(0.005)
  return True


def satisfy_remote_samplers(client: reverb.Client, timeout: float) -> bool:
  """Does what `satisfy_samplers` does, for all tables of a server that may be in another process.

  Args:
    client: of the server.
    timeout: seconds after which to give up.

  Returns:
    Whether every table now has samples to spare.
  """
  deadline = time.monotonic() + timeout
  try:
    tables = [_RemoteTable(client, name) for name in client.server_info(timeout=1)]
    return all(_satisfy(client, table, deadline) for table in tables)
  except (reverb.ReverbError, RuntimeError):
    # A server that is gone has let go of its samplers.
    return False


class _RemoteTable:
  """A table behind a client."""

  def __init__(self, client: reverb.Client, name: str):
    self._client = client
    self.name = name

  @property
  def info(self) -> Any:
    return self._client.server_info(timeout=1)[self.name]

  def can_sample(self, num_samples: int) -> bool:
    assert num_samples == 1
    return _can_sample(self.info)
