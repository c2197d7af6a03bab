"""The learning curve as a picture."""

from __future__ import annotations

import os
import time
from pathlib import Path

from agents.anakin.callbacks import seeds
from agents.anakin.callbacks.recording import Recording
from agents.anakin.train import Callback, Report
from agents.records import metrics

# A drawing takes about 0.1 seconds.
_DRAWING_SECONDS = 5.0


def save_curve(
  path: str | os.PathLike[str],
  title: str,
  *,
  label: str = 'greedy policy',
  recorded: Recording | None = None,
) -> Callback:
  """Draws the return of evaluations over environment steps, again and again while training goes on.

  One seed is drawn in a band of one standard deviation over episodes; several with their mean and its 95%
  confidence interval.

  Args:
    path: of the PNG file.
    title: of the figure.
    label: names the run in the legend.
    recorded: a callback of `record` that stands before this one: its evaluations are drawn, so that the
      curve of a run that goes on has its earlier part. By default the curve begins with this training.

  Returns:
    The callback.
  """
  return _Curve(Path(path).expanduser(), title, label, recorded)


class _Curve:
  def __init__(self, path: Path, title: str, label: str, recorded: Recording | None):
    self._path, self._title, self._label = path, title, label
    self._recorded = recorded
    self._runs: list[list[metrics.Evaluation]] = []
    self._next_drawing = 0.0

  def __call__(self, report: Report) -> None:
    if not (new := seeds.evaluations(report)):
      return
    self._runs = self._runs or [[] for _ in new]
    for run, evaluation in zip(self._runs, new, strict=True):
      run.append(evaluation)
    if time.monotonic() >= self._next_drawing:
      self._draw()

  def close(self) -> None:
    if self._runs:
      self._draw()

  def _draw(self) -> None:
    from agents.records import plotting

    runs = self._runs if self._recorded is None else self._recorded.evaluations
    figure, axes = plotting.make_figure(self._title)
    if len(runs) > 1:
      plotting.plot_seeds(axes, runs, label=self._label)
    else:
      plotting.plot_run(axes, runs[0], label=self._label)
    self._path.parent.mkdir(parents=True, exist_ok=True)
    plotting.save_figure(figure, self._path)
    self._next_drawing = time.monotonic() + _DRAWING_SECONDS
