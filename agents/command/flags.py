"""The flags of the command `sac-train`."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Sequence
from typing import Any

from absl import flags

from agents.command.options import AGENTS
from agents.command.settings import UsageError


class _NumberParser(flags.ArgumentParser):
  """Parses numbers from `low` on, and says what it expects of others."""

  def __init__(self, kind: Callable[[str], Any], low: float, expected: str):
    self._kind = kind
    self._low = low
    self._expected = expected

  def parse(self, argument: Any) -> Any:
    try:
      value = self._kind(argument)
    except ValueError:
      value = None
    if value is None or not value >= self._low:
      raise ValueError(f'expected {self._expected}')
    return value


def define() -> flags.FlagValues:
  """Defines the flags anew, so that calls of `main` in one process share nothing."""
  defined = flags.FlagValues()
  positive = _NumberParser(int, 1, 'a whole number of at least 1')
  flags.DEFINE_enum('agent', 'sac', sorted(AGENTS), 'The agent.', flag_values=defined)
  flags.DEFINE_string(
    'env',
    'gymnasium:Pendulum-v1',
    'The environment: library, colon, name, as in dm_control:cartpole:swingup. For --runner=anakin it is one '
    'of gymnax, brax or builtin, and gymnax:Pendulum-v1 by default.',
    flag_values=defined,
  )
  flags.DEFINE(positive, 'steps', 10_000, 'Environment steps to train for.', flag_values=defined)
  flags.DEFINE(
    _NumberParser(int, 0, 'a whole number of at least 0'),
    'seed',
    0,
    'Seed of environment, networks and noise.',
    flag_values=defined,
  )
  flags.DEFINE(positive, 'eval_every', 1000, 'Environment steps between evaluations.', flag_values=defined)
  flags.DEFINE(positive, 'num_eval_episodes', 10, 'Episodes of an evaluation.', flag_values=defined)
  flags.DEFINE_string(
    'config_overrides',
    '',
    'Options of the agent, as in batch_size=128,log_alpha_bounds=(-5,1).',
    flag_values=defined,
  )
  flags.DEFINE_string(
    'network_overrides',
    '',
    "Options of its networks, as in hidden_sizes=(64,64),log_scale='tanh'.",
    flag_values=defined,
  )
  flags.DEFINE_string(
    'logdir',
    None,
    'Directory for logs, learning curve and checkpoints; by default a new one in runs/.',
    flag_values=defined,
  )
  flags.DEFINE_boolean(
    'resume',
    False,
    'Go on with the run in --logdir, whose settings hold for all flags that are left out.',
    flag_values=defined,
  )
  flags.DEFINE(
    _NumberParser(float, 0.0, 'a number of at least 0'),
    'checkpoint_minutes',
    5.0,
    'Minutes between checkpoints.',
    flag_values=defined,
  )
  flags.DEFINE(
    _NumberParser(float, 0.01, 'a number of at least 0.01'),
    'replay_checkpoint_minutes',
    None,
    'Minutes between checkpoints of the replay of a distributed run, which is otherwise filled anew.',
    flag_values=defined,
  )
  flags.DEFINE_enum(
    'runner',
    'local',
    ['anakin', 'distributed', 'local'],
    'What runs it: local takes one process, distributed a Launchpad program of many nodes, anakin compiles '
    'environment, replay and learning into one loop on the device.',
    flag_values=defined,
  )
  flags.DEFINE(
    positive,
    'num_seeds',
    1,
    'Seeds of a run on the device, side by side: --seed and those that follow it.',
    flag_values=defined,
  )
  flags.DEFINE(
    positive, 'num_devices', 1, 'Devices over which a run on the device is spread.', flag_values=defined
  )
  flags.DEFINE(positive, 'num_actors', 2, 'Actors of a distributed run.', flag_values=defined)
  flags.DEFINE(
    positive,
    'num_learner_nodes',
    1,
    'Learners of a distributed run, each with an equal part of num_learner_devices.',
    flag_values=defined,
  )
  flags.DEFINE(positive, 'num_hosts', 1, 'Hosts whose distributed runs learn as one.', flag_values=defined)
  flags.DEFINE(
    _NumberParser(int, 0, 'a whole number of at least 0'),
    'host_index',
    0,
    'Number of this host, from 0.',
    flag_values=defined,
  )
  flags.DEFINE_string(
    'coordinator_address',
    None,
    'Where the learners of several hosts find each other: a free port of host 0, as in 10.0.0.1:1234.',
    flag_values=defined,
  )
  flags.DEFINE_enum(
    'launch',
    'local_mp',
    ['local_mp', 'local_mt'],
    'The nodes of a distributed run: local_mp makes them processes, local_mt threads.',
    flag_values=defined,
  )
  flags.DEFINE_boolean('help', False, 'Show this text.', flag_values=defined)
  return defined


def parse(argv: Sequence[str]) -> flags.FlagValues:
  """Parses a command line.

  Args:
    argv: program name and flags.

  Returns:
    The flags.

  Raises:
    UsageError: a flag is unknown or has no fitting value, or there is more than flags.
  """
  parsed = define()
  try:
    positional = parsed(argv)[1:]
  except flags.UnrecognizedFlagError as error:
    close = difflib.get_close_matches(error.flagname, list(parsed), n=1)
    hint = f'did you mean --{close[0]}?' if close else 'see --help'
    raise UsageError(f'there is no flag --{error.flagname}, {hint}') from None
  except flags.Error as error:
    raise UsageError(str(error)) from None
  if positional:
    raise UsageError(f'expected flags, such as --steps=20000, got {positional[0]!r}')
  return parsed


def help_text() -> str:
  """Returns what the flags mean, a line for each."""
  defined = define()
  lines = ['Trains an agent on an environment.', '', 'sac-train [--flag=value ...]', '']
  lines += [
    f'  --{name}: {defined[name].help} (default: {defined[name].default!r})' for name in sorted(defined)
  ]
  return '\n'.join(lines)
