"""Reports of several seeds, seed by seed."""

from __future__ import annotations

import numpy as np

from agents.anakin.train import Report
from agents.anakin.trainer import Evaluation
from agents.records import metrics


def episodes(evaluation: Evaluation) -> tuple[np.ndarray, np.ndarray]:
  """Returns the returns and the lengths of an evaluation's episodes, `[S, episodes]`; one seed has S = 1."""
  returns, lengths = (np.asarray(x) for x in evaluation)
  return returns.reshape(-1, returns.shape[-1]), lengths.reshape(-1, lengths.shape[-1])


def evaluations(report: Report) -> list[metrics.Evaluation]:
  """Returns the evaluation of each seed; there are none between evaluations."""
  if report.evaluation is None:
    return []
  return [
    metrics.Evaluation(report.num_steps, report.seconds, **metrics.summary(*of_seed))
    for of_seed in zip(*episodes(report.evaluation), strict=True)
  ]


def training(report: Report) -> list[dict[str, float]]:
  """Returns the training metrics of each seed; there are none before training."""
  return [
    {name: float(np.ravel(values)[i]) for name, values in report.metrics.items()}
    for i in range(num_seeds(report))
  ]


def num_seeds(report: Report) -> int:
  """Returns the number of seeds."""
  return np.size(report.state.num_steps)
