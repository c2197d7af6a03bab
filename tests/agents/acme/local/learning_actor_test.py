from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator

import pytest

pytest.importorskip('acme')

from agents.acme.local.learning_actor import LearningActor
from agents.acme.prefetch import PrefetchingIterator
from agents.signals import Interrupts

import reverb  # isort: skip


class Table:
  """A table with a given number of samples outstanding."""

  def __init__(self, outstanding: int = 0):
    self.outstanding = outstanding

  def can_sample(self, num_samples: int) -> bool:
    return num_samples <= self.outstanding


class Counting:
  """A learner, an actor and a checkpointer that count their calls."""

  def __init__(self, take: Callable[[], None] = lambda: None):
    self.take = take
    self.steps = self.updates = self.saves = 0

  def step(self) -> None:
    self.take()
    self.steps += 1

  def update(self, wait: bool = False) -> None:
    self.updates += 1

  def save(self) -> None:
    self.saves += 1


def _batches_of(table: Table, batch_size: int) -> Iterator[int]:
  """Yields a batch whenever the table has the samples for one."""
  while True:
    while table.outstanding < batch_size:
      if table.outstanding < 0:
        return
      time.sleep(0.001)
    table.outstanding -= batch_size
    yield batch_size


def _make(batches: PrefetchingIterator, table: Table, backlog: float, **options):
  parts = Counting(lambda: next(batches))
  actor = LearningActor(parts, parts, batches, [table], [backlog], Interrupts(), parts, **options)
  return actor, parts


def test_waits_for_batches_until_the_backlog_is_below_what_is_tolerated():
  table = Table(outstanding=40)
  actor, parts = _make(PrefetchingIterator(_batches_of(table, 4)), table, backlog=12)
  actor.update()
  # All but the last samples below the tolerated 12, of which up to two batches are read ahead.
  assert 40 - 4 * parts.steps - 12 < 8
  assert (parts.updates, parts.saves) == (1, 1)
  table.outstanding = -1


def test_does_not_wait_below_the_tolerated_backlog():
  table = Table(outstanding=3)
  actor, parts = _make(PrefetchingIterator(_batches_of(table, 4)), table, backlog=12)
  actor.update()
  # Without a step of the learner there is nothing new for the actor.
  assert (parts.steps, parts.updates, parts.saves) == (0, 0, 1)
  table.outstanding = -1


def test_without_a_ratio_the_learner_takes_one_batch_a_step_and_is_not_waited_for():
  table = Table(outstanding=10**9)
  batches = PrefetchingIterator(_batches_of(table, 4))
  actor, parts = _make(batches, table, backlog=math.inf)
  assert batches.wait(10.0)
  actor.update()
  assert parts.steps == 1
  table.outstanding = 0
  while batches.ready():
    next(batches)
  actor.update()
  assert parts.steps == 1
  table.outstanding = -1


@pytest.mark.parametrize('taken', [0, 2])
def test_refuses_a_learner_that_takes_other_than_one_batch(taken):
  table = Table(outstanding=100)
  batches = PrefetchingIterator(_batches_of(table, 4))
  actor, parts = _make(batches, table, backlog=12)
  parts.take = lambda: [next(batches) for _ in range(taken)]
  with pytest.raises(RuntimeError, match=f'exactly one batch from its dataset, but it took {taken}'):
    actor.update()
  table.outstanding = -1


def test_raises_with_the_state_of_the_limiter_when_no_batch_arrives():
  table = reverb.Table(
    'replay', reverb.selectors.Uniform(), reverb.selectors.Fifo(), 10, reverb.rate_limiters.MinSize(1)
  )
  server = reverb.Server([table])
  reverb.Client(f'localhost:{server.port}').insert([1.0], {'replay': 1.0})
  nothing = Table(0)
  batches = PrefetchingIterator(_batches_of(nothing, 1))
  actor, _ = _make(batches, table, backlog=1.0, starvation_seconds=0.05)
  with pytest.raises(RuntimeError, match=r"No batch has arrived for 0.05 seconds.* 'replay' holds 1 items"):
    actor.update()
  nothing.outstanding = -1
  server.stop()


def test_errors_of_the_dataset_reach_the_caller():
  def broken() -> Iterator[int]:
    raise LookupError('no such table')
    yield

  table = Table(outstanding=100)
  actor, _ = _make(PrefetchingIterator(broken()), table, backlog=12)
  with pytest.raises(LookupError, match='no such table'):
    actor.update()
