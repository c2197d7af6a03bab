from __future__ import annotations

import threading

import pytest

pytest.importorskip('acme')

from agents.acme import checkpointing
from agents.acme.distributed import counter as counter_lib
from agents.acme.distributed.counter import ProgramCounter, Stage


@pytest.fixture
def program(monkeypatch):
  """Stands for Launchpad: the event that stops the program, and what has stopped it."""
  stop = threading.Event()
  monkeypatch.setattr(counter_lib.lp, 'stop_event', lambda: stop)
  monkeypatch.setattr(counter_lib.lp, 'stop', stop.set)
  return stop


def _start(counter):
  thread = threading.Thread(target=counter.run, daemon=True)
  thread.start()
  return thread


def _wait_for(counter, stage):
  counter_lib.wait_for_stage(counter, stage, threading.Event())
  assert counter.stage() == stage


def test_stages_follow_when_all_have_reported_and_the_last_one_stops_the_program(program):
  counter = ProgramCounter({Stage.TRAIN: 2, Stage.SETTLE: 1, Stage.EVALUATE: 0, Stage.SAVE: 1})
  thread = _start(counter)
  counter.report(Stage.TRAIN, 'actor 0')
  counter.report(Stage.TRAIN, 'actor 0')
  thread.join(0.4)
  assert counter.stage() == Stage.TRAIN
  counter.report(Stage.TRAIN, 'actor 1')
  _wait_for(counter, Stage.SETTLE)
  assert not program.is_set()
  counter.report(Stage.SETTLE, 'learner 0')
  # Nobody evaluates.
  _wait_for(counter, Stage.SAVE)
  assert not program.is_set()
  counter.report(Stage.SAVE, 'learner 0')
  thread.join(20)
  assert not thread.is_alive()
  assert program.is_set()


def test_a_program_that_is_stopped_from_outside_keeps_its_counter_until_the_learner_has_saved(program):
  counter = ProgramCounter({Stage.TRAIN: 1})
  thread = _start(counter)
  program.set()
  thread.join(0.5)
  assert thread.is_alive()
  counter.report(Stage.SAVE, 'learner 0')
  thread.join(20)
  assert not thread.is_alive()


def test_a_learner_that_never_saves_keeps_the_counter_for_a_while_only(program, monkeypatch):
  monkeypatch.setattr(counter_lib, '_GRACE_SECONDS', 0.1)
  thread = _start(ProgramCounter({Stage.TRAIN: 1}))
  program.set()
  thread.join(20)
  assert not thread.is_alive()


class _Saved:
  def __init__(self, state):
    self._state = state

  def save(self):
    return self._state


def test_counting_goes_on_from_the_newest_checkpoint(tmp_path):
  assert ProgramCounter({}, str(tmp_path)).counts_at_start() == {}
  first = ProgramCounter({})
  first.increment(actor_steps=300, actor_episodes=3)
  checkpointing.Checkpointer({'learner': _Saved(1.0), 'counter': first}, tmp_path).save(force=True)
  second = ProgramCounter({}, str(tmp_path))
  second.increment(actor_steps=20)
  assert second.get_counts() == {'actor_steps': 320, 'actor_episodes': 3}
  assert second.counts_at_start() == {'actor_steps': 300, 'actor_episodes': 3}


def test_no_two_calls_see_the_same_count():
  counter = ProgramCounter({})
  seen = []
  start = threading.Barrier(4)

  def count():
    start.wait()
    for _ in range(2000):
      seen.append(counter.increment(actor_steps=1)['actor_steps'])

  threads = [threading.Thread(target=count) for _ in range(4)]
  for thread in threads:
    thread.start()
  for thread in threads:
    thread.join()
  assert sorted(seen) == list(range(1, 8001))


def test_what_is_saved_does_not_change_afterwards():
  counter = ProgramCounter({})
  counter.increment(actor_steps=1)
  state = counter.save()
  counter.increment(actor_steps=1)
  assert state == {'counts': {'actor_steps': 1}, 'cache': {}}
