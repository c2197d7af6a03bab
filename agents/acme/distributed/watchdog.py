"""Says when replay stands still, which a program would otherwise do for ever and in silence."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from agents.acme import rate_limits


class Watchdog:
  """Looks at replay tables now and then, and tells which of them has stood still for too long.

  A table stands still if learning cannot begin, since it stays below the limiter's `min_size_to_sample`, or
  if nothing is inserted nor sampled any more.

  Args:
    seconds: from the last progress to a warning, and from then to the next one.
  """

  def __init__(self, seconds: float):
    self._seconds = seconds
    self._progress: dict[str, tuple[Any, float]] = {}

  def look(self, tables: Mapping[str, Any], now: float) -> list[str]:
    """Returns a warning for each table that has stood still for too long.

    Args:
      tables: what `reverb.Client.server_info` returns.
      now: seconds, of any clock that goes forward.

    Returns:
      The warnings, each with the numbers of the table's limiter.
    """
    warnings = []
    for name, info in tables.items():
      limiter = info.rate_limiter_info
      filling = info.current_size < limiter.min_size_to_sample
      # While it is filled, inserts alone are no progress that lasts.
      progress = filling or (limiter.insert_stats.completed, limiter.sample_stats.completed)
      before, since = self._progress.get(name, (None, now))
      if progress != before:
        self._progress[name] = (progress, now)
      elif now - since >= self._seconds:
        self._progress[name] = (progress, now)
        what = (
          'it is still below the size at which learning begins'
          if filling
          else 'nothing is inserted nor sampled any more'
        )
        warnings.append(
          f'after {self._seconds:g} seconds of waiting for replay {what}. The table '
          f'{rate_limits.describe(info)}.'
        )
    return warnings


def measure(info: Any) -> dict[str, float]:
  """Returns how much is in a table, and how often that is sampled.

  Args:
    info: of the table, from `reverb.Client.server_info`.

  Returns:
    `items` it holds, `inserts` and `samples` so far, and their ratio `samples_per_insert`, for which, as in
    the limiter's balance, the inserts do not count before which nothing may be sampled.
  """
  limiter = info.rate_limiter_info
  inserts, samples = limiter.insert_stats.completed, limiter.sample_stats.completed
  counted = inserts - limiter.min_size_to_sample
  return {
    'items': float(info.current_size),
    'inserts': float(inserts),
    'samples': float(samples),
    'samples_per_insert': samples / counted if counted > 0 else 0.0,
  }
