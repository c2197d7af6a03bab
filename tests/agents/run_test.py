from __future__ import annotations

import dataclasses
import importlib.util
import json
import os
import shlex
import signal
import subprocess
import sys
import time

import pytest

from agents import run, signals
from agents.acme.checkpointing import Checkpointer
from agents.command import flags as command_flags
from agents.command.settings import Settings, UsageError
from agents.records import metrics

_TINY = (
  '--steps=600',
  '--eval_every=300',
  '--num_eval_episodes=2',
  '--config_overrides=min_replay_size=200,batch_size=16,samples_per_insert=16',
  '--network_overrides=hidden_sizes=(16,16)',
)
_SETTINGS = Settings(
  agent='sac',
  env='gymnasium:Pendulum-v1',
  seed=3,
  steps=1000,
  eval_every=100,
  num_eval_episodes=2,
  checkpoint_minutes=0.5,
  config={'batch_size': 32, 'log_alpha_bounds': (-5.0, 1.0)},
  networks={'hidden_sizes': (64, 64)},
)
# JSON has no tuples.
_AS_JSON = {
  'config': {'batch_size': 32, 'log_alpha_bounds': [-5.0, 1.0]},
  'networks': {'hidden_sizes': [64, 64]},
}
needs_acme = pytest.mark.skipif(importlib.util.find_spec('acme') is None, reason='needs Acme')


def _main(*arguments):
  return run.main(['sac-train', *arguments])


def _contents(directory):
  return {path: path.read_bytes() for path in directory.rglob('*') if path.is_file()}


@pytest.fixture
def stored_run(tmp_path):
  """A directory as a run leaves it: settings, a checkpoint, and an evaluation at 1,000 steps."""
  _SETTINGS.save(tmp_path)
  Checkpointer({'counter': _Counts(1000)}, tmp_path / 'checkpoints').save(force=True)
  file = metrics.MetricsFile(tmp_path / metrics.FILE_NAME)
  evaluation = metrics.Evaluation(1000, 5.0, -150.0, 50.0, -200.0, -100.0, 200.0, 2)
  file.write(1000, 5.0, 'evaluation', dict(zip(evaluation._fields[2:], evaluation[2:], strict=True)))
  file.close()
  return tmp_path


@pytest.fixture
def refused(tmp_path, monkeypatch, capsys):
  """Runs the command, which has to end with one sentence and leave all files as they are."""
  monkeypatch.chdir(tmp_path)

  def call(*arguments):
    before = _contents(tmp_path)
    assert _main(*arguments) == 2
    assert _contents(tmp_path) == before
    output = capsys.readouterr()
    assert output.out == ''
    (line,) = output.err.splitlines()
    assert line.startswith('sac-train: ')
    return line

  return call


def test_help_is_printed(capsys):
  assert _main('--help') == 0
  assert '--config_overrides: ' in capsys.readouterr().out


@pytest.mark.parametrize(
  ('arguments', 'message'),
  [
    (['--steps=-1'], 'flag --steps=-1: expected a whole number of at least 1.'),
    (['--stesp=3'], 'there is no flag --stesp, did you mean --steps?'),
    (['--config_overrides=batch_size'], "--config_overrides: got 'batch_size', expected name=value pairs"),
    (['--network_overrides=a=b'], '--network_overrides: a=b is not a Python literal'),
    (['--resume'], '--resume needs --logdir, the directory of the run to continue.'),
    (
      ['--num_actors=3'],
      '--num_actors is for another runner: add --runner=distributed, or leave it out.',
    ),
    (
      ['--runner=distributed', '--num_seeds=3'],
      '--num_seeds is for another runner: add --runner=anakin, or leave it out.',
    ),
    (['--resume', '--logdir=x'], 'there is nothing to resume: x holds no run: it has no config.json.'),
  ],
)
def test_slips_are_answered_with_one_sentence(refused, arguments, message):
  assert message in refused(*arguments)


def test_a_directory_in_use_is_left_alone(refused, stored_run):
  assert 'is not empty, continue its run with --resume or choose another.' in refused(
    f'--logdir={stored_run}'
  )
  assert 'is not empty' in refused(f'--logdir={stored_run / "config.json"}')


def test_a_run_without_a_checkpoint_cannot_be_resumed(refused, stored_run):
  (stored_run / 'checkpoints' / 'checkpoint-00000001.pickle').rename(
    stored_run / 'checkpoints' / 'incomplete'
  )
  assert 'there is nothing to resume: ' in refused('--resume', f'--logdir={stored_run}')


