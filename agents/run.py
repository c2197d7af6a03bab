"""The command `sac-train`: trains an agent on an environment, with progress, logs and checkpoints."""

from __future__ import annotations

import dataclasses
import datetime
import json
import re
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path

from absl import flags

from agents import signals
from agents.command import flags as command_flags
from agents.command import options, preparation
from agents.command.settings import RunError, Settings, UsageError, usage_errors
from agents.records import metrics

# What runners do not have in common.
_RUNNER_FLAGS = {
  'anakin': ('num_seeds', 'num_devices'),
  'distributed': (
    'num_actors',
    'num_learner_nodes',
    'num_hosts',
    'host_index',
    'coordinator_address',
    'launch',
    'replay_checkpoint_minutes',
  ),
  'local': (),
}
_DEFAULT_ENVIRONMENTS = {'anakin': 'gymnax:Pendulum-v1'}
FAILURE_EXIT_CODE = 1
USAGE_EXIT_CODE = 2


def _new_run(parsed: flags.FlagValues) -> tuple[Settings, Path]:
  """Returns the settings of a run that starts, with the overrides as they were given, and its directory."""
  env = parsed.env if parsed['env'].present else _DEFAULT_ENVIRONMENTS.get(parsed.runner, parsed.env)
  name = f'{parsed.agent}_{re.sub("[^A-Za-z0-9.-]+", "-", env)}_seed{parsed.seed}'
  directory = Path(parsed.logdir or f'runs/{name}_{datetime.datetime.now():%Y%m%d-%H%M%S}').expanduser()
  if directory.exists() and (not directory.is_dir() or any(directory.iterdir())):
    raise UsageError(
      f'the log directory {directory} is not empty, continue its run with --resume or choose another'
    )
  with usage_errors(ValueError, about='--config_overrides: '):
    config = options.parse(parsed.config_overrides)
  with usage_errors(ValueError, about='--network_overrides: '):
    networks = options.parse(parsed.network_overrides)
  settings = Settings(
    agent=parsed.agent,
    env=env,
    seed=parsed.seed,
    steps=parsed.steps,
    eval_every=parsed.eval_every,
    num_eval_episodes=parsed.num_eval_episodes,
    checkpoint_minutes=parsed.checkpoint_minutes,
    config=config,
    networks=networks,
    runner=parsed.runner,
    **{name: getattr(parsed, name) for names in _RUNNER_FLAGS.values() for name in names},
  )
  _check_runner(settings, parsed)
  return settings, directory


def _resumed_run(parsed: flags.FlagValues) -> tuple[Settings, Path]:
  """Returns the settings of a run that goes on, and its directory."""
  if not parsed.logdir:
    raise UsageError('--resume needs --logdir, the directory of the run to continue')
  directory = Path(parsed.logdir).expanduser()
  with usage_errors(ValueError, about='there is nothing to resume: '):
    settings = Settings.load(directory)
  if not has_checkpoint(directory):
    raise UsageError(f'there is nothing to resume: {directory} holds no checkpoint')

  for name in ('agent', 'env', 'seed', 'num_seeds'):
    if parsed[name].present and getattr(parsed, name) != getattr(settings, name):
      raise UsageError(
        f'the run in {directory} has {name}={getattr(settings, name)}, so it cannot be resumed with '
        f'--{name}={getattr(parsed, name)}'
      )
  for flag, stored in (('config_overrides', settings.config), ('network_overrides', settings.networks)):
    with usage_errors(ValueError, about=f'--{flag}: '):
      given = options.parse(getattr(parsed, flag))
    # The settings were written as JSON, which has no tuples.
    for name, value in json.loads(json.dumps(given, default=repr)).items():
      if name not in stored or stored[name] != value:
        raise UsageError(
          f'the run in {directory} has {name}={stored.get(name, "its default")}, so it cannot be resumed '
          f'with --{flag}={name}={value}'
        )
  new = ('steps', 'eval_every', 'num_eval_episodes', 'checkpoint_minutes', 'runner', 'num_devices')
  changed = {
    name: getattr(parsed, name) for name in (*new, *_RUNNER_FLAGS['distributed']) if parsed[name].present
  }
  if 'anakin' in (runners := {settings.runner, changed.get('runner', settings.runner)}) and len(runners) > 1:
    raise UsageError(
      f'the run in {directory} has runner={settings.runner}, so it cannot be resumed with '
      f'--runner={parsed.runner}'
    )
  settings = dataclasses.replace(settings, **changed)
  _check_runner(settings, parsed)
  return settings, directory


def _check_runner(settings: Settings, parsed: flags.FlagValues) -> None:
  for runner, names in _RUNNER_FLAGS.items():
    for name in names:
      if settings.runner != runner and parsed[name].present:
        raise UsageError(f'--{name} is for another runner: add --runner={runner}, or leave it out')
  if settings.num_hosts > 1:
    if not re.fullmatch(r'.+:\d+', settings.coordinator_address or ''):
      raise UsageError(
        f'--num_hosts={settings.num_hosts} needs --coordinator_address, host and port of host 0, as in '
        f'10.0.0.1:1234, got {settings.coordinator_address!r}'
      )
    if settings.host_index >= settings.num_hosts:
      raise UsageError(
        f'--host_index must be below --num_hosts={settings.num_hosts}, got {settings.host_index}'
      )
  elif settings.host_index or settings.coordinator_address:
    raise UsageError('--host_index and --coordinator_address need --num_hosts, the number of hosts')


