from __future__ import annotations

import os
import shlex
import signal
import socket
import time

import jax
import numpy as np
import pytest

pytest.importorskip('acme')

from agents import checkpointing, run
from agents.records import metrics
from tests.agents.command import program
from tests.agents.command.program import TINY, Program

_NODES, _HOSTS, _ADDRESS = '--num_learner_nodes=2', '--num_hosts=2', '--coordinator_address=localhost:1'


@pytest.mark.parametrize(
  ('arguments', 'message'),
  [
    ([_NODES, '--launch=local_mt'], '2 learners need --launch=local_mp'),
    ([_NODES], 'add --config_overrides=num_learner_devices=2, or a multiple of it.'),
    ([_HOSTS, _ADDRESS], 'add --config_overrides=num_learner_devices=2, or a multiple of it.'),
    ([_HOSTS, _ADDRESS, _NODES], '--num_learner_nodes=2 and --num_hosts=2 do not go together'),
    ([_HOSTS], 'needs --coordinator_address, host and port of host 0, as in 10.0.0.1:1234, got None'),
    ([_HOSTS, '--coordinator_address=localhost'], "as in 10.0.0.1:1234, got 'localhost'"),
    ([_HOSTS, _ADDRESS, '--host_index=2'], '--host_index must be below --num_hosts=2, got 2'),
    (['--host_index=1'], 'need --num_hosts, the number of hosts'),
  ],
)
def test_learners_that_cannot_work_together_are_refused(tmp_path, capsys, arguments, message):
  flags = ['--runner=distributed', f'--logdir={tmp_path / "run"}', *arguments]
  assert run.main(['sac-train', *flags]) == run.USAGE_EXIT_CODE
  assert message in capsys.readouterr().err
  assert not (tmp_path / 'run').exists()


@pytest.mark.slow
def test_a_run_of_processes_ends_is_resumed_and_interrupted_and_goes_on_in_one_process(tmp_path):
  directory = tmp_path / 'run'
  code, out, err = Program(*TINY, '--steps=800', f'--logdir={directory}').finish()
  assert code == 0, err
  assert 'Final evaluation: mean return -' in out.splitlines()[-1]
  last = program.check_episodes(directory)
  # With two actors one episode may be under way when the budget is spent.
  assert last in (800, 1000)
  steps = program.evaluation_steps(directory)
  assert steps[0] < 800
  assert steps[-1] == last == program.counts(directory)['actor_steps']
  assert steps.count(last) == 1
  assert program.checkpoints(directory) == ['checkpoint-00000001.pickle']
  assert (directory / 'learning_curve.png').read_bytes()[:4] == b'\x89PNG'
  assert sorted(path.stem for path in (directory / 'nodes').iterdir()) == sorted(program.NODES)
  rows = metrics.read(directory / metrics.FILE_NAME)
  for label, metric in (('learner', 'steps'), ('learner', 'critic_loss'), ('replay', 'samples')):
    assert max(row.value for row in rows if (row.label, row.metric) == (label, metric)) > 0

  resumed = Program('--resume', f'--logdir={directory}', '--steps=100000')
  resumed.wait_for_evaluation(last + 400)
  start = time.monotonic()
  # As on a terminal, where all processes get it.
  os.killpg(resumed.process.pid, signal.SIGINT)
  code, out, err = resumed.finish()
  assert code == 130, err
  assert time.monotonic() - start < 30.0
  assert 'Interrupted: saving a checkpoint.' in err
  assert program.checkpoints(directory) == ['checkpoint-00000002.pickle']
  interrupted_at = program.counts(directory)['actor_steps']
  assert interrupted_at >= last + 400
  assert program.check_episodes(directory) >= interrupted_at

  command = shlex.split(out.splitlines()[-1].partition('Continue with: ')[2])
  code, _, err = Program(*command[1:], '--runner=local', f'--steps={int(interrupted_at) + 400}').finish()
  assert code == 0, err
  # The steps since the checkpoint are taken again, and stand in the table once.
  assert program.check_episodes(directory) == interrupted_at + 400 == program.counts(directory)['actor_steps']


@pytest.mark.slow
def test_runs_on_two_hosts_learn_as_one_and_are_interrupted_and_resumed_together(
  tmp_path, monkeypatch, request
):
  monkeypatch.setenv('XLA_FLAGS', '--xla_force_host_platform_device_count=1')
  directories = [tmp_path / f'host{i}' for i in range(2)]

  def start(*arguments: str) -> list[Program]:
    with socket.create_server(('localhost', 0)) as server:
      port = server.getsockname()[1]
    address = ('--num_hosts=2', f'--coordinator_address=localhost:{port}')
    started = [
      Program(*arguments, *address, f'--host_index={i}', f'--logdir={directory}')
      for i, directory in enumerate(directories)
    ]
    for each in started:
      request.addfinalizer(each.end)
    return started

  def check_learners(number: int) -> None:
    for directory in directories:
      assert program.checkpoints(directory) == [f'checkpoint-{number:08d}.pickle']
    newest = [checkpointing.read_newest(directory / 'checkpoints') for directory in directories]
    first, second = (jax.tree.leaves(saved['learner'].training_state) for saved in newest)
    assert all(np.array_equal(a, b) for a, b in zip(first, second, strict=True))
    updates = [saved['counter']['counts']['learner_steps'] for saved in newest]
    assert updates[0] == updates[1] > 0

  overrides = ',num_learner_devices=2'
  flags = [flag + overrides * flag.startswith('--config_overrides') for flag in TINY]
  runs = start(*flags, '--num_actors=1', '--steps=100000')
  runs[1].wait_for_evaluation(400)
  os.killpg(runs[1].process.pid, signal.SIGINT)
  for code, out, err in [each.finish() for each in runs]:
    assert code == 130, err
    assert 'Saved. Continue with: ' in out
  check_learners(1)
  # Both act in the same environment, but not with the same noise.
  returns = [
    [row.value for row in metrics.read(d / metrics.FILE_NAME) if row.metric == 'episode_return']
    for d in directories
  ]
  assert not set(returns[0]) & set(returns[1])

  budget = max(int(program.counts(directory)['actor_steps']) for directory in directories) + 400
  for code, _, err in [each.finish() for each in start('--resume', f'--steps={budget}')]:
    assert code == 0, err
  check_learners(2)
  for directory in directories:
    assert program.check_episodes(directory) == program.evaluation_steps(directory)[-1] == budget
