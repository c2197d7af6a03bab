"""The metrics of a run as one table: `metrics.csv`, a row for each number.

Its columns are `step` (environment steps so far), `wall_time` (seconds of running so far), `label` (`train`,
`learner`, `evaluation` or `replay`), `metric` and `value`. Any metric may appear at any time, a row never
changes, and a run that was killed leaves whole rows behind. With pandas:

    df = pd.read_csv('metrics.csv')
    df[df.label == 'evaluation'].pivot(index='step', columns='metric', values='value')
"""

from __future__ import annotations

import csv
import math
import os
import statistics
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

FILE_NAME = 'metrics.csv'


class Row(NamedTuple):
  """One number of a run.

  Attributes:
    step: environment steps taken before it was measured.
    wall_time: seconds that the run had been running for, pauses left out.
    label: what was measured: `train`, `learner`, `evaluation` or `replay`.
    metric: its name.
    value: the number.
  """

  step: int
  wall_time: float
  label: str
  metric: str
  value: float


class Evaluation(NamedTuple):
  """What the episodes of one evaluation gave.

  Attributes:
    step: environment steps of training before it.
    wall_time: seconds that the run had been running for.
    return_mean: mean of the episodes' returns, the sums of their rewards.
    return_std: their (population) standard deviation.
    return_min: the lowest return.
    return_max: the highest return.
    length_mean: mean length of an episode, in steps.
    episodes: the number of episodes.
  """

  step: int
  wall_time: float
  return_mean: float
  return_std: float
  return_min: float
  return_max: float
  length_mean: float
  episodes: float


def pool(evaluations: Sequence[Evaluation]) -> Evaluation:
  """Returns the evaluation of all episodes of several seeds together.

  Args:
    evaluations: at least one, at the same step and with the same number of episodes.

  >>> one, other = (Evaluation(9, 1.0, mean, 3.0, mean - 5, mean + 5, 200.0, 2) for mean in (10.0, 18.0))
  >>> pool([one, other])
  Evaluation(step=9, wall_time=1.0, return_mean=14.0, return_std=5.0, return_min=5.0, return_max=23.0, ...
  """
  means = [evaluation.return_mean for evaluation in evaluations]
  return Evaluation(
    evaluations[0].step,
    max(evaluation.wall_time for evaluation in evaluations),
    statistics.fmean(means),
    # The variance within the seeds, and that between them.
    math.sqrt(statistics.fmean(e.return_std**2 for e in evaluations) + statistics.pvariance(means)),
    min(evaluation.return_min for evaluation in evaluations),
    max(evaluation.return_max for evaluation in evaluations),
    statistics.fmean(evaluation.length_mean for evaluation in evaluations),
    sum(evaluation.episodes for evaluation in evaluations),
  )


class MetricsFile:
  """Appends metrics to a table, each record as whole rows that reach the disk at once.

  Args:
    path: of the table; one that exists is continued.
  """

  def __init__(self, path: Path):
    is_new = not path.exists()
    self._file = path.open('a', newline='', encoding='utf-8')
    self._writer = csv.writer(self._file, lineterminator='\n')
    if is_new:
      self._writer.writerow(Row._fields)
      self._file.flush()

  def write(self, step: int, wall_time: float, label: str, metrics: Mapping[str, float]) -> None:
    """Writes metrics that were measured together."""
    for metric, value in metrics.items():
      self._writer.writerow(Row(step, round(wall_time, 3), label, metric, float(value)))
    self._file.flush()

  def close(self) -> None:
    """Closes the file."""
    self._file.close()


def summary(
  episode_returns: Sequence[float] | np.ndarray, episode_lengths: Sequence[int] | np.ndarray
) -> dict[str, float]:
  """Summarises the episodes of an evaluation, under the names of the fields of `Evaluation`.

  Args:
    episode_returns: the sum of rewards of each.
    episode_lengths: the steps of each.
  """
  return {
    'return_mean': float(np.mean(episode_returns)),
    'return_std': float(np.std(episode_returns)),
    'return_min': float(np.min(episode_returns)),
    'return_max': float(np.max(episode_returns)),
    'length_mean': float(np.mean(episode_lengths)),
    'episodes': len(episode_returns),
  }


def read(path: Path) -> list[Row]:
  """Reads a table.

  Args:
    path: of the table; a missing one has no rows.

  Returns:
    Its rows, in the order of writing; a last row that a crash cut short is left out.

  Raises:
    ValueError: the file is something else.
  """
  if not path.exists():
    return []
  text = path.read_text(encoding='utf-8')
  lines = csv.reader(text[: text.rfind('\n') + 1].splitlines())
  if tuple(next(lines, Row._fields)) != Row._fields:
    raise ValueError(f'{path} has other columns than {",".join(Row._fields)}: it is not a table of metrics')
  return [
    Row(int(step), float(wall_time), label, metric, float(value))
    for step, wall_time, label, metric, value in lines
  ]


def rewind(path: Path, step: int) -> list[Row]:
  """Drops the rows of a future that a run resumed at `step` lives through again.

  A resumed run begins with an evaluation, so one at `step` itself goes as well.

  Args:
    path: of the table, which is replaced.
    step: at which the run resumes.

  Returns:
    The rows that are left.
  """
  kept = [row for row in read(path) if row.step < step + (row.label != 'evaluation')]
  temporary = path.with_suffix('.tmp')
  with temporary.open('w', newline='', encoding='utf-8') as file:
    csv.writer(file, lineterminator='\n').writerows([Row._fields, *kept])
  os.replace(temporary, path)
  return kept


def evaluations(rows: Iterable[Row]) -> list[Evaluation]:
  """Collects the evaluations among the rows of a table.

  Args:
    rows: of one run.

  Returns:
    The evaluations, by rising step.
  """
  measured: dict[tuple[int, float], dict[str, float]] = {}
  for row in rows:
    if row.label == 'evaluation':
      measured.setdefault((row.step, row.wall_time), {})[row.metric] = row.value
  return [
    Evaluation(step, wall_time, **metrics)
    for (step, wall_time), metrics in sorted(measured.items())
    # A crash may have cut the last evaluation short.
    if len(metrics) == len(Evaluation._fields) - 2
  ]