@pytest.mark.parametrize(
  ('argument', 'message'),
  [
    ('--seed=4', 'has seed=3, so it cannot be resumed with --seed=4.'),
    ('--env=gymnasium:CartPole-v1', 'has env=gymnasium:Pendulum-v1, so it cannot be resumed with'),
    ('--config_overrides=batch_size=64', 'has batch_size=32, so it cannot be resumed with'),
    ('--config_overrides=tau=0.1', 'has tau=its default, so it cannot be resumed with'),
    ('--network_overrides=hidden_sizes=(64,)', 'has hidden_sizes=[64, 64], so it cannot be resumed with'),
  ],
)
def test_a_run_cannot_be_resumed_as_another(refused, stored_run, argument, message):
  assert message in refused('--resume', f'--logdir={stored_run}', argument)


def test_a_run_may_be_resumed_by_another_runner(stored_run):
  changed = {'runner': 'distributed', 'num_actors': 4, 'steps': 2000}
  flags = [f'--{name}={value}' for name, value in changed.items()]
  parsed = command_flags.parse(['sac-train', '--resume', f'--logdir={stored_run}', *flags])
  settings, directory = run._resumed_run(parsed)
  assert directory == stored_run
  assert settings == dataclasses.replace(_SETTINGS, **changed, **_AS_JSON)


def test_a_run_that_was_killed_before_its_last_save_is_not_through(stored_run, monkeypatch):
  Checkpointer({'counter': _Counts(800)}, stored_run / 'checkpoints').save(force=True)
  resumed = []
  monkeypatch.setattr(
    run, '_train', lambda settings, directory, resume: resumed.append((directory, resume)) or 0
  )
  assert _main('--resume', f'--logdir={stored_run}') == 0
  assert resumed == [(stored_run, True)]


@pytest.mark.parametrize(
  'arguments',
  [
    [],
    ['--steps=900'],
    ['--seed=3', '--config_overrides=batch_size=32,log_alpha_bounds=(-5,1)'],
    ['--network_overrides=hidden_sizes=(64,64)'],
  ],
)
def test_a_run_that_is_through_shows_its_last_evaluation(stored_run, capsys, arguments):
  before = _contents(stored_run)
  assert _main('--resume', f'--logdir={stored_run}', *arguments) == 0
  assert _contents(stored_run) == before
  output = capsys.readouterr().out
  assert 'Nothing is left to train' in output
  assert 'mean return -150.0 (standard deviation 50.0) over 2 episodes after 1,000 steps.' in output


def test_a_spoilt_table_is_refused(refused, stored_run):
  (stored_run / metrics.FILE_NAME).write_text('a,b\n')
  assert 'it is not a table of metrics.' in refused('--resume', f'--logdir={stored_run}')


def test_missing_packages_are_named_with_the_command_that_brings_them(refused, monkeypatch):
  find_spec = importlib.util.find_spec
  monkeypatch.setattr(importlib.util, 'find_spec', lambda name: None if name == 'reverb' else find_spec(name))
  message = refused()
  assert (
    'the Acme runner needs Python 3.10 on Linux and `uv sync --python 3.10 --extra acme --extra envs`'
    in message
  )
  assert 'reverb' in message


@needs_acme
@pytest.mark.parametrize(
  ('arguments', 'message'),
  [
    (['--env=foo'], "Unknown environment 'foo'"),
    (['--env=gymnasium:Foo-v1'], "Unknown gymnasium environment 'Foo-v1'"),
    (['--seed=4294967296'], 'Got seed=4294967296'),
    (['--env=gymnasium:CartPole-v1'], 'SAC needs continuous, bounded actions'),
    (['--steps=500'], '--steps=500 ends the run before learning starts'),
    (['--config_overrides=batchsize=3'], 'there is no option batchsize, did you mean batch_size?'),
    (['--config_overrides=tau=3'], '--config_overrides: tau must be in [0, 1], got 3.0.'),
    (['--network_overrides=hidden_sizes=64'], '--network_overrides: hidden_sizes=64 has the wrong type'),
    (['--config_overrides=min_replay_size=10,samples_per_insert=1'], 'learning would wait for ever'),
    (['--logdir=/proc/new'], 'the log directory cannot be written: '),
  ],
)
def test_what_cannot_be_trained_is_refused_before_anything_is_written(refused, arguments, message):
  assert message in refused(*arguments)


def test_a_slip_is_answered_fast():
  start = time.monotonic()
  code = (
    'import sys; from agents import run; code = run.main(["sac-train", "--steps=-1"]);'
    'print(code, sorted({"acme", "jax", "tensorflow"} & set(sys.modules)))'
  )
  result = subprocess.run([sys.executable, '-c', code], capture_output=True, text=True, check=True)
  assert result.stdout == '2 []\n'
  assert time.monotonic() - start < 20.0


