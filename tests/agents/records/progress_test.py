from __future__ import annotations

import io

import pytest

from agents.records import progress as progress_lib
from agents.records.progress import Progress


class _Terminal(io.StringIO):
  def isatty(self):
    return True


def test_a_terminal_shows_a_bar_with_steps_return_rate_and_time_left(monkeypatch):
  monkeypatch.setattr(progress_lib, '_TERMINAL_SECONDS', 0.0)
  stream = _Terminal()
  progress = Progress(1000, stream)
  progress.show_return(-12.34)
  for _ in range(10):
    progress.advance()
  last = stream.getvalue().split('\r')[-1]
  assert '1%|' in last
  assert '10/1,000 steps, return -12.3, ' in last
  assert ' steps/s, ' in last
  assert last.rstrip().endswith(' left')
  progress.close()


def test_other_streams_get_a_line_now_and_then(monkeypatch):
  stream = io.StringIO()
  progress = Progress(1000, stream)
  for _ in range(1000):
    progress.advance()
  progress.close()
  assert stream.getvalue() == ''

  monkeypatch.setattr(progress_lib, '_FILE_SECONDS', 0.0)
  progress = Progress(1000, stream)
  progress.show_return(5.0)
  progress.go_to(499)
  progress.advance()
  progress.close()
  (line,) = stream.getvalue().splitlines()
  assert line.startswith(' 50%, 500/1,000 steps, return 5.0, ')
  assert '\r' not in line


def test_steps_are_counted_and_corrected():
  progress = Progress(1000, io.StringIO())
  progress.advance()
  assert progress.step == 1
  progress.go_to(600)
  progress.advance()
  assert progress.step == 601
  # The last episode is always finished.
  progress.go_to(999)
  progress.advance()
  progress.advance()
  assert progress.step == 1001
  progress.go_to(1150)
  progress.close()


def test_a_jump_is_not_taken_for_speed(monkeypatch):
  monkeypatch.setattr(progress_lib, '_FILE_SECONDS', 0.0)
  stream = io.StringIO()
  progress = Progress(10**9, stream)
  progress.go_to(10**8)
  progress.advance()
  progress.close()
  rate = float(stream.getvalue().split(' steps/s')[0].split()[-1])
  # A step takes longer than 100 ns.
  assert rate < 1e7


@pytest.mark.parametrize('stream', [_Terminal(), io.StringIO()])
def test_lines_go_to_the_standard_output(stream, capsys):
  progress = Progress(10, stream)
  progress.print('a row')
  progress.close()
  assert capsys.readouterr().out == 'a row\n'
  assert 'a row' not in stream.getvalue()


def test_rows_stand_below_their_headings():
  header = progress_lib.evaluation_header(10)
  row = progress_lib.evaluation_row(
    progress_lib.Evaluation(12000, 3725.9, -151.25, 80.5, -250.0, -1.0, 200.0, 10)
  )
  assert len(header) == len(row)
  assert row.split() == ['12,000', '-151.2', '±', '80.5', '200.0', '1:02:05']
  assert 'mean ± std of 10' in header
