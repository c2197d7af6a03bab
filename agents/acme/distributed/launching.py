"""Runs a Launchpad program on this machine to its end, and says what went wrong in which node."""

from __future__ import annotations

import contextlib
import ctypes
import functools
import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import launchpad as lp
import psutil  # type: ignore[import-untyped]
from absl import flags
from launchpad.launch import worker_manager
from launchpad.launch.run_locally import run_locally
from launchpad.nodes.python.local_multi_processing import PythonProcess

from agents.signals import Interrupts

# A node that has not ended by then is killed.
_ENDING_SECONDS = 20.0
_STOPPING_SECONDS = 1.0
_POLL_SECONDS = 0.1
_LOG_LINES = 20
_TERMINAL = 'output_to_files'
# Found here, since little is safe between the fork and the start of a process.
_LIBC = ctypes.CDLL(None)
_PR_SET_PDEATHSIG = 1


class ProgramError(Exception):
  """A node of a program failed; the message says which, and how it ended."""


def run(
  program: lp.Program,
  launch_type: str,
  directory: Path,
  environment_variables: Mapping[str, Mapping[str, str]],
) -> None:
  """Runs a program until it stops, and leaves no process of it behind.

  It has to be called in Python's main thread. SIGTERM stops the program as Ctrl-C does, but raises nothing.

  Args:
    program: what to run.
    launch_type: `local_mp` for processes, `local_mt` for threads.
    directory: takes the output of each process, in a file of its own.
    environment_variables: those to set for the processes of a label.

  Raises:
    ProgramError: a node failed, or did not end in time.
    KeyboardInterrupt: upon Ctrl-C.
  """
  if not flags.FLAGS.is_parsed():
    flags.FLAGS(['sac-train'])
  # Or Launchpad would count down on the terminal, and in the end kill this process as well.
  flags.FLAGS['lp_termination_notice_secs'].value = -1
  resources = {
    label: PythonProcess(env=dict(environment_variables[label]))
    for label in program.groups
    if launch_type == 'local_mp' and label in environment_variables
  }
  workers: dict[str, list[Any]] = {}
  problems: dict[str, str] = {}
  with Interrupts() as interrupts:
    try:
      # Not while the nodes are started or ended, or some of them would be left alone.
      with interrupts.held(), _blocked(signal.SIGINT):
        with _output_to(lambda title: log_file(directory, title, program)):
          manager = lp.launch(program, launch_type, local_resources=resources, terminal=_TERMINAL)
        workers = _workers(manager)
        # Launchpad has put its own in place, which calls this one but lets nothing be raised.
        interrupts.install()
      if interrupts.pressed:
        interrupts.pass_on()
      problems = _wait(manager, workers)
    except KeyboardInterrupt:
      pass
    except Exception as error:
      if not workers:
        raise
      problems = _failures(workers) or {'': f'a node failed: {type(error).__name__}: {error}'}
    finally:
      with interrupts.held():
        late = _end(workers)
      # What has failed first comes first.
      for title, problem in {**_failures(workers), **late}.items():
        problems.setdefault(title, problem)
  if problems:
    files = [log_file(directory, title, program) for title in problems if title]
    raise ProgramError('\n'.join([*problems.values(), *(tail(path) for path in files if path.exists())]))
  if interrupts.pressed:
    raise KeyboardInterrupt


@contextlib.contextmanager
def _blocked(signal_number: signal.Signals) -> Iterator[None]:
  """Keeps a signal from this process for a while, and for good from the processes that are started meanwhile.

  Ctrl-C on a terminal goes to all processes, but the nodes are to be stopped in order, by this one.
  """
  signal.pthread_sigmask(signal.SIG_BLOCK, {signal_number})
  try:
    yield
  finally:
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal_number})


def log_file(directory: Path, title: str, program: lp.Program) -> Path:
  """Returns the file that takes the output of a process.

  Args:
    directory: of all of them.
    title: Launchpad's name of the process: label, slash, number.
    program: which it is a part of.
  """
  label, _, number = title.partition('/')
  return directory / (f'{label}.log' if len(program.groups[label]) == 1 else f'{label}_{number}.log')


def tail(path: Path) -> str:
  """Returns the last lines of a file, under a heading."""
  lines = path.read_text(encoding='utf-8', errors='replace').splitlines()[-_LOG_LINES:]
  return '\n'.join([f'The end of {path}:', *(f'  {line}' for line in lines)])


