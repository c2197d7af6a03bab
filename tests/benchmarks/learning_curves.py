"""Learning curves of `sac-train` over several seeds, as a picture and a table.

    uv run python -m tests.benchmarks.learning_curves --picture=tests/benchmarks/pendulum.png --seeds=5
    uv run python -m tests.benchmarks.learning_curves --picture=curve.png --seeds=3 -- \\
        --env=dm_control:cartpole:swingup --steps=30000 --eval_every=3000

What follows `--` goes to `sac-train` as it is. The seeds run one after the other; with `--logdir`, those that
are there already are not run again.
"""

from __future__ import annotations

import argparse
import pathlib
import subprocess
import sys
import tempfile

from agents.command.settings import Settings
from agents.records import metrics, plotting


def train(seed: int, directory: pathlib.Path, flags: list[str]) -> list[metrics.Evaluation]:
  """Trains one seed, unless its directory is there, and returns its evaluations."""
  if not directory.exists():
    command = [sys.executable, '-m', 'agents.run', f'--seed={seed}', f'--logdir={directory}', *flags]
    subprocess.run(command, check=True)
  evaluations = metrics.evaluations(metrics.read(directory / metrics.FILE_NAME))
  if not evaluations or evaluations[-1].step < Settings.load(directory).steps:
    raise SystemExit(f'The run in {directory} has not reached its end: resume or remove it.')
  return evaluations


def parse(arguments: list[str], description: str | None, seeds: int) -> tuple[argparse.Namespace, list[str]]:
  """Returns the options `picture`, `seeds` and `logdir`, and the flags for `sac-train`."""
  end = arguments.index('--') if '--' in arguments else len(arguments)
  own, flags = arguments[:end], arguments[end + 1 :]
  parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawTextHelpFormatter)
  parser.add_argument('--picture', type=pathlib.Path, required=True)
  parser.add_argument('--seeds', type=int, default=seeds)
  parser.add_argument('--logdir', type=pathlib.Path)
  options = parser.parse_args(own)
  options.logdir = options.logdir or pathlib.Path(tempfile.mkdtemp())
  return options, flags


def main(arguments: list[str]) -> None:
  options, flags = parse(arguments, __doc__, seeds=5)
  logdir = options.logdir
  runs = [train(seed, logdir / f'seed{seed}', flags) for seed in range(options.seeds)]

  settings = Settings.load(logdir / 'seed0')
  figure, axes = plotting.make_figure(f'{settings.agent} on {settings.env}')
  plotting.plot_seeds(axes, runs, label=settings.agent)
  plotting.save_figure(figure, options.picture)
  print('seed  ' + ' '.join(f'{evaluation.step:>8}' for evaluation in runs[0]))
  for seed, run in enumerate(runs):
    print(f'{seed:>4}  ' + ' '.join(f'{evaluation.return_mean:>8.1f}' for evaluation in run))


if __name__ == '__main__':
  main(sys.argv[1:])