_SECOND_INTERRUPT = """
import os, signal, time
from agents import signals
with signals.interruptible():
  try:
    os.kill(os.getpid(), signal.SIGINT)
    time.sleep(60)
  except KeyboardInterrupt:
    os.kill(os.getpid(), signal.SIGINT)
    time.sleep(60)
"""


def test_a_second_interrupt_ends_the_process_at_once():
  result = subprocess.run(
    [sys.executable, '-c', _SECOND_INTERRUPT], capture_output=True, text=True, timeout=50
  )
  assert result.returncode == -signal.SIGINT
  assert result.stderr == 'Interrupted: saving a checkpoint. Press Ctrl-C again to quit at once.\n'


def _start(*arguments):
  return subprocess.Popen(
    [sys.executable, '-m', 'agents.run', *arguments],
    stdout=subprocess.PIPE,
    stderr=subprocess.PIPE,
    text=True,
    env={**os.environ, 'PYTHONUNBUFFERED': '1'},
  )


def _finish(process):
  try:
    out, err = process.communicate(timeout=240)
  finally:
    process.kill()
  # Reverb tells of its servers and clients, and has no setting for that.
  own = [line for line in err.splitlines(keepends=True) if not line.startswith('[reverb/')]
  return process.returncode, out, ''.join(own)


def _wait_for_step(process, step):
  """Reads the output until the row of the evaluation at a step."""
  for line in process.stdout:
    if line.startswith(f'{step:>11,} '):
      return
  pytest.fail(f'ended before step {step}: {process.stderr.read()}')


def _evaluation_steps(directory):
  return [evaluation.step for evaluation in metrics.evaluations(metrics.read(directory / metrics.FILE_NAME))]


def _learner_steps(rows):
  return [row.value for row in rows if row.label == 'learner' and row.metric == 'steps']


@needs_acme
@pytest.mark.slow
def test_a_run_leaves_its_files_and_goes_on_from_them(tmp_path):
  directory = tmp_path / 'run'
  code, out, err = _finish(_start(*_TINY, f'--logdir={directory}'))
  assert (code, err) == (0, '')
  assert out.startswith('sac on gymnasium:Pendulum-v1, seed 0, 600 steps on ')
  assert 'Final evaluation: mean return -' in out.splitlines()[-1]
  assert f'over 2 episodes after 600 steps. Logs, curve and checkpoint are in {directory}.' in out
  # Whole episodes of 200 steps.
  assert _evaluation_steps(directory) == [0, 400, 600]
  rows = metrics.read(directory / metrics.FILE_NAME)
  assert [row.step for row in rows if row.metric == 'episode_return'] == [200, 400, 600]
  alphas = [row for row in rows if row.metric == 'alpha']
  assert len(alphas) >= 10
  assert alphas[0].value == 1.0
  config = json.loads((directory / 'config.json').read_text())
  assert (config['config']['batch_size'], config['config']['samples_per_insert']) == (16, 16.0)
  assert (config['config']['tau'], config['networks']) == (0.005, {'hidden_sizes': [16, 16]})
  assert (directory / 'learning_curve.png').read_bytes()[:4] == b'\x89PNG'
  assert len(list(directory.glob('events.out.tfevents.*'))) == 1
  assert len(list((directory / 'checkpoints').glob('checkpoint-*'))) == 1

  before = _contents(directory)
  code, out, err = _finish(_start(*_TINY, f'--logdir={directory}'))
  assert (code, out) == (2, '')
  assert 'is not empty' in err
  assert _contents(directory) == before

  code, out, err = _finish(_start('--resume', f'--logdir={directory}', '--steps=1000'))
  assert (code, err) == (0, '')
  assert 'learning goes on after 200 new steps' in out
  assert _evaluation_steps(directory) == [0, 400, 600, 1000]
  resumed = metrics.read(directory / metrics.FILE_NAME)
  assert [row.step for row in resumed if row.metric == 'episode_return'] == [200, 400, 600, 800, 1000]
  assert [row.wall_time for row in resumed] == sorted(row.wall_time for row in resumed)
  learner_steps = [row.value for row in resumed if row.label == 'learner' and row.metric == 'steps']
  assert learner_steps == sorted(learner_steps)
  assert learner_steps[-1] > max(
    row.value for row in rows if row.label == 'learner' and row.metric == 'steps'
  )
  assert json.loads((directory / 'config.json').read_text())['steps'] == 1000


_ON_DEVICE = (
  '--runner=anakin',
  '--env=builtin:pendulum',
  '--eval_every=400',
  '--num_eval_episodes=2',
  '--config_overrides=learning_starts=200,batch_size=16',
  '--network_overrides=hidden_sizes=(16,16)',
)