@contextlib.contextmanager
def _output_to(path: Callable[[str], Path]) -> Iterator[None]:
  """Lets Launchpad write the output of its processes to files of our own choice."""

  def start(commands: Sequence[Any]) -> worker_manager.WorkerManager:
    manager = worker_manager.WorkerManager()
    for command in commands:
      file = path(command.title)
      file.parent.mkdir(parents=True, exist_ok=True)
      with file.open('ab') as stream:
        manager.process_worker(
          command.title,
          command.command_as_list,
          env={**os.environ, **command.env_overrides},
          stdin=subprocess.DEVNULL,
          stdout=stream,
          stderr=subprocess.STDOUT,
          preexec_fn=functools.partial(_end_with, os.getpid()),
        )
    return manager

  # It has no setting for that: its own launcher takes a directory from the environment when it is imported,
  # and tells of each file on the terminal.
  launchers = run_locally._LOCAL_LAUNCHER_MAP
  before = launchers[_TERMINAL]
  launchers[_TERMINAL] = start
  try:
    yield
  finally:
    launchers[_TERMINAL] = before


def _end_with(launcher: int) -> None:
  """Lets the kernel end this process when the one that has launched it does, be it by SIGKILL."""
  _LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
  if os.getppid() != launcher:
    os._exit(1)


def _workers(manager: worker_manager.WorkerManager) -> dict[str, list[Any]]:
  # It forgets those that have ended, and has no public list.
  return {title: list(workers) for title, workers in manager._active_workers.items()}


def _is_running(worker: Any) -> bool:
  return worker.poll() is None if isinstance(worker, subprocess.Popen) else worker.thread.is_alive()


def _wait(manager: worker_manager.WorkerManager, workers: Mapping[str, Sequence[Any]]) -> dict[str, str]:
  """Waits until the program is told to stop, or a node ends before; raises what a node has failed of."""
  while not manager.stop_event().is_set():
    ended = [title for title, group in workers.items() if not all(map(_is_running, group))]
    if ended:
      manager.wait(return_on_first_completed=True)
      # Who stops the program may have ended before this process got to know.
      if not manager.stop_event().wait(_STOPPING_SECONDS):
        return {ended[0]: f'the node {ended[0]} ended before the program was told to stop'}
    time.sleep(_POLL_SECONDS)
  return {}


def _failures(workers: Mapping[str, Sequence[Any]]) -> dict[str, str]:
  """Says which processes have failed; those that were terminated had no part in it."""
  problems = {}
  for title, group in workers.items():
    for worker in group:
      code = worker.poll() if isinstance(worker, subprocess.Popen) else None
      if code is not None and code < 0 and code != -signal.SIGTERM:
        problems[title] = f'the node {title} was killed by {signal.Signals(-code).name}'
      elif code is not None and code > 0:
        problems[title] = f'the node {title} failed with exit code {code}'
  return problems


def _end(workers: Mapping[str, Sequence[Any]]) -> dict[str, str]:
  """Tells all to end, waits until they have, and kills those that don't."""
  if not all(isinstance(worker, subprocess.Popen) for group in workers.values() for worker in group):
    # Launchpad's handler tells the threads.
    os.kill(os.getpid(), signal.SIGTERM)
  for worker in (worker for group in workers.values() for worker in group):
    if isinstance(worker, subprocess.Popen):
      worker.terminate()
  deadline = time.monotonic() + _ENDING_SECONDS
  while any(_is_running(worker) for group in workers.values() for worker in group):
    if time.monotonic() > deadline:
      break
    time.sleep(_POLL_SECONDS)
  late = [title for title, group in workers.items() if any(map(_is_running, group))]
  for title in late:
    for worker in workers[title]:
      if isinstance(worker, subprocess.Popen):
        _kill(worker)
  seconds = f'{_ENDING_SECONDS:g} seconds'
  return {title: f'the node {title} did not end within {seconds} of being told to' for title in late}


def _kill(process: subprocess.Popen[bytes]) -> None:
  with contextlib.suppress(psutil.NoSuchProcess):
    for child in psutil.Process(process.pid).children(recursive=True):
      with contextlib.suppress(psutil.NoSuchProcess):
        child.kill()
  process.kill()
  process.wait()
