from __future__ import annotations

import threading

import pytest

pytest.importorskip('acme')

from agents import data_parallel
from agents.acme.distributed.counter import Stage, StageWatch
from agents.acme.distributed.learner import LearnerWorker, Peers
from agents.acme.prefetch import PrefetchingIterator

import jax.numpy as jnp  # isort: skip


def test_variables_are_converted_once_an_update():
  class Learner:
    def __init__(self):
      self.variables = {'w': jnp.ones(3)}

    def get_variables(self, names):
      return [self.variables for _ in names]

  worker = LearnerWorker(None, 'learner 0', None, None, None)
  worker._learner = Learner()
  worker._ready.set()
  (first,), (second,) = worker.get_variables(['policy']), worker.get_variables(['policy'])
  assert first is second
  assert type(first['w']).__module__ == 'numpy'
  worker._learner.variables = {'w': jnp.zeros(3)}
  (third,) = worker.get_variables(['policy'])
  assert third['w'].sum() == 0.0


class _Counter:
  """Comes to a stage once it has been asked a number of times."""

  def __init__(self, looks: int):
    self._looks = looks

  def stage(self) -> int:
    self._looks -= 1
    return Stage.TRAIN if self._looks >= 0 else Stage.SETTLE


@pytest.fixture
def voting(monkeypatch):
  """Makes a learner with a peer whose votes are given, and tells what it voted and what it stopped."""
  monkeypatch.setattr('agents.acme.distributed.counter._LOOK_SECONDS', 0.0)
  votes, events = [], []
  monkeypatch.setattr(data_parallel, 'leave_processes', lambda: events.append('left'))

  def make(vote_of_peer: int, *, looks: int, batches=(), stop: bool = False):
    def highest_vote(own: int) -> int:
      votes.append(int(own))
      return max(own, vote_of_peer)

    monkeypatch.setattr(data_parallel, 'highest_vote', highest_vote)
    worker = LearnerWorker(None, 'learner 0', None, None, None, peers=Peers('localhost:1', 2, 0))
    worker._stop_program = lambda: events.append('stopped')
    stopping = threading.Event()
    if stop:
      stopping.set()
    iterator = PrefetchingIterator(batches)
    may_learn = worker._may_learn(iterator, StageWatch(_Counter(looks), Stage.SETTLE), None, stopping)
    return may_learn, votes[-1], events, iterator.retrieved_elements()

  return make


def test_learners_learn_while_all_have_a_batch(voting):
  assert voting(0, looks=1, batches=[1]) == (True, 0, [], 0)


def test_a_learner_whose_peer_is_through_reads_on_until_its_own_actors_are(voting):
  assert voting(1, looks=4, batches=[1, 2, 3, 4, 5]) == (False, 0, ['left'], 3)


def test_a_learner_that_is_through_says_so(voting):
  assert voting(0, looks=0, batches=[1]) == (False, 1, ['left'], 0)


def test_a_learner_whose_peer_is_stopped_stops_its_program(voting):
  may_learn, vote, events, _ = voting(2, looks=1, batches=[1])
  assert (may_learn, vote, events) == (False, 0, ['left', 'stopped'])


def test_a_learner_that_is_stopped_says_so_and_stops_nothing_twice(voting):
  assert voting(0, looks=1, batches=[1], stop=True) == (False, 2, ['left'], 0)
