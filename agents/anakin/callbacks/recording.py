"""The metrics of training as files."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from agents.anakin.callbacks import seeds
from agents.anakin.train import Report
from agents.records import metrics

# Of training itself; all others are the algorithm's.
_TRAINING = ('episodes', 'episode_return', 'episode_length')


def record(directory: str | os.PathLike[str], names: Sequence[str] | None = None) -> Recording:
  """Writes the metrics to tables and to TensorBoard events, as `sac-train` does.

  One seed writes to the directory itself; each of several to a folder of its own in there, as a run of its
  own. Files that exist are continued: what they hold from the first reported step on is dropped, so a run
  that goes on from a checkpoint lives through that once more, and a new run replaces all of it.

  Args:
    directory: takes `metrics.csv` and the events; made if missing.
    names: of the folders of several seeds; by default `seed_0` and so on.

  Returns:
    The callback.
  """
  return Recording(Path(directory).expanduser(), names)


class Recording:
  """The callback of `record`.

  Args:
    directory: where it writes.
    names: of the folders of several seeds, or None for the default ones.
  """

  def __init__(self, directory: Path, names: Sequence[str] | None):
    self._directory = directory
    self._names = names
    self._recorders: list[Any] = []
    self._before: tuple[int, float] | None = None

  @property
  def evaluations(self) -> list[list[metrics.Evaluation]]:
    """Those of each seed so far, of the part of the run before a checkpoint as well."""
    return [recorder.evaluations for recorder in self._recorders]

  def __call__(self, report: Report) -> None:
    """Writes a report.

    Raises:
      ValueError: there are not as many names as seeds.
    """
    step = report.num_steps
    if not self._recorders:
      self._recorders = self._open(report)
    speed = {}
    if self._before is not None:
      steps, seconds = self._before
      speed = {'steps_per_second': (step - steps) / (report.seconds - seconds)}
    self._before = (step, report.seconds)
    for recorder, training in zip(self._recorders, seeds.training(report), strict=True):
      if training:
        recorder.record('train', step, {**_of_episodes(training), **speed})
        recorder.record('learner', step, {**_of_algorithm(training), 'steps': report.num_updates})
    if report.evaluation is not None:
      of_seeds = zip(self._recorders, *seeds.episodes(report.evaluation), strict=True)
      for recorder, returns, lengths in of_seeds:
        recorder.record_evaluation(step, returns, lengths)

  def close(self) -> None:
    """Closes the files."""
    for recorder in self._recorders:
      recorder.close()

  def _open(self, report: Report) -> list[Any]:
    from agents.records.recorder import Recorder

    num_seeds = seeds.num_seeds(report)
    several = np.ndim(report.state.num_steps) > 0
    names = self._names or [f'seed_{i}' for i in range(num_seeds)]
    if several and len(names) != num_seeds:
      raise ValueError(f'There are {num_seeds} seeds, got {len(names)} names of folders: {list(names)}.')
    recorders = []
    for directory in [self._directory / name for name in names] if several else [self._directory]:
      directory.mkdir(parents=True, exist_ok=True)
      recorders.append(Recorder(directory))
      # The metrics of this report are of steps before it, its evaluation included.
      recorders[-1].resume_at(report.num_steps - 1)
    return recorders


def _of_episodes(training: Mapping[str, float]) -> dict[str, float]:
  """Returns the metrics of episodes, which mean nothing where none has ended."""
  ended = training['episodes'] > 0
  return {name: training[name] for name in _TRAINING if ended or name == 'episodes'}


def _of_algorithm(training: Mapping[str, float]) -> dict[str, float]:
  return {name: value for name, value in training.items() if name not in _TRAINING}
