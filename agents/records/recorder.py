"""The files that take the metrics of a run."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import tensorboardX

from agents.records import metrics


class Recorder:
  """Writes the metrics of a run to `metrics.csv` and to TensorBoard events.

  The step of the first record tells where the run goes on: what the files hold of later steps, from a
  run that was killed after its last checkpoint, is dropped.

  Args:
    directory: of the run; its files are continued.

  Attributes:
    evaluations: those of the run so far, by rising step.
  """

  def __init__(self, directory: Path):
    self.evaluations: list[metrics.Evaluation] = []
    self._directory = directory
    self._start = time.monotonic()
    self._file: metrics.MetricsFile | None = None
    self._events: Any = None

  def record(self, label: str, step: int, values: Mapping[str, float]) -> float:
    """Writes metrics that were measured together.

    Args:
      label: what was measured.
      step: environment steps of training before.
      values: the metrics, by name.

    Returns:
      The seconds that the run has been running for, pauses left out.
    """
    if self._file is None:
      self._open(step)
    assert self._file is not None
    wall_time = time.monotonic() - self._start
    self._file.write(step, wall_time, label, values)
    for name, value in values.items():
      self._events.add_scalar(f'{label}/{name}', value, step)
    return wall_time

  def record_evaluation(
    self, step: int, episode_returns: Sequence[float], episode_lengths: Sequence[int]
  ) -> metrics.Evaluation:
    """Writes an evaluation, and keeps it in `evaluations`.

    Args:
      step: environment steps of training before.
      episode_returns: the sum of rewards of each of its episodes.
      episode_lengths: the steps of each.

    Returns:
      The evaluation.
    """
    values = metrics.summary(episode_returns, episode_lengths)
    evaluation = metrics.Evaluation(step, self.record('evaluation', step, values), **values)
    self.evaluations.append(evaluation)
    return evaluation

  def resume_at(self, step: int) -> None:
    """Says where the run goes on, before the first record does."""
    if self._file is None:
      self._open(step)

  def close(self) -> None:
    """Closes the files."""
    if self._file is not None:
      self._file.close()
      self._events.close()

  def _open(self, step: int) -> None:
    path = self._directory / metrics.FILE_NAME
    resumed = path.exists()
    if resumed:
      rows = metrics.rewind(path, step)
      self.evaluations = metrics.evaluations(rows)
      self._start -= rows[-1].wall_time if rows else 0.0
    self._file = metrics.MetricsFile(path)
    self._events = tensorboardX.SummaryWriter(str(self._directory), purge_step=step + 1 if resumed else None)
