"""Reading batches ahead of the learner."""

from __future__ import annotations

import collections
import contextlib
import threading
from collections.abc import Iterable, Iterator
from typing import Generic, TypeVar

T = TypeVar('T')


class PrefetchingIterator(Iterator[T], Generic[T]):
  """Iterates over what a background thread has already taken from an iterable.

  An error of the iterable is raised by `next`, after the elements that came before it.

  >>> batches = PrefetchingIterator([1, 2, 3])
  >>> next(batches), next(batches), batches.retrieved_elements()
  (1, 2, 2)
  >>> batches.close(timeout=10.0)
  True

  Args:
    iterable: where the elements come from; only the thread touches it, and closes it if it has a `close`.
    buffer_size: how many elements wait to be taken; one more is held by the thread.

  Raises:
    ValueError: `buffer_size` is not positive.
  """

  def __init__(self, iterable: Iterable[T], buffer_size: int = 1):
    if buffer_size < 1:
      raise ValueError(f'buffer_size must be at least 1, got {buffer_size}.')
    self._buffer: collections.deque[T] = collections.deque()
    self._changed = threading.Condition()
    self._retrieved = 0
    self._closed = False
    self._finished = False
    self._error: Exception | None = None
    self._thread = threading.Thread(
      target=self._fill, args=(iterable, buffer_size), name='prefetch', daemon=True
    )
    self._thread.start()

  def _fill(self, iterable: Iterable[T], buffer_size: int) -> None:
    try:
      for element in iterable:
        with self._changed:
          self._changed.wait_for(lambda: self._closed or len(self._buffer) < buffer_size)
          if self._closed:
            return
          self._buffer.append(element)
          self._changed.notify_all()
    except Exception as error:
      self._error = error
    finally:
      if close := getattr(iterable, 'close', None):
        close()
      with self._changed:
        self._finished = True
        self._changed.notify_all()

  def __next__(self) -> T:
    with self._changed:
      self._changed.wait_for(self.ready)
      if self._buffer:
        self._retrieved += 1
        self._changed.notify_all()
        return self._buffer.popleft()
    if self._error is not None:
      raise self._error
    raise StopIteration

  def ready(self) -> bool:
    """Returns whether `next` would return, or raise, at once."""
    return bool(self._buffer) or self._finished

  def wait(self, timeout: float) -> bool:
    """Waits up to `timeout` seconds to become ready, and returns whether it is."""
    with self._changed:
      return self._changed.wait_for(self.ready, timeout)

  def retrieved_elements(self) -> int:
    """Returns how many elements `next` has returned."""
    return self._retrieved

  @contextlib.contextmanager
  def taking_one(self, reader: str) -> Iterator[None]:
    """Checks that a step of the learner takes one element.

    Args:
      reader: what reads ahead, for the message.

    Raises:
      RuntimeError: the step took none, or several.
    """
    before = self._retrieved
    yield
    taken = self._retrieved - before
    if taken != 1:
      raise RuntimeError(
        f'A step of the learner has to take exactly one batch from its dataset, but it took {taken}: '
        f'make_learner must not read ahead, since {reader} does.'
      )

  def close(self, timeout: float = 0.0) -> bool:
    """Asks the thread to end, which it does once the iterable has returned its next element.

    Args:
      timeout: seconds to wait for that.

    Returns:
      Whether the thread has ended.
    """
    with self._changed:
      self._closed = True
      self._changed.notify_all()
    self._thread.join(timeout)
    return not self._thread.is_alive()
