"""The one place that handles signals: when Ctrl-C takes effect, and when a process may be told to end."""

from __future__ import annotations

import contextlib
import os
import signal
import threading
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Any

INTERRUPTED_EXIT_CODE = 130
_Handler = Callable[[int, FrameType | None], Any]


@contextlib.contextmanager
def interruptible() -> Iterator[None]:
  """Says what Ctrl-C sets off, and lets a second one end the process in the midst of saving."""
  interrupted = False

  def handle(signal_number: int, frame: FrameType | None) -> None:
    nonlocal interrupted
    del signal_number, frame
    if interrupted:
      os._exit(INTERRUPTED_EXIT_CODE)
    interrupted = True
    # Unlike a handler in Python it need not wait until native code returns.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    # Printing is not safe here, as the signal may have come in the midst of it. On a terminal it leaves the
    # line of the bar.
    message = b'Interrupted: saving a checkpoint. Press Ctrl-C again to quit at once.\n'
    os.write(2, b'\n' + message if os.isatty(2) else message)
    raise KeyboardInterrupt

  previous = signal.signal(signal.SIGINT, handle)
  try:
    yield
  finally:
    signal.signal(signal.SIGINT, previous)


class Interrupts(contextlib.AbstractContextManager):
  """Stands before the handler of Ctrl-C that was there, and decides when that is called and may raise.

  Outside of marked sections that is at once. The sections differ in when it says what it does:

  - `deferred()`, for what takes a moment: at the end, with its effect.
  - `noted()`, for what looks itself whether there was a Ctrl-C: at once, but it raises nothing.
  - `held()`, for what must not be left at all: when `pass_on` is called.

  Only Python's main thread receives signals, so elsewhere this changes nothing.

  >>> with Interrupts() as interrupts:
  ...   with interrupts.deferred():
  ...     pass  # What Ctrl-C must not cut in two.

  Attributes:
    pressed: whether there was a Ctrl-C that was noted, held or passed on.
  """

  def __init__(self) -> None:
    self.pressed = False
    self._previous: _Handler | None = None
    self._section: _Handler | None = None

  def __enter__(self) -> Interrupts:
    previous = signal.getsignal(signal.SIGINT)
    if threading.current_thread() is threading.main_thread() and callable(previous):
      self._previous = previous
      self.install()
    return self

  def __exit__(self, *exception: object) -> None:
    if self._previous is not None:
      signal.signal(signal.SIGINT, self._previous)
      self._previous = None

  def install(self) -> None:
    """Puts this back in place, where a library has replaced it."""
    if self._previous is not None:
      signal.signal(signal.SIGINT, self._handle)

  def pass_on(self, signal_number: int = signal.SIGINT, frame: FrameType | None = None) -> None:
    """Calls the handler that was there.

    Raises:
      KeyboardInterrupt: if that raises it.
    """
    if self._previous is not None:
      self.pressed = True
      self._previous(signal_number, frame)

  def _handle(self, signal_number: int, frame: FrameType | None) -> None:
    (self._section or self.pass_on)(signal_number, frame)

  @contextlib.contextmanager
  def deferred(self) -> Iterator[None]:
    """Puts off Ctrl-C until the end of the `with` block; a second Ctrl-C doesn't wait."""
    pending = False

    def handle(signal_number: int, frame: FrameType | None) -> None:
      nonlocal pending
      # Cleared first, or the end of the section would pass on the same signals once more.
      pending = not pending
      if not pending:
        self.pass_on(signal_number, frame)

    self._section = handle
    try:
      yield
    finally:
      self._section = None
      if pending:
        self.pass_on()

  @contextlib.contextmanager
  def noted(self) -> Iterator[None]:
    """Lets the handler that was there speak, yet not end the `with` block, which has to look at `pressed`."""

    def handle(signal_number: int, frame: FrameType | None) -> None:
      pressed = self.pressed
      try:
        # It lets a second one end the process, where it says so.
        self.pass_on(signal_number, frame)
        self.pressed = pressed
      except KeyboardInterrupt:
        pass

    self._section = handle
    try:
      yield
    finally:
      self._section = None

  @contextlib.contextmanager
  def held(self) -> Iterator[None]:
    """Does no more than set `pressed`, however often Ctrl-C comes."""

    def handle(signal_number: int, frame: FrameType | None) -> None:
      del signal_number, frame
      self.pressed = True

    self._section = handle
    try:
      yield
    finally:
      self._section = None


def ignore_termination() -> None:
  """Lets this process end undisturbed, now that it is through.

  A second SIGTERM, or the countdown that Launchpad keeps by SIGALRM, would kill a Python that is shutting
  down, and hide whether it has failed.
  """
  if threading.current_thread() is threading.main_thread():
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    signal.signal(signal.SIGALRM, signal.SIG_IGN)


def take_termination_back() -> None:
  """Puts Python's handler of SIGTERM back in place.

  `jax.distributed` puts one of its own below it, and SIGTERM would no longer get through.
  """
  handler = signal.getsignal(signal.SIGTERM)
  if handler is not None and threading.current_thread() is threading.main_thread():
    signal.signal(signal.SIGTERM, handler)
