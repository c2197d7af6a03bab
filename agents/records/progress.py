"""Progress of a run on the terminal."""

from __future__ import annotations

import datetime
import sys
from typing import Any, TextIO

import tqdm

from agents.records.metrics import Evaluation

_STATE = '{n:,}/{total:,}{unit}{postfix}, {rate_noinv_fmt}, {remaining} left'
_TERMINAL_SECONDS = 0.25
_FILE_SECONDS = 15.0


_ROW = '{:>11} {:>28} {:>10} {:>10}'


def evaluation_header(num_episodes: int) -> str:
  """Returns the heading of a table of evaluations.

  Args:
    num_episodes: of an evaluation.
  """
  return _ROW.format('step', f'return (mean ± std of {num_episodes})', 'length', 'time')


def evaluation_row(evaluation: Evaluation) -> str:
  """Returns an evaluation as a row of a table: step, return, length of an episode, time.

  >>> evaluation_row(Evaluation(2000, 62.5, -151.25, 80.5, -250.0, -1.0, 200.0, 10))
  '      2,000             -151.2 ±    80.5      200.0    0:01:02'
  """
  return _ROW.format(
    f'{evaluation.step:,}',
    f'{evaluation.return_mean:.1f} ± {evaluation.return_std:7.1f}',
    f'{evaluation.length_mean:.1f}',
    str(datetime.timedelta(seconds=int(evaluation.wall_time))),
  )


class _Lines(tqdm.tqdm):
  """A bar for streams that keep every state of it: a line for each."""

  def display(self, msg: str | None = None, pos: int | None = None) -> bool:
    del pos
    # An empty message asks for the bar to be wiped out.
    if msg != '':
      print(msg or str(self), file=self.fp, flush=True)
    return False


class Progress:
  """Shows steps, the last return, steps per second and the time left.

  It is a bar on a terminal, and elsewhere a line now and then.

  Args:
    total: environment steps of the run.
    stream: where to show it; by default the standard error stream.
  """

  def __init__(self, total: int, stream: TextIO | None = None):
    stream = sys.stderr if stream is None else stream
    self._on_terminal = stream.isatty()
    self._total = total
    self._step = 0
    kind: type[Any] = tqdm.tqdm if self._on_terminal else _Lines
    bar = '|{bar}|' if self._on_terminal else ','
    self._bar = kind(
      total=total,
      file=stream,
      unit=' steps',
      bar_format=f'{{percentage:3.0f}}%{bar} {_STATE}',
      mininterval=_TERMINAL_SECONDS if self._on_terminal else _FILE_SECONDS,
      dynamic_ncols=self._on_terminal,
      # Spares files a first line about nothing.
      delay=0.0 if self._on_terminal else 1e-6,
      # The number of steps per second drops when learning begins: look at the clock each time.
      miniters=1,
      leave=False,
    )

  @property
  def step(self) -> int:
    """Environment steps so far."""
    return self._step

  def advance(self, steps: int = 1) -> None:
    """Counts environment steps."""
    self._step += steps
    shown = min(self._step, self._total)
    if shown > self._bar.n:
      self._bar.update(shown - self._bar.n)

  def go_to(self, step: int) -> None:
    """Corrects the number of steps so far, without taking it for speed."""
    self._step = step
    shown = min(step, self._total)
    self._bar.last_print_n += shown - self._bar.n
    self._bar.initial += shown - self._bar.n
    self._bar.n = shown

  def show_return(self, episode_return: float) -> None:
    """Shows the return of the last episode of training."""
    self._bar.set_postfix_str(f'return {episode_return:.1f}', refresh=False)

  def print(self, line: str) -> None:
    """Prints a line to the standard output, above the bar."""
    if self._on_terminal:
      self._bar.write(line)
    else:
      print(line, flush=True)

  def close(self) -> None:
    """Takes the bar away."""
    self._bar.close()
