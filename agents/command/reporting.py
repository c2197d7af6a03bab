"""What a run shows on the terminal and leaves in its directory, wherever its parts run."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import jax

from agents.command import loggers
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


def learner_period(settings: Settings) -> int:
  """Returns the environment steps between two records of the learner's metrics."""
  return max(1, settings.eval_every // _RECORDS_PER_EVALUATION)


def device_name() -> str:
  """Returns what JAX computes on, for people."""
  device = jax.devices()[0]
  return device.platform if device.platform == 'cpu' else f'{device.platform} ({device.device_kind})'


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

  def make_logger(self, label: str, current_step: Callable[[], int] | None = None) -> loggers.Logger:
    """Makes the logger of a part of the run.

    Args:
      label: `actor`, `evaluator`, `learner` or `replay`.
      current_step: tells the loggers of learner and replay the environment steps so far; by default the
        progress does.
    """
    if label == 'actor':
      return loggers.EpisodeLogger(self._recorder, self._on_episode)
    if label == 'evaluator':
      return loggers.EvaluationLogger(self._recorder, self._settings.num_eval_episodes, self._on_evaluation)
    current_step = current_step or (lambda: self.progress.step)
    if label == 'replay':
      return loggers.ReplayLogger(
        self._recorder, current_step, lambda text: self.progress.print(f'Warning: {text}')
      )
    return loggers.LearnerLogger(self._recorder, learner_period(self._settings), current_step)

  def close(self) -> None:
    """Closes the tables, and draws the learning curve as it is."""
    self.progress.close()
    self._recorder.close()
    if self.evaluations:
      self._draw()

  def _on_episode(self, episode: loggers.Episode) -> None:
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
