from __future__ import annotations

import json

import pytest

from agents import run
from agents.anakin import callbacks
from agents.command.anakin_runner import convert_options
from agents.command.options import AGENTS
from agents.records import metrics

_TINY = (
  '--runner=anakin',
  '--env=builtin:pendulum',
  '--num_eval_episodes=2',
  '--eval_every=200',
  '--config_overrides=batch_size=16,learning_starts=100,buffer_size=1000',
  '--network_overrides=hidden_sizes=(8,)',
)


def test_options_are_those_of_the_loop_and_of_the_algorithm_with_the_defaults_of_the_agent():
  options = convert_options(AGENTS['sac_discrete'](), {'num_envs': 4, 'tau': 1, 'target_entropy_ratio': 0.3})
  assert (options['num_envs'], options['tau'], options['target_entropy_ratio']) == (4, 1.0, 0.3)
  assert (options['batch_size'], options['actor_learning_rate']) == (64, 1e-3)
  assert convert_options(AGENTS['sac'](), {})['batch_size'] == 256
  assert not {'min_replay_size', 'samples_per_insert', 'num_steps', 'eval_every'} & options.keys()


@pytest.mark.parametrize(
  ('arguments', 'message'),
  [
    (['--env=gymnasium:Pendulum-v1'], "got 'gymnasium:Pendulum-v1'"),
    (['--env=builtin:chess'], "There is no task 'chess'"),
    (['--env=builtin:cartpole'], 'SAC needs continuous, bounded actions'),
    (['--config_overrides=min_replay_size=3'], '--config_overrides: there is no option min_replay_size'),
    (['--config_overrides=num_envs=0'], 'num_envs must be an integer of at least 1, got 0'),
    (['--config_overrides=tau=3'], 'tau must be in [0, 1], got 3.0'),
    (['--steps=50'], '--steps=50 ends the run before learning starts, which learning_starts=100'),
    (['--config_overrides=max_replay_bytes=10'], 'more than max_replay_bytes=10'),
    (['--num_devices=2'], 'num_envs must be a multiple of the 2 devices (num_devices=2), got 1'),
    (['--num_devices=99', '--config_overrides=num_envs=99,batch_size=99'], 'num_devices must be at most'),
    (['--num_actors=2'], '--num_actors is for another runner: add --runner=distributed'),
    (['--num_seeds=0'], 'expected a whole number of at least 1'),
  ],
)
def test_what_cannot_be_trained_is_refused(tmp_path, monkeypatch, capsys, arguments, message):
  monkeypatch.chdir(tmp_path)
  assert run.main(['sac-train', *_TINY, *arguments]) == run.USAGE_EXIT_CODE
  assert message in capsys.readouterr().err
  assert not list(tmp_path.iterdir())


@pytest.mark.slow
def test_seeds_leave_a_run_each_and_go_on_together(tmp_path, capsys):
  directory = tmp_path / 'run'
  arguments = ['sac-train', *_TINY, '--seed=3', '--num_seeds=2', f'--logdir={directory}']
  assert run.main([*arguments, '--steps=400']) == 0
  out = capsys.readouterr().out
  assert 'sac on builtin:pendulum, seeds 3 to 4, 400 steps each on cpu' in out
  assert 'over 4 episodes after 400 steps' in out
  assert (directory / 'learning_curve.png').read_bytes()[:4] == b'\x89PNG'
  assert callbacks.saved_steps(directory / 'checkpoints') == 400
  config = json.loads((directory / 'config.json').read_text())
  assert (config['config']['batch_size'], config['config']['tau'], config['num_seeds']) == (16, 0.005, 2)

  def tables():
    return [metrics.read(directory / f'seed_{i}' / metrics.FILE_NAME) for i in range(2)]

  first = tables()
  for table in first:
    assert [evaluation.step for evaluation in metrics.evaluations(table)] == [0, 200, 400]
    updates = {row.step: row.value for row in table if (row.label, row.metric) == ('learner', 'steps')}
    # One update a step from step 100 on, reported ten times between evaluations.
    assert updates == {step: step - 100 for step in range(120, 401, 20)}
  assert [row.value for row in first[0]] != [row.value for row in first[1]]

  resume = ['sac-train', '--resume', f'--logdir={directory}']
  assert run.main(resume) == 0
  assert 'Nothing is left to train' in capsys.readouterr().out
  assert run.main([*resume, '--runner=local']) == run.USAGE_EXIT_CODE
  assert 'has runner=anakin, so it cannot be resumed with --runner=local' in capsys.readouterr().err
  assert run.main([*resume, '--num_seeds=3']) == run.USAGE_EXIT_CODE
  assert 'has num_seeds=2' in capsys.readouterr().err

  assert run.main([*resume, '--steps=600']) == 0
  assert 'Resumed, with the replay that was saved last.' in capsys.readouterr().out
  whole = tmp_path / 'whole'
  assert run.main([*arguments[:-1], f'--logdir={whole}', '--steps=600']) == 0
  for i, table in enumerate(tables()):
    assert table[: len(first[i])] == first[i]
    assert [row.wall_time for row in table] == sorted(row.wall_time for row in table)
    uninterrupted = metrics.read(whole / f'seed_{i}' / metrics.FILE_NAME)
    same = [(row.step, row.label, row.metric) for row in table if row.metric != 'steps_per_second']
    assert same == [
      (row.step, row.label, row.metric) for row in uninterrupted if row.metric != 'steps_per_second'
    ]
    for row, other in zip(metrics.evaluations(table), metrics.evaluations(uninterrupted), strict=True):
      assert row._replace(wall_time=0.0) == other._replace(wall_time=0.0)