def has_checkpoint(directory: Path) -> bool:
  """Returns whether the run in a directory can be resumed."""
  checkpoints = directory / 'checkpoints'
  # Those of a run on the device are folders named by their step.
  on_device = any(path.is_dir() and path.name.isdecimal() for path in checkpoints.glob('*'))
  return on_device or any(path.is_file() for path in checkpoints.glob('**/checkpoint*'))


def _describe(evaluation: metrics.Evaluation) -> str:
  return (
    f'mean return {evaluation.return_mean:.1f} (standard deviation {evaluation.return_std:.1f}) over '
    f'{evaluation.episodes:.0f} episodes after {evaluation.step:,} steps'
  )


def _evaluations(directory: Path) -> list[metrics.Evaluation]:
  # One seed of several is as far as the others.
  tables = [directory / metrics.FILE_NAME, *sorted(directory.glob(f'seed_*/{metrics.FILE_NAME}'))]
  with usage_errors(ValueError):
    of_seeds = [metrics.evaluations(metrics.read(table)) for table in tables if table.exists()]
  # A crash may have come between the writing of the one and of the next.
  return [metrics.pool(evaluations) for evaluations in zip(*of_seeds, strict=False)]


def _saved_steps(settings: Settings, directory: Path) -> int:
  # These import JAX, which checks before this one need not wait for.
  if settings.runner == 'anakin':
    from agents.anakin import callbacks

    return callbacks.saved_steps(directory / 'checkpoints') or 0
  from agents.acme import checkpointing

  with usage_errors(ValueError):
    return checkpointing.saved_steps(directory / 'checkpoints')


def _check_steps_left(settings: Settings, directory: Path) -> None:
  done = _saved_steps(settings, directory)
  if _has_replay(settings, directory):
    return
  needed = settings.config['min_replay_size']
  if 0 < settings.steps - done < needed:
    raise UsageError(
      f'--steps={settings.steps} leaves {settings.steps - done} steps to the checkpoint after {done}, but '
      f'replay is not part of it and learning starts again after {needed}: raise --steps to {done + needed} '
      'or more'
    )


def _has_replay(settings: Settings, directory: Path) -> bool:
  """Returns whether a run goes on with the replay that it has left."""
  return settings.runner == 'anakin' or (
    settings.runner == 'distributed'
    and settings.replay_checkpoint_minutes is not None
    and any(directory.glob('replay/*/DONE'))
  )


def _how_to_continue(directory: Path) -> str:
  return f'Continue with: sac-train --resume --logdir={shlex.quote(str(directory))}'


def _train(settings: Settings, directory: Path, *, resume: bool) -> int:
  settings, runner = preparation.prepare(settings)
  if resume:
    _check_steps_left(settings, directory)
  with usage_errors(OSError, about='the log directory cannot be written: '):
    directory.mkdir(parents=True, exist_ok=True)
    settings.save(directory)
  seeds, each = f'seed {settings.seed}', ''
  if settings.num_seeds > 1:
    seeds, each = f'seeds {settings.seed} to {settings.seed + settings.num_seeds - 1}', ' each'
  print(
    f'{settings.agent} on {settings.env}, {seeds}, {settings.steps:,} steps{each} on {runner.device}, '
    f'up to {runner.replay_bytes / 1e6:,.0f} MB of replay, logs in {directory}'
  )
  if resume:
    print(
      'Resumed, with the replay that was saved last.'
      if _has_replay(settings, directory)
      else 'Resumed. Replay is not part of a checkpoint: learning goes on after '
      f'{settings.config["min_replay_size"]:,} new steps.'
    )
  try:
    with signals.interruptible():
      evaluation = runner.run(directory)
  except RunError as error:
    print(f'sac-train: {error}', file=sys.stderr)
    if has_checkpoint(directory):
      print(_how_to_continue(directory))
    return FAILURE_EXIT_CODE
  except KeyboardInterrupt:
    if has_checkpoint(directory):
      print(f'Saved. {_how_to_continue(directory)}')
    else:
      print('Interrupted before there was anything to save.')
    return signals.INTERRUPTED_EXIT_CODE
  print(f'Final evaluation: {_describe(evaluation)}. Logs, curve and checkpoint are in {directory}.')
  return 0


def _run(argv: Sequence[str]) -> int:
  parsed = command_flags.parse(argv)
  if parsed.help:
    print(command_flags.help_text())
    return 0
  if not parsed.resume:
    return _train(*_new_run(parsed), resume=False)
  settings, directory = _resumed_run(parsed)
  evaluations = _evaluations(directory)
  # A run that was killed after its last evaluation still has to save.
  if (
    evaluations
    and evaluations[-1].step >= settings.steps
    and _saved_steps(settings, directory) >= settings.steps
  ):
    print(
      f'Nothing is left to train in {directory}, raise --steps to go on. '
      f'Final evaluation: {_describe(evaluations[-1])}.'
    )
    return 0
  return _train(settings, directory, resume=True)


def main(argv: Sequence[str] | None = None) -> int:
  """Runs the command.

  Args:
    argv: program name and flags; by default those of the process.

  Returns:
    The exit code: 0 after a whole run, 1 if a node of it failed, 2 if it can't be started as asked, 130 after
    Ctrl-C.
  """
  preparation.quieten_imports()
  try:
    return _run(sys.argv if argv is None else argv)
  except UsageError as error:
    # Libraries break their messages into lines and end them as they like.
    message = ' '.join(str(error).split())
    print(f'sac-train: {message}{"" if message[-1] in ".?" else "."}', file=sys.stderr)
    return USAGE_EXIT_CODE
  except KeyboardInterrupt:
    print('sac-train: interrupted before training began.', file=sys.stderr)
    return signals.INTERRUPTED_EXIT_CODE


if __name__ == '__main__':
  sys.exit(main())
