"""Learning curves of discrete SAC for several target-entropy ratios, as a picture and a table.

    uv run python -m tests.benchmarks.target_entropy_sweep \\
        --picture=tests/benchmarks/cartpole_target_entropy.png --seeds=3

What follows `--` goes to `sac-train` as it is. With `--logdir`, runs that are there already are not repeated.
"""

from __future__ import annotations

import math
import pathlib
import sys

import numpy as np

from agents.records import metrics, plotting
from tests.benchmarks.learning_curves import parse, train

RATIOS = (0.98, 0.89, 0.7, 0.5, 0.2)
COLORS = ('tab:red', 'tab:orange', 'tab:green', 'tab:blue', 'tab:purple')
FLAGS = ('--agent=sac_discrete', '--env=gymnasium:CartPole-v1', '--steps=50000', '--eval_every=2500')


def largest_probability(ratio: float) -> float:
  """The probability of the better of two actions at which the entropy is `ratio` log 2, by bisection."""
  low, high = 0.5, 1.0
  for _ in range(60):
    p = (low + high) / 2
    entropy = -p * math.log(p) - (1 - p) * math.log(1 - p)
    low, high = (p, high) if entropy > ratio * math.log(2) else (low, p)
  return low


def late_mean(directory: pathlib.Path, label: str, metric: str) -> float:
  """The mean of a metric over the last fifth of a run."""
  rows = [
    row for row in metrics.read(directory / metrics.FILE_NAME) if row.label == label and row.metric == metric
  ]
  return float(np.mean([row.value for row in rows if row.step > 0.8 * rows[-1].step]))


def main(arguments: list[str]) -> None:
  options, flags = parse(arguments, __doc__, seeds=3)
  logdir = options.logdir

  figure, axes = plotting.make_figure('Discrete SAC on CartPole-v1: target entropy as a part of log 2')
  lines = []
  for ratio, color in zip(RATIOS, COLORS, strict=True):
    directories = [logdir / f'ratio{ratio}_seed{seed}' for seed in range(options.seeds)]
    runs = [
      train(seed, directory, [*FLAGS, f'--config_overrides=target_entropy_ratio={ratio}', *flags])
      for seed, directory in enumerate(directories)
    ]
    for run in runs:
      axes.plot([e.step for e in run], [e.return_mean for e in run], color=color, alpha=0.35, linewidth=0.8)
    steps, mean, _ = plotting.confidence_interval(runs)
    axes.plot(steps, mean, color=color, linewidth=2, label=str(ratio))
    final = ' '.join(f'{run[-1].return_mean:6.1f}' for run in runs)
    solved = [next((e.step for e in run if e.return_mean >= 475), None) for run in runs]
    lines.append(
      f'{ratio:5}  {largest_probability(ratio):.3f}  {final}  {solved}  '
      # Training episodes sample their actions, whereas evaluations are greedy.
      f'{np.mean([late_mean(d, "train", "episode_return") for d in directories]):6.1f}  '
      f'{np.mean([late_mean(d, "learner", "alpha") for d in directories]):8.3f}'
    )
  # Beside the curves, which leave no room.
  axes.legend(
    title=f'ratio (thick: mean\nof {options.seeds} seeds)',
    loc='center left',
    bbox_to_anchor=(1.0, 0.5),
    frameon=False,
  )
  plotting.save_figure(figure, options.picture)
  print('ratio  p max  final greedy return of each seed, first step at 475, training return, alpha')
  print('\n'.join(lines))


if __name__ == '__main__':
  main(sys.argv[1:])
