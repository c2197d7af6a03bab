from __future__ import annotations

import threading
import time
from collections.abc import Iterator

import pytest

from agents.acme.prefetch import PrefetchingIterator


class Source(Iterator[int]):
  """Counts up; each element has to be released first."""

  def __init__(self):
    self.released = threading.Semaphore(0)
    self.taken = 0
    self.closed = False

  def __next__(self) -> int:
    self.released.acquire()
    self.taken += 1
    return self.taken

  def close(self) -> None:
    self.closed = True


def test_is_ready_only_when_an_element_has_been_read():
  source = Source()
  batches = PrefetchingIterator(source)
  assert not batches.ready()
  assert not batches.wait(0.01)
  source.released.release()
  assert batches.wait(10.0)
  assert batches.ready()
  assert (next(batches), batches.retrieved_elements()) == (1, 1)
  assert not batches.ready()
  source.released.release()
  batches.close()


def test_reads_no_further_ahead_than_the_buffer_and_one_in_hand():
  source = Source()
  for _ in range(10):
    source.released.release()
  batches = PrefetchingIterator(source, buffer_size=3)
  deadline = time.monotonic() + 10.0
  while source.taken < 4 and time.monotonic() < deadline:
    time.sleep(0.001)
  time.sleep(0.05)
  assert source.taken == 4
  assert next(batches) == 1
  assert batches.close(timeout=10.0)


def test_keeps_order_and_then_raises_the_error_of_the_source():
  def source():
    yield 1
    yield 2
    raise LookupError('the disk is gone')

  batches = PrefetchingIterator(source())
  assert [next(batches), next(batches)] == [1, 2]
  with pytest.raises(LookupError, match='the disk is gone'):
    next(batches)
  assert batches.ready()
  assert batches.retrieved_elements() == 2


def test_ends_where_the_source_ends():
  assert list(PrefetchingIterator(iter(range(5)), buffer_size=2)) == [0, 1, 2, 3, 4]


def test_close_ends_the_thread_and_closes_the_source():
  before = set(threading.enumerate())
  source = Source()
  for _ in range(5):
    source.released.release()
  batches = PrefetchingIterator(source)
  assert batches.wait(10.0)
  assert batches.close(timeout=10.0)
  assert source.closed
  assert set(threading.enumerate()) <= before


def test_close_says_if_the_source_still_holds_the_thread():
  source = Source()
  batches = PrefetchingIterator(source)
  assert not batches.close(timeout=0.01)
  source.released.release()
  assert batches.close(timeout=10.0)


def test_refuses_an_empty_buffer():
  with pytest.raises(ValueError, match='buffer_size must be at least 1, got 0'):
    PrefetchingIterator([], buffer_size=0)
