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

from agents import run
from agents.acme import checkpointing
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
def test_runs_on_two_hosts_learn_as_one_and_each_comes_to_its_end(tmp_path, monkeypatch, request):
  config = next(flag for flag in TINY if flag.startswith('--config_overrides')) + ',num_learner_devices=2'
  first, second = (tmp_path / f'host{i}' for i in range(2))
  # The first goes on from a run of its own, so that it has fewer steps to take.
  assert run.main(['sac-train', *TINY, config, '--runner=local', '--steps=400', f'--logdir={first}']) == 0
  begun = checkpointing.read_newest(first / 'checkpoints')

  monkeypatch.setenv('XLA_FLAGS', '--xla_force_host_platform_device_count=1')
  with socket.create_server(('localhost', 0)) as server:
    port = server.getsockname()[1]
  together = ('--num_hosts=2', f'--coordinator_address=localhost:{port}', '--num_actors=1', '--steps=1000')
  resumed = ('--resume', '--runner=distributed', '--host_index=0', f'--logdir={first}')
  new = (*TINY, config, '--host_index=1', f'--logdir={second}')
  hosts = [Program(*together, *flags) for flags in (resumed, new)]
  for host in hosts:
    request.addfinalizer(host.end)
  for code, _, err in [host.finish() for host in hosts]:
    assert code == 0, err

  states, updates = [], []
  for directory in (first, second):
    assert program.check_episodes(directory) == program.evaluation_steps(directory)[-1] == 1000
    saved = checkpointing.read_newest(directory / 'checkpoints')
    states.append(jax.tree.leaves(saved['learner'].training_state))
    updates.append(saved['counter']['counts']['learner_steps'])
  # The second has begun with the state of the first, and learned no more once that was through.
  assert all(np.array_equal(a, b) for a, b in zip(*states, strict=True))
  new_updates = updates[0] - begun['counter']['counts']['learner_steps']
  assert new_updates == updates[1]
  # Replay was filled anew for 200 of 600 steps, and each host gives half of a batch of 16.
  assert 700 < new_updates < 900
