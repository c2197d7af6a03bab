"""What a run shows on the terminal and leaves in its directory, wherever its parts run.

The loggers have the methods of `acme.utils.loggers.Logger`, and need no Acme.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import jax
import numpy as np

from agents.command.settings import Settings
from agents.records import plotting
from agents.records.metrics import Evaluation
from agents.records.progress import Progress, evaluation_header, evaluation_row
from agents.records.recorder import Recorder

CURVE_FILE_NAME = 'learning_curve.png'
# How often learner metrics are recorded between two evaluations.
_RECORDS_PER_EVALUATION = 10
# A drawing takes about 0.1 seconds.
_DRAWING_SECONDS = 5.0
# The counter of Acme's experiments that all components share.
_STEPS = 'actor_steps'
# Counts come with every metric, yet say nothing but how far their component is.
_COUNTS = ('_steps', '_episodes', '_walltime')


def learner_period(settings: Settings) -> int:
  """Returns the environment steps between two records of the learner's metrics."""
  return max(1, settings.eval_every // _RECORDS_PER_EVALUATION)


def device_name() -> str:
  """Returns what JAX computes on, for people."""
  device = jax.devices()[0]
  return device.platform if device.platform == 'cpu' else f'{device.platform} ({device.device_kind})'


class Logger(Protocol):
  """What Acme asks of a logger."""

  def write(self, data: Mapping[str, Any], /) -> None:
    """Takes metrics that were measured together."""

  def close(self) -> None:
    """Ends the log."""


class Episode(NamedTuple):
  """An episode of training.

  Attributes:
    step: environment steps of training at its end.
    episode_return: the sum of its rewards.
    length: its steps.
  """

  step: int
  episode_return: float
  length: int


class EpisodeLogger:
  """Records the episodes of training.

  Args:
    recorder: takes the metrics.
    on_episode: is told of each episode.
  """

  def __init__(self, recorder: Recorder, on_episode: Callable[[Episode], None]):
    self._recorder = recorder
    self._on_episode = on_episode

  def write(self, data: Mapping[str, Any], /) -> None:
    """Takes the metrics of one episode."""
    episode = Episode(int(data[_STEPS]), float(data['episode_return']), int(data['episode_length']))
    values = {
      'episode_return': episode.episode_return,
      'episode_length': episode.length,
      'steps_per_second': float(data['steps_per_second']),
    }
    self._recorder.record('train', episode.step, values)
    self._on_episode(episode)

  def close(self) -> None:
    """Has nothing to end."""


class EvaluationLogger:
  """Makes one evaluation of a number of episodes, and records it.

  Args:
    recorder: takes the metrics.
    num_episodes: of an evaluation.
    on_evaluation: is told of each evaluation.
  """

  def __init__(self, recorder: Recorder, num_episodes: int, on_evaluation: Callable[[Evaluation], None]):
    self._recorder = recorder
    self._num_episodes = num_episodes
    self._on_evaluation = on_evaluation
    self._returns: list[float] = []
    self._lengths: list[int] = []

  def write(self, data: Mapping[str, Any], /) -> None:
    """Takes the metrics of one episode."""
    self._returns.append(float(data['episode_return']))
    self._lengths.append(int(data['episode_length']))
    if len(self._returns) < self._num_episodes:
      return
    # Nothing has been counted before the first step of training.
    step = int(data.get(_STEPS, 0))
    evaluation = self._recorder.record_evaluation(step, self._returns, self._lengths)
    self._returns, self._lengths = [], []
    self._on_evaluation(evaluation)

  def close(self) -> None:
    """Has nothing to end."""


class LearnerLogger:
  """Records every so many environment steps what the learner reports.

  Reading a metric may wait for the device, so most reports are not looked at.

  Args:
    recorder: takes the metrics.
    period: environment steps between records.
    current_step: tells the environment steps so far, those of the present episode included.
  """

  def __init__(self, recorder: Recorder, period: int, current_step: Callable[[], int]):
    self._recorder = recorder
    self._period = period
    self._current_step = current_step
    self._next = 0

  def write(self, data: Mapping[str, Any], /) -> None:
    """Takes the metrics of one learner step."""
    step = self._current_step()
    if step < self._next:
      return
    self._next = step + self._period
    self._recorder.record('learner', step, {**_scalars(data), 'steps': float(data['learner_steps'])})

  def close(self) -> None:
    """Has nothing to end."""


class ReplayLogger:
  """Records what replay reports, and hands on its warnings.

  Args:
    recorder: takes the numbers.
    current_step: tells the environment steps so far.
    on_warning: is told of each warning.
  """

  def __init__(self, recorder: Recorder, current_step: Callable[[], int], on_warning: Callable[[str], None]):
    self._recorder = recorder
    self._current_step = current_step
    self._on_warning = on_warning

  def write(self, data: Mapping[str, Any], /) -> None:
    """Takes the numbers of one moment, and a `warning` if there is one."""
    if 'warning' in data:
      self._on_warning(data['warning'])
    numbers = {name: value for name, value in data.items() if name != 'warning'}
    self._recorder.record('replay', self._current_step(), _scalars(numbers))

  def close(self) -> None:
    """Has nothing to end."""


def _scalars(data: Mapping[str, Any]) -> dict[str, float]:
  return {
    name: float(value) for name, value in data.items() if not name.endswith(_COUNTS) and np.ndim(value) == 0
  }


class Report:
  """The progress, the tables and the picture of a run.

  Args:
    settings: of the run.
    directory: takes tables and picture.

  Attributes:
    progress: on the terminal.
  """

  def __init__(self, settings: Settings, directory: Path):
    self.progress = Progress(settings.steps)
    self._settings = settings
    self._directory = directory
    self._recorder = Recorder(directory)
    self._next_drawing = 0.0
    self.progress.print(evaluation_header(settings.num_eval_episodes))

  @property
  def evaluations(self) -> list[Evaluation]:
    """Those of the run so far, by rising step."""
    return self._recorder.evaluations

  def resume_at(self, step: int) -> None:
    """Drops what the tables hold of later steps; needed where the first metrics may be of a later one."""
    self.progress.go_to(step)
    self._recorder.resume_at(step)

  def make_logger(self, label: str, current_step: Callable[[], int] | None = None) -> Logger:
    """Makes the logger of a part of the run.

    Args:
      label: `actor`, `evaluator`, `learner` or `replay`.
      current_step: tells the loggers of learner and replay the environment steps so far; by default the
        progress does.
    """
    if label == 'actor':
      return EpisodeLogger(self._recorder, self._on_episode)
    if label == 'evaluator':
      return EvaluationLogger(self._recorder, self._settings.num_eval_episodes, self._on_evaluation)
    current_step = current_step or (lambda: self.progress.step)
    if label == 'replay':
      return ReplayLogger(self._recorder, current_step, lambda text: self.progress.print(f'Warning: {text}'))
    return LearnerLogger(self._recorder, learner_period(self._settings), current_step)

  def close(self) -> None:
    """Closes the tables, and draws the learning curve as it is."""
    self.progress.close()
    self._recorder.close()
    if self.evaluations:
      self._draw()

  def _on_episode(self, episode: Episode) -> None:
    # Those of several actors come by the episode, and not always in order.
    if episode.step > self.progress.step:
      self.progress.advance(episode.step - self.progress.step)
    self.progress.show_return(episode.episode_return)

  def _on_evaluation(self, evaluation: Evaluation) -> None:
    if evaluation.step > self.progress.step:
      self.progress.go_to(evaluation.step)
    self.progress.print(evaluation_row(evaluation))
    if time.monotonic() >= self._next_drawing:
      self._draw()

  def _draw(self) -> None:
    plotting.save_run(
      self.evaluations,
      self._directory / CURVE_FILE_NAME,
      title=f'{self._settings.agent} on {self._settings.env}',
      label=f'seed {self._settings.seed}',
    )
    self._next_drawing = time.monotonic() + _DRAWING_SECONDS
