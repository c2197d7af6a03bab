from __future__ import annotations

import os
import subprocess
import sys
import textwrap

import pytest

lp = pytest.importorskip('launchpad')

from agents.acme.distributed import launching  # noqa: E402


def test_each_process_has_a_file_named_by_its_label(tmp_path):
  program = lp.Program('p')
  for label in ('learner', 'actor', 'actor'):
    program.add_node(lp.PyNode(print), label=label)
  names = [launching.log_file(tmp_path, title, program).name for title in ('learner/0', 'actor/0', 'actor/1')]
  assert names == ['learner.log', 'actor_0.log', 'actor_1.log']


def test_the_end_of_a_log_is_twenty_lines(tmp_path):
  path = tmp_path / 'learner.log'
  path.write_bytes(b'\xff\n' + b''.join(b'%d\n' % i for i in range(50)))
  heading, *lines = launching.tail(path).splitlines()
  assert heading == f'The end of {path}:'
  assert [int(line) for line in lines] == list(range(30, 50))


_PROGRAM = """
  import os, signal, sys, time
  from pathlib import Path
  import launchpad as lp
  from agents import signals
  from agents.acme.distributed import launching
  from agents.acme.distributed import supervision

  directory = Path(sys.argv[1])

  def wait():
    (directory / 'waiting').touch()
    print('waiting', flush=True)
    lp.wait_for_stop()

  def fail():
    while not (directory / 'waiting').exists():
      time.sleep(0.1)
    {action}

  program = lp.Program('p')
  program.add_node(lp.PyNode(wait), label='waiter')
  program.add_node(lp.PyNode(fail), label='failing')
  try:
    launching.run(program, {launch_type!r}, directory, {{'failing': {{'NODE_NAME': 'Fred'}}}})
  except launching.ProgramError as error:
    print('ProgramError', error)
  except KeyboardInterrupt:
    print('KeyboardInterrupt')
  else:
    print('ended')
"""


def _launch(directory, action, launch_type):
  code = textwrap.dedent(_PROGRAM.format(action=action, launch_type=launch_type))
  process = subprocess.Popen(
    [sys.executable, '-c', code, str(directory)],
    stdout=subprocess.PIPE,
    stderr=subprocess.STDOUT,
    text=True,
    start_new_session=True,
  )
  out, _ = process.communicate(timeout=300)
  assert process.returncode == 0, out
  with pytest.raises(ProcessLookupError):
    os.killpg(process.pid, 0)
  return out.splitlines()


@pytest.mark.slow
@pytest.mark.parametrize(
  ('action', 'expected'),
  [
    ('lp.stop()', ['ended']),
    ('os.killpg(0, signal.SIGINT); lp.wait_for_stop()', ['KeyboardInterrupt']),
    ('os.kill(os.getppid(), signal.SIGTERM); lp.wait_for_stop()', ['ended']),
    ('os.kill(os.getpid(), signal.SIGKILL)', ['ProgramError the node failing/0 was killed by SIGKILL']),
    (
      'raise ArithmeticError(os.environ["NODE_NAME"] + " diverged")',
      ['ProgramError the node failing/0 failed with exit code 1', '  ArithmeticError: Fred diverged'],
    ),
  ],
)
def test_processes_end_together_whatever_ends_them(tmp_path, action, expected):
  lines = _launch(tmp_path, action, 'local_mp')
  assert lines[0] == expected[0]
  assert set(expected) <= set(lines)
  assert (tmp_path / 'waiter.log').read_text().count('waiting') == 1


@pytest.mark.slow
@pytest.mark.parametrize(('launch_type', 'name'), [('local_mp', 'failing/0'), ('local_mt', 'failing')])
def test_a_node_that_ends_before_the_others_is_named_and_ends_them(tmp_path, launch_type, name):
  lines = _launch(tmp_path, 'pass', launch_type)
  assert f'ProgramError the node {name} ended before the program was told to stop' in lines
  assert not any('waiter' in line and 'did not end' in line for line in lines)


@pytest.mark.slow
def test_a_failure_while_the_program_stops_is_a_failure(tmp_path):
  action = 'lp.stop(); lp.wait_for_stop(); signals.ignore_termination(); raise OSError("disk full")'
  lines = _launch(tmp_path, action, 'local_mp')
  assert lines[0] == 'ProgramError the node failing/0 failed with exit code 1'
  assert '  OSError: disk full' in lines


@pytest.mark.slow
def test_a_process_that_does_not_end_is_killed_and_named(tmp_path):
  action = 'signal.signal(signal.SIGTERM, signal.SIG_IGN); lp.stop(); time.sleep(300)'
  lines = _launch(tmp_path, action, 'local_mp')
  assert lines[0] == 'ProgramError the node failing/0 did not end within 20 seconds of being told to'


@pytest.mark.slow
@pytest.mark.parametrize(
  ('action', 'expected'),
  [
    ('lp.stop()', 'ended'),
    ('os.kill(os.getpid(), signal.SIGINT); lp.wait_for_stop()', 'KeyboardInterrupt'),
    ('raise ArithmeticError("diverged")', 'ProgramError a node failed: ArithmeticError: diverged'),
  ],
)
def test_threads_end_together_whatever_ends_them(tmp_path, action, expected):
  assert _launch(tmp_path, action, 'local_mt')[-1] == expected
