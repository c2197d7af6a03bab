"""Training as it is seen on a terminal."""

from __future__ import annotations

from typing import Any

import numpy as np

from agents.anakin.callbacks import seeds
from agents.anakin.callbacks.recording import Recording
from agents.anakin.train import Callback, Report
from agents.records import metrics


def show_progress(num_steps: int, *, recorded: Recording | None = None) -> Callback:
  """Shows a bar with the rate and the time left, and a table of the evaluations.

  Steps are those of one seed; returns and lengths are over the episodes of all seeds.

  Args:
    num_steps: environment steps of the whole training, `AnakinConfig.num_steps`.
    recorded: a callback of `record` that stands before this one: the time of a run that goes on is then that
      of all of it.

  Returns:
    The callback.
  """
  return _Shown(num_steps, recorded)


class _Shown:
  def __init__(self, num_steps: int, recorded: Recording | None):
    self._num_steps = num_steps
    self._recorded = recorded
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
    if not (of_seeds := seeds.evaluations(report)):
      return
    if self._recorded is not None:
      of_seeds = [evaluations[-1] for evaluations in self._recorded.evaluations]
    evaluation = metrics.pool(of_seeds)
    if not self._has_header:
      self._progress.print(progress.evaluation_header(int(evaluation.episodes)))
      self._has_header = True
    self._progress.print(progress.evaluation_row(evaluation))

  def close(self) -> None:
    if self._progress is not None:
      self._progress.close()
