"""Runs an agent in this process through Acme, with progress, logs, a learning curve and checkpoints."""

from __future__ import annotations

from pathlib import Path

from agents import experiments
from agents.command import loggers
from agents.command.reporting import Report, device_name
from agents.command.runner import Runner
from agents.command.watching import WatchedBuilder
from agents.records.metrics import Evaluation


class LocalRunner(Runner):
  """A run in this process; its arguments and errors are those of `Runner`."""

  @property
  def device(self) -> str:
    """What the learner runs on."""
    return device_name()

  def run(self, directory: Path) -> Evaluation:
    """Trains to the end, from the checkpoint in the directory if there is one.

    Args:
      directory: takes logs, curve and checkpoints.

    Returns:
      The last evaluation.
    """
    settings = self._settings
    report = Report(settings, directory)

    def logger_factory(label: str, steps_key: str | None = None, task_instance: int = 0) -> loggers.Logger:
      del steps_key, task_instance
      return report.make_logger(label)

    builder = WatchedBuilder(self._builder, report.progress.advance)
    experiment = self._make_experiment(directory, builder, logger_factory)
    try:
      experiments.run_experiment(experiment, settings.eval_every, settings.num_eval_episodes)
    finally:
      report.close()
    return report.evaluations[-1]
