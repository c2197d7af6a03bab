"""Errors of whoever asks, as opposed to those of the program."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator


class UsageError(Exception):
  """What was asked for cannot be done; the message is one sentence for whoever asked."""


class RunError(Exception):
  """A part of a run that works in a process of its own failed; the message says which, and how it ended."""


@contextlib.contextmanager
def usage_errors(*kinds: type[Exception], about: str = '') -> Iterator[None]:
  """Turns exceptions whose message says what is wrong with a setting into usage errors.

  Args:
    *kinds: of exceptions.
    about: goes before their message.

  Raises:
    UsageError: one of them was raised.
  """
  try:
    yield
  except kinds as error:
    raise UsageError(f'{about}{error}') from error
