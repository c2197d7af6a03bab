from __future__ import annotations

import pytest

from agents.command import flags as command_flags
from agents.command.settings import UsageError


def test_defaults():
  parsed = command_flags.parse(['sac-train'])
  assert (parsed.agent, parsed.env, parsed.steps, parsed.seed) == ('sac', 'gymnasium:Pendulum-v1', 10_000, 0)
  assert (parsed.eval_every, parsed.num_eval_episodes, parsed.checkpoint_minutes) == (1000, 10, 5.0)
  assert (parsed.logdir, parsed.resume, parsed.config_overrides) == (None, False, '')
  assert (parsed.runner, parsed.num_actors, parsed.launch) == ('local', 2, 'local_mp')
  assert parsed.replay_checkpoint_minutes is None
  assert not parsed['steps'].present


def test_calls_share_nothing():
  assert command_flags.parse(['sac-train', '--steps=20', '--resume']).steps == 20
  parsed = command_flags.parse(['sac-train', '--seed', '3'])
  assert (parsed.steps, parsed.seed, parsed.resume) == (10_000, 3, False)
  assert parsed['seed'].present


@pytest.mark.parametrize(
  ('argument', 'message'),
  [
    ('--steps=-1', 'flag --steps=-1: expected a whole number of at least 1'),
    ('--steps=0', 'flag --steps=0: expected a whole number of at least 1'),
    ('--steps=1e4', 'flag --steps=1e4: expected a whole number of at least 1'),
    ('--seed=-1', 'flag --seed=-1: expected a whole number of at least 0'),
    ('--eval_every=x', 'flag --eval_every=x: expected a whole number of at least 1'),
    ('--num_eval_episodes=0', 'expected a whole number of at least 1'),
    ('--checkpoint_minutes=nan', 'flag --checkpoint_minutes=nan: expected a number of at least 0'),
    ('--agent=ppo', r'flag --agent=ppo: value should be one of <sac\|sac_discrete>'),
    ('--runner=remote', r'flag --runner=remote: value should be one of <anakin\|distributed\|local>'),
    ('--launch=vertex_ai', r'flag --launch=vertex_ai: value should be one of <local_mp\|local_mt>'),
    ('--replay_checkpoint_minutes=0', 'minutes=0: expected a number of at least 0.01'),
    ('--num_actors=0', 'flag --num_actors=0: expected a whole number of at least 1'),
    ('--stesp=3', r'there is no flag --stesp, did you mean --steps\?'),
    ('--bogus', 'there is no flag --bogus, see --help'),
    ('--steps', 'Missing value for flag --steps'),
    ('10000', "expected flags, such as --steps=20000, got '10000'"),
  ],
)
def test_slips_are_named(argument, message):
  with pytest.raises(UsageError, match=message):
    command_flags.parse(['sac-train', argument])


def test_help_names_every_flag():
  text = command_flags.help_text()
  for name in ('agent', 'env', 'steps', 'seed', 'eval_every', 'config_overrides', 'logdir', 'resume'):
    assert f'  --{name}: ' in text
  assert '(default: 10000)' in text