@pytest.mark.slow
@pytest.mark.parametrize('flags', [pytest.param(_TINY, marks=needs_acme, id='local'), _ON_DEVICE])
def test_an_interrupted_run_saves_and_goes_on(tmp_path, flags):
  directory = tmp_path / 'a run'
  process = _start(*flags, '--steps=1000000', f'--logdir={directory}')
  _wait_for_step(process, 800)
  process.send_signal(signal.SIGINT)
  code, out, err = _finish(process)
  assert code == signals.INTERRUPTED_EXIT_CODE
  assert err.endswith('Interrupted: saving a checkpoint. Press Ctrl-C again to quit at once.\n')
  command = shlex.split(out.splitlines()[-1].partition('Continue with: ')[2])
  assert command == ['sac-train', '--resume', f'--logdir={directory}']

  last = _evaluation_steps(directory)[-1]
  code, out, err = _finish(_start(*command[1:], f'--steps={last + 800}'))
  assert (code, err) == (0, '')
  steps = _evaluation_steps(directory)
  assert steps[:3] == [0, 400, 800]
  assert steps[-1] == last + 800
  assert len(set(steps)) == len(steps)


@needs_acme
@pytest.mark.slow
def test_a_killed_run_goes_on_from_its_last_checkpoint(tmp_path):
  directory = tmp_path / 'run'
  process = _start(*_TINY, '--steps=100000', '--checkpoint_minutes=0.01', f'--logdir={directory}')
  _wait_for_step(process, 1200)
  process.kill()
  _finish(process)
  before = metrics.read(directory / metrics.FILE_NAME)
  code, _, err = _finish(_start('--resume', f'--logdir={directory}', '--steps=1600'))
  assert (code, err) == (0, '')
  rows = metrics.read(directory / metrics.FILE_NAME)
  # The steps since the checkpoint are taken again, and stand in the table once.
  assert [row.step for row in rows if row.metric == 'episode_return'] == list(range(200, 1601, 200))
  steps = _evaluation_steps(directory)
  assert steps == sorted(set(steps))
  assert steps[-1] == 1600
  assert rows[:6] == before[:6]


class _Counts:
  """Stands for what a checkpoint of a run holds of its counters."""

  def __init__(self, steps: int):
    self._steps = steps

  def save(self):
    return {'counts': {'actor_steps': self._steps}, 'cache': {}}

  def restore(self, state):
    raise AssertionError('nothing is restored by looking')


def test_a_resumed_run_must_have_the_steps_to_learn_again(tmp_path):
  Checkpointer({'counter': _Counts(950)}, tmp_path / 'checkpoints').save(force=True)
  settings = dataclasses.replace(_SETTINGS, config={'min_replay_size': 100})
  with pytest.raises(UsageError, match=r'leaves 50 steps .* raise --steps to 1050 or more'):
    run._check_steps_left(settings, tmp_path)
  run._check_steps_left(dataclasses.replace(settings, steps=1050), tmp_path)
  run._check_steps_left(dataclasses.replace(settings, steps=950), tmp_path)


@pytest.mark.parametrize(
  ('changes', 'whole', 'needs_steps'),
  [
    ({'runner': 'distributed', 'replay_checkpoint_minutes': 5.0}, True, False),
    # A checkpoint that was cut off has no such file.
    ({'runner': 'distributed', 'replay_checkpoint_minutes': 5.0}, False, True),
    ({'runner': 'distributed', 'replay_checkpoint_minutes': None}, True, True),
    ({'runner': 'local', 'replay_checkpoint_minutes': 5.0}, True, True),
  ],
)
def test_a_run_whose_replay_was_saved_learns_at_once(tmp_path, changes, whole, needs_steps):
  Checkpointer({'counter': _Counts(950)}, tmp_path / 'checkpoints').save(force=True)
  (tmp_path / 'replay' / '2026-01-01T00:00:00').mkdir(parents=True)
  (tmp_path / 'replay' / '2026-01-01T00:00:00' / ('DONE' if whole else 'items.tfrecord')).touch()
  settings = dataclasses.replace(_SETTINGS, config={'min_replay_size': 100}, **changes)
  if needs_steps:
    with pytest.raises(UsageError, match='replay is not part of it'):
      run._check_steps_left(settings, tmp_path)
  else:
    run._check_steps_left(settings, tmp_path)


def test_damaged_checkpoints_are_named_before_anything_is_written(stored_run):
  (stored_run / 'checkpoints' / 'checkpoint-00000001.pickle').write_bytes(b'state')
  with pytest.raises(UsageError, match=r'All 1 checkpoints in .* are damaged'):
    run._check_steps_left(_SETTINGS, stored_run)
