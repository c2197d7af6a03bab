"""Training as it is seen on a terminal."""

from __future__ import annotations

from typing import Any

import numpy as np

from agents.anakin.callbacks import seeds
from agents.anakin.train import Callback, Report
from agents.records import metrics


def show_progress(num_steps: int) -> Callback:
  """Shows a bar with the rate and the time left, and a table of the evaluations.

  Steps are those of one seed; returns and lengths are over the episodes of all seeds.

  Args:
    num_steps: environment steps of the whole training, `AnakinConfig.num_steps`.

  Returns:
    The callback.
  """
  return _Shown(num_steps)


class _Shown:
  def __init__(self, num_steps: int):
    self._num_steps = num_steps
    self._progress: Any = None
    self._has_header = False

  def __call__(self, report: Report) -> None:
    from agents.records import progress

    if self._progress is None:
      self._progress = progress.Progress(self._num_steps)
      # A run that goes on did not take its earlier steps just now.
      self._progress.go_to(report.num_steps)
    trained = [seed['episode_return'] for seed in seeds.training(report) if seed.get('episodes')]
    if trained:
      self._progress.show_return(float(np.mean(trained)))
    self._progress.advance(report.num_steps - self._progress.step)
    if report.evaluation is None:
      return
    returns, lengths = (x.ravel() for x in seeds.episodes(report.evaluation))
    if not self._has_header:
      self._progress.print(progress.evaluation_header(len(returns)))
      self._has_header = True
    evaluation = metrics.Evaluation(report.num_steps, report.seconds, **metrics.summary(returns, lengths))
    self._progress.print(progress.evaluation_row(evaluation))

  def close(self) -> None:
    if self._progress is not None:
      self._progress.close()
