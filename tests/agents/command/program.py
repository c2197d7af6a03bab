"""`sac-train` as a whole program, for tests that look at its processes and at what it leaves."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import psutil
import pytest

from agents.acme import checkpointing
from agents.records import metrics

TINY = (
  '--runner=distributed',
  '--eval_every=400',
  '--num_eval_episodes=2',
  '--config_overrides=min_replay_size=200,batch_size=16,samples_per_insert=16',
  '--network_overrides=hidden_sizes=(16,16)',
)
"""Flags of a run on Pendulum that takes little longer than its start. Each episode has 200 steps."""
NODES = ('replay', 'counter', 'learner', 'actor_0', 'actor_1', 'evaluator')
_LIMIT_SECONDS = 900.0


class Program:
  """The command in a session of its own, by which all of its processes are known."""

  def __init__(self, *arguments: str):
    self._errors = ''
    self.process = subprocess.Popen(
      [sys.executable, '-m', 'agents.run', *arguments],
      stdout=subprocess.PIPE,
      stderr=subprocess.PIPE,
      text=True,
      env={**os.environ, 'PYTHONUNBUFFERED': '1'},
      start_new_session=True,
    )
    # So that a hang is a failure.
    self._limit = threading.Timer(_LIMIT_SECONDS, self.end)
    self._limit.daemon = True
    self._limit.start()
    # Read at once, or a full pipe would stop the program.
    self._reader = threading.Thread(target=self._read_errors, daemon=True)
    self._reader.start()

  def wait_for_evaluation(self, step: int) -> None:
    """Reads the output until the row of an evaluation at a step or later."""
    for line in self.process.stdout:
      first = line.split()[0].replace(',', '') if line.startswith(' ') else ''
      if first.isdigit() and int(first) >= step:
        return
    self._reader.join()
    pytest.fail(f'ended before step {step}: {self._errors}')

  def wait_for_nodes(self) -> None:
    """Waits until all nodes of a program with two actors are processes, which are yet to start their work."""
    while len(set(self.nodes()) & set(NODES)) < len(NODES):
      assert self.process.poll() is None
      time.sleep(0.05)

  def nodes(self) -> dict[str, psutil.Process]:
    """Returns the processes of the nodes, which are known by the files that take their output."""
    found = {}
    for process in self.members():
      with contextlib.suppress(FileNotFoundError, PermissionError):
        path = Path(os.readlink(f'/proc/{process.pid}/fd/1'))
        if path.suffix == '.log' and process.pid != self.process.pid:
          found[path.stem] = process
    return found

  def kill(self, node: str) -> None:
    """Kills a node by its name, the process that has launched them (`launcher`), or all (`everything`)."""
    if node == 'everything':
      os.killpg(self.process.pid, signal.SIGKILL)
    elif node == 'launcher':
      self.process.kill()
    else:
      self.nodes()[node].kill()

  def members(self) -> list[psutil.Process]:
    """Returns its processes, those that have lost their parents included."""
    found = []
    for process in psutil.process_iter():
      try:
        if os.getsid(process.pid) == self.process.pid and process.status() != psutil.STATUS_ZOMBIE:
          found.append(process)
      except (ProcessLookupError, psutil.NoSuchProcess):
        pass
    return found

  def finish(self, seconds_for_orphans: float = 0.0) -> tuple[int, str, str]:
    """Returns exit code, output and errors, after checking that no process is left.

    Args:
      seconds_for_orphans: in which nodes may notice that their launcher is gone.
    """
    try:
      out = self.process.stdout.read()
      code = self.process.wait()
      self._reader.join()
      deadline = time.monotonic() + seconds_for_orphans
      while (left := self.members()) and time.monotonic() < deadline:
        time.sleep(0.1)
      assert not left, [process.cmdline() for process in left]
      return code, out, self._errors
    finally:
      self.end()

  def _read_errors(self) -> None:
    self._errors = self.process.stderr.read()

  def end(self) -> None:
    """Kills what is left of it."""
    self._limit.cancel()
    for process in self.members():
      with contextlib.suppress(psutil.NoSuchProcess):
        process.kill()


def evaluation_steps(directory: Path) -> list[int]:
  """Returns the steps at which a run was evaluated."""
  return [evaluation.step for evaluation in metrics.evaluations(metrics.read(directory / metrics.FILE_NAME))]


def checkpoints(directory: Path) -> list[str]:
  """Returns the names of the checkpoints of a run."""
  return sorted(path.name for path in (directory / 'checkpoints').glob('*'))


def counts(directory: Path) -> dict[str, float]:
  """Returns the counts of the last checkpoint of a run."""
  return checkpointing.read_newest(directory / 'checkpoints')['counter']['counts']


def check_episodes(directory: Path) -> int:
  """Checks that no step is missing or counted twice, and returns the last one.

  Episodes of 200 steps end at all multiples of 200.
  """
  steps = sorted(
    row.step for row in metrics.read(directory / metrics.FILE_NAME) if row.metric == 'episode_return'
  )
  assert steps == list(range(200, steps[-1] + 1, 200))
  return steps[-1]
