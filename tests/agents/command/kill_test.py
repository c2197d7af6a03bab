"""What a program does when one of its processes is killed, or all of them."""

from __future__ import annotations

import time
from pathlib import Path
from typing import NamedTuple

import pytest

pytest.importorskip('acme')

from agents import run
from agents.records import metrics
from tests.agents.command import program
from tests.agents.command.program import TINY, Program

NODES = (*(name for name in program.NODES if name != 'actor_1'), 'launcher', 'everything')
MOMENTS = ('start', 'training', 'end')
_FLAGS = (*TINY, '--checkpoint_minutes=0.02', '--replay_checkpoint_minutes=0.02')
# Those whose launcher is killed have to notice that it is gone.
_SECONDS_TO_END = 30.0


class Outcome(NamedTuple):
  """What became of a program.

  Attributes:
    code: its exit code.
    errors: what it said on the terminal.
    seconds: from the kill to the end of its last process.
    steps: the last step in its table of metrics.
    saved_steps: the steps of its last checkpoint; None if there is none.
  """

  code: int
  errors: str
  seconds: float
  steps: int
  saved_steps: int | None


def kill(directory: Path, node: str, moment: str) -> Outcome:
  """Starts a program, kills a part of it and waits for the end of the rest.

  Args:
    directory: of the run.
    node: one of `NODES`.
    moment: `start` is when its processes exist, `training` when an update has been saved, and `end` within
      the last evaluation, when the actors are through.
  """
  if moment == 'end':
    started = Program(*_FLAGS, '--steps=800', '--num_eval_episodes=200', f'--logdir={directory}')
    while _last_step(directory, 'train') < 800:
      assert started.process.poll() is None
      time.sleep(0.1)
    time.sleep(1.0)
  else:
    started = Program(*_FLAGS, '--steps=100000', f'--logdir={directory}')
    if moment == 'training':
      started.wait_for_evaluation(400)
      while not (run.has_checkpoint(directory) and program.counts(directory).get('learner_steps')):
        assert started.process.poll() is None
        time.sleep(0.1)
    else:
      started.wait_for_nodes()
  killed_at = time.monotonic()
  started.kill(node)
  code, _, errors = started.finish(_SECONDS_TO_END)
  seconds = time.monotonic() - killed_at
  if moment == 'end':
    assert _last_step(directory, 'evaluation') < 800, 'it was killed too late'
  saved_steps = None
  if run.has_checkpoint(directory):
    saved_steps = int(program.counts(directory).get('actor_steps', 0))
  return Outcome(code, errors, seconds, _last_step(directory, 'train'), saved_steps)


def check_outcome(outcome: Outcome, node: str) -> None:
  """Checks that the program has ended in time, has said why, and has lost nothing that it need not lose."""
  assert outcome.seconds < _SECONDS_TO_END
  if node in ('launcher', 'everything'):
    # There was nobody left to say anything.
    assert outcome.code == -9
    return
  title = node.replace('_', '/') if node.startswith('actor') else f'{node}/0'
  assert outcome.code == run.FAILURE_EXIT_CODE, outcome.errors
  assert f'the node {title} was killed by SIGKILL' in outcome.errors
  if outcome.saved_steps is not None and node in ('replay', 'actor_0', 'evaluator'):
    # The learner saves when the program stops, and asks the counter for its counts.
    assert outcome.saved_steps >= outcome.steps


def resume(directory: Path, outcome: Outcome) -> str:
  """Resumes a run that was killed, for 400 steps more, and returns what it said of its replay.

  Args:
    directory: of the run.
    outcome: of the kill.
  """
  assert outcome.saved_steps is not None
  steps = max(800, outcome.saved_steps + 400)
  code, out, err = Program(
    '--resume', f'--logdir={directory}', f'--steps={steps}', '--num_eval_episodes=2'
  ).finish()
  assert code == 0, err
  # Those after the checkpoint are taken again, and stand in the table once.
  last = program.check_episodes(directory)
  assert steps <= last <= steps + 200
  assert program.counts(directory)['actor_steps'] == last == program.evaluation_steps(directory)[-1]
  return next(line for line in out.splitlines() if line.startswith('Resumed'))


def _last_step(directory: Path, label: str) -> int:
  path = directory / metrics.FILE_NAME
  rows = metrics.read(path) if path.exists() else []
  return max((row.step for row in rows if row.label == label), default=0)


# The others are in tests/benchmarks/kill_matrix.py, since each takes half a minute or more.
@pytest.mark.slow
def test_a_program_that_loses_a_process_ends_and_says_so(tmp_path):
  check_outcome(kill(tmp_path / 'run', 'replay', 'training'), 'replay')


@pytest.mark.slow
def test_a_program_that_was_killed_goes_on_from_its_last_checkpoint(tmp_path):
  directory = tmp_path / 'run'
  outcome = kill(directory, 'everything', 'training')
  check_outcome(outcome, 'everything')
  # Of an update, if not yet of an episode.
  assert outcome.saved_steps is not None
  assert resume(directory, outcome) == 'Resumed, with the replay that was saved last.'
