"""Ending training before its budget."""

from __future__ import annotations

import numpy as np

from agents.anakin.callbacks import seeds
from agents.anakin.train import Callback, Report


def stop_at_return(value: float) -> Callback:
  """Ends training at an evaluation whose mean return is high enough, for every seed.

  Args:
    value: the least mean return.

  Returns:
    The callback.
  """

  def callback(report: Report) -> bool:
    if report.evaluation is None:
      return False
    returns, _ = seeds.episodes(report.evaluation)
    return bool(np.all(returns.mean(axis=-1) >= value))

  return callback
