"""Learning curves: the return of evaluation episodes over environment steps."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from matplotlib import ticker
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from scipy import special  # type: ignore[import-untyped]

from agents.records.metrics import Evaluation

_CONFIDENCE = 0.95


def plot_run(axes: Axes, run: Sequence[Evaluation], *, label: str, color: str = 'C0') -> None:
  """Draws one run: the mean of each evaluation, in a band of one standard deviation over its episodes.

  Args:
    axes: to draw on.
    run: its evaluations, by rising step.
    label: names the run in the legend.
    color: of line and band.
  """
  steps, means, deviations = _columns(run)
  axes.plot(steps, means, color=color, marker='o', markersize=3, label=f'{label}: mean of an evaluation')
  axes.fill_between(
    steps,
    means - deviations,
    means + deviations,
    color=color,
    alpha=0.2,
    linewidth=0,
    label=f'± standard deviation of its {run[-1].episodes:.0f} episodes',
  )


def plot_seeds(axes: Axes, runs: Sequence[Sequence[Evaluation]], *, label: str, color: str = 'C0') -> None:
  """Draws runs that differ in their seed: each one thinly, their mean and its 95% confidence interval.

      mean +- t s / sqrt(n)

  with n runs, s the sample standard deviation over them and t the quantile of Student's distribution with
  n - 1 degrees of freedom. Between its evaluations a run is interpolated linearly; the mean covers the
  steps that all runs have reached.

  Args:
    axes: to draw on.
    runs: at least two, each of its evaluations by rising step.
    label: names the runs in the legend.
    color: of lines and band.

  Raises:
    ValueError: there are fewer than two runs, or they have no steps in common.
  """
  steps, mean, half_width = confidence_interval(runs)
  for i, run in enumerate(runs):
    name = 'each seed' if i == 0 else None
    axes.plot(*_columns(run)[:2], color=color, alpha=0.5, linewidth=0.8, label=name)
  axes.plot(steps, mean, color=color, linewidth=2, label=f'{label}: mean of {len(runs)} seeds')
  axes.fill_between(
    steps,
    mean - half_width,
    mean + half_width,
    color=color,
    alpha=0.2,
    linewidth=0,
    label=f'{_CONFIDENCE:.0%} confidence interval of the mean',
  )


def save_run(run: Sequence[Evaluation], path: Path, *, title: str, label: str) -> None:
  """Saves the learning curve of one run as a picture.

  Args:
    run: its evaluations, by rising step.
    path: of the PNG file, which is replaced.
    title: of the figure.
    label: names the run in the legend.
  """
  figure, axes = make_figure(title)
  plot_run(axes, run, label=label)
  save_figure(figure, path)


def confidence_interval(
  runs: Sequence[Sequence[Evaluation]],
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
  """Returns steps, mean over runs, and half the width of its confidence interval (see `plot_seeds`).

  Args:
    runs: at least two, each of its evaluations by rising step.

  Returns:
    Three arrays `[S]`, float64.

  Raises:
    ValueError: there are fewer than two runs, or they have no steps in common.
  """
  if len(runs) < 2 or not all(runs):
    raise ValueError(
      f'An interval over seeds needs at least two runs with evaluations, got {len(runs)} runs with '
      f'{[len(run) for run in runs]} evaluations.'
    )
  columns = [_columns(run)[:2] for run in runs]
  every_step = np.unique(np.concatenate([steps for steps, _ in columns]))
  first, last = max(steps[0] for steps, _ in columns), min(steps[-1] for steps, _ in columns)
  grid = every_step[(every_step >= first) & (every_step <= last)]
  if not grid.size:
    raise ValueError(f'The runs have no steps in common: one begins at {first:.0f}, one ends at {last:.0f}.')
  means = np.stack([np.interp(grid, steps, means) for steps, means in columns])
  quantile = special.stdtrit(len(runs) - 1, 0.5 + _CONFIDENCE / 2)
  return grid, means.mean(axis=0), quantile * means.std(axis=0, ddof=1) / np.sqrt(len(runs))


def make_figure(title: str) -> tuple[Figure, Axes]:
  """Makes a figure with labelled axes for learning curves.

  Args:
    title: of the figure.

  Returns:
    The figure and its axes.
  """
  figure = Figure(figsize=(7, 4.2), layout='constrained')
  FigureCanvasAgg(figure)
  axes = figure.add_subplot()
  axes.set_title(title)
  axes.set_xlabel('environment steps')
  axes.set_ylabel('evaluation return (sum of rewards)')
  axes.xaxis.set_major_formatter(ticker.StrMethodFormatter('{x:,.0f}'))
  axes.grid(alpha=0.3)
  for side in ('top', 'right'):
    axes.spines[side].set_visible(False)
  return figure, axes


def save_figure(figure: Figure, path: Path) -> None:
  """Saves a figure, with a legend unless it has one; a viewer never sees a half-written file.

  Args:
    figure: of `make_figure`.
    path: of the PNG file, which is replaced.
  """
  for axes in figure.axes:
    if axes.get_legend() is None:
      axes.legend(loc='best', frameon=False)
  temporary = path.with_name(f'.{path.name}.tmp')
  figure.savefig(temporary, format='png', dpi=120)
  os.replace(temporary, path)


def _columns(run: Sequence[Evaluation]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
  table = np.array([(e.step, e.return_mean, e.return_std) for e in run], np.float64)
  return table[:, 0], table[:, 1], table[:, 2]
