"""Ctrl-C at a moment that leaves everything in one piece."""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Any


class DeferredInterrupts(contextlib.AbstractContextManager):
  """Lets marked sections finish before Ctrl-C takes effect; a second Ctrl-C doesn't wait.

  Only Python's main thread receives signals, so elsewhere this changes nothing.

  >>> with DeferredInterrupts() as interrupts:
  ...   with interrupts.deferred():
  ...     pass  # What Ctrl-C must not cut in two.
  """

  def __init__(self) -> None:
    self._previous: Callable[[int, FrameType | None], Any] | None = None
    self._deferring = False
    self._pending = False

  def __enter__(self) -> DeferredInterrupts:
    previous = signal.getsignal(signal.SIGINT)
    if threading.current_thread() is threading.main_thread() and callable(previous):
      self._previous = previous
      signal.signal(signal.SIGINT, self._handle)
    return self

  def __exit__(self, *exception: object) -> None:
    if self._previous is not None:
      signal.signal(signal.SIGINT, self._previous)
      self._previous = None

  def _handle(self, signal_number: int, frame: FrameType | None) -> None:
    if self._deferring and not self._pending:
      self._pending = True
    elif self._previous is not None:
      # Cleared first, or the end of the section would pass on the same signals once more.
      self._pending = False
      self._previous(signal_number, frame)

  @contextlib.contextmanager
  def deferred(self) -> Iterator[None]:
    """Puts off Ctrl-C until the end of the `with` block."""
    self._deferring = True
    try:
      yield
    finally:
      self._deferring = False
      if self._pending:
        self._handle(signal.SIGINT, None)
