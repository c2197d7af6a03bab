"""What happens to the metrics of a run: into files for analysis, and to whoever watches.

The loggers have the methods of `acme.utils.loggers.Logger`, and need no Acme.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, Protocol

import numpy as np

from agents.records.metrics import Evaluation
from agents.records.recorder import Recorder

# The counter of Acme's experiments that all components share.
_STEPS = 'actor_steps'
# Counts come with every metric, yet say nothing but how far their component is.
_COUNTS = ('_steps', '_episodes', '_walltime')


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
