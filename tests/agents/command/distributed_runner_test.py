from __future__ import annotations

import os
import shlex
import signal
import time

import pytest

pytest.importorskip('acme')

from agents import run
from agents.command import metrics
from tests.agents.command import program
from tests.agents.command.program import TINY, Program


@pytest.mark.parametrize(
  ('arguments', 'message'),
  [
    (['--launch=local_mt'], '--num_learner_nodes=2 needs --launch=local_mp'),
    ([], 'add --config_overrides=num_learner_devices=2, or a multiple of it.'),
  ],
)
def test_learners_that_cannot_work_together_are_refused(tmp_path, capsys, arguments, message):
  flags = ['--runner=distributed', '--num_learner_nodes=2', f'--logdir={tmp_path / "run"}', *arguments]
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
