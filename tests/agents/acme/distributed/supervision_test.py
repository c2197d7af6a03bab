from __future__ import annotations

import concurrent.futures
import threading
import time

import pytest

pytest.importorskip('launchpad')

from agents.acme.distributed import supervision


class _Client:
  """Stands for a courier client whose answers come when the test says so."""

  def __init__(self):
    self.futures = self
    self.answers = []

  def add(self, *args):
    self.answers.append((args, concurrent.futures.Future()))
    return self.answers[-1][1]


@pytest.fixture
def stop(monkeypatch):
  """The event that Launchpad sets when the program stops."""
  event = threading.Event()
  monkeypatch.setattr(supervision.lp, 'stop_event', lambda: event)
  # Here it would concern the process of all tests.
  monkeypatch.setattr('agents.signals.ignore_termination', lambda: None)
  return event


def test_a_call_returns_what_the_node_answers_or_raises(stop):
  client = _Client()
  results = []

  def call():
    remote = supervision.Remote(client, stop)
    results.append(remote.add(1, 2))
    try:
      remote.add(3)
    except ArithmeticError as error:
      results.append(error)

  thread = threading.Thread(target=call)
  thread.start()
  for answer in (lambda future: future.set_result(3), lambda future: future.set_exception(ArithmeticError())):
    while not client.answers or client.answers[-1][1].done():
      time.sleep(0.01)
    # Longer than a look at whether the program stops.
    time.sleep(0.15)
    answer(client.answers[-1][1])
  thread.join(10)
  assert [arguments for arguments, _ in client.answers] == [(1, 2), (3,)]
  assert results[0] == 3
  assert isinstance(results[1], ArithmeticError)


def test_a_call_without_an_answer_ends_when_the_program_stops(stop):
  client = _Client()
  threading.Timer(0.2, stop.set).start()
  with pytest.raises(supervision.Stopped):
    supervision.Remote(client, stop).add(1)
  assert client.answers[0][1].cancelled()


def test_an_answer_within_the_grace_still_arrives(stop):
  client = _Client()
  stop.set()
  threading.Timer(0.4, lambda: client.answers[0][1].set_result('late')).start()
  assert supervision.Remote(client, stop, grace=30.0).add() == 'late'


def test_variables_stay_as_they_are_when_the_program_stops():
  class Source:
    def get_variables(self, names):
      if not self.running:
        raise supervision.Stopped
      return [name.upper() for name in names]

  source = Source()
  source.running = False
  variables = supervision.RemoteVariables(source)
  with pytest.raises(supervision.Stopped):
    variables.get_variables(['policy'])
  source.running = True
  assert variables.get_variables(['policy']) == ['POLICY']
  source.running = False
  assert variables.get_variables(['policy']) == ['POLICY']


def test_work_that_fails_makes_its_node_fail(stop):
  def work():
    raise ArithmeticError('the simulator diverged')

  with pytest.raises(ArithmeticError, match='the simulator diverged'):
    supervision.run(work)


def test_work_that_fails_because_the_program_stops_does_not(stop):
  def work():
    threading.Timer(0.2, stop.set).start()
    raise ConnectionError('replay is gone')

  supervision.run(work)


def test_work_is_woken_when_the_program_stops(stop):
  woken = threading.Event()
  events = []

  def work():
    events.append(supervision.stop_event())
    assert woken.wait(20)
    raise supervision.Stopped

  threading.Timer(0.2, stop.set).start()
  supervision.run(work, interrupt=woken.set)
  assert events == [stop]


def test_an_actor_is_stopped_before_its_next_step(stop):
  class Actor:
    observe_first = observe = update = None

    def select_action(self, observation):
      return observation + 1

  actor = supervision.StoppableActor(Actor(), lambda: supervision.check(stop))
  assert actor.select_action(1) == 2
  stop.set()
  with pytest.raises(supervision.Stopped):
    actor.select_action(1)
