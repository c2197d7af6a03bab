from __future__ import annotations

import contextlib
import threading
import time

import numpy as np
import pytest

pytest.importorskip('acme')

from agents.acme.distributed import replay as replay_lib
from agents.acme.distributed.counter import Stage

import reverb  # isort: skip
from launchpad import address as lp_address  # isort: skip


class _Counter:
  """Stands for the program's counter, its handle and its courier client; answers at once."""

  def __init__(self):
    self.now = Stage.TRAIN
    self.futures = self
    self.reports = []

  def dereference(self):
    return self

  def stage(self):
    return _Answer(int(self.now))

  def report(self, stage, name):
    self.reports.append((stage, name))
    return _Answer(None)

  def get_counts(self):
    return _Answer({'actor_steps': 7, 'learner_steps': 3})


class _Answer:
  def __init__(self, value):
    self._value = value

  def result(self, timeout=None):
    return self._value


class _Log:
  def __init__(self):
    self.rows = []

  def write(self, data):
    self.rows.append(data)


def _make_tables():
  limiter = reverb.rate_limiters.SampleToInsertRatio(2.0, 3, 4.0)
  return [reverb.Table('replay', reverb.selectors.Uniform(), reverb.selectors.Fifo(), 100, limiter)]


@contextlib.contextmanager
def _running(monkeypatch, *arguments, **options):
  """Runs a node in a thread; yields a client of its server."""
  stop = threading.Event()
  monkeypatch.setattr(replay_lib.lp, 'stop_event', lambda: stop)
  node = replay_lib.ReplayNode(_make_tables, *arguments, **options)
  node.reverb_address.bind(lp_address.SimpleLocalAddressBuilder())
  thread = threading.Thread(target=node.run, daemon=True)
  thread.start()
  client = reverb.Client(node.reverb_address.resolve())
  replay_lib.wait_for_server(client)
  yield client
  stop.set()
  thread.join(20)
  assert not thread.is_alive()


def _insert(client, number):
  with client.trajectory_writer(1) as writer:
    for i in range(number):
      writer.append(np.full(2, i))
      writer.create_item('replay', 1.0, writer.history[-1:])
    writer.flush()


def _wait_until(condition):
  deadline = time.monotonic() + 20.0
  while not condition():
    assert time.monotonic() < deadline
    time.sleep(0.05)


def test_a_replay_that_stands_still_says_so_while_the_actors_act(monkeypatch):
  counter, log = _Counter(), _Log()
  with _running(monkeypatch, counter, lambda: log, stall_seconds=0.3) as client:
    _wait_until(lambda: any('warning' in row for row in log.rows))
    assert 'still below the size' in next(row['warning'] for row in log.rows if 'warning' in row)
    _insert(client, 4)
    _wait_until(lambda: log.rows[-1]['inserts'] == 4)
    first = len(log.rows)
    _wait_until(lambda: any('warning' in row for row in log.rows[first:]))
    warning = [row['warning'] for row in log.rows if 'warning' in row][-1]
    assert 'nothing is inserted nor sampled' in warning
    assert 'samples_per_insert=2, min_size_to_sample=3' in warning
    counter.now = Stage.SETTLE
    before = len(log.rows)
    _wait_until(lambda: len(log.rows) >= before + 5)
    # The first look may have been under way.
    assert not any('warning' in row for row in log.rows[before + 1 :])
  assert log.rows[-1] == {
    'actor_steps': 7,
    'items': 4.0,
    'inserts': 4.0,
    'samples': 0.0,
    'samples_per_insert': 0.0,
  }
  assert not counter.reports


def test_what_a_replay_holds_survives_in_its_checkpoint(monkeypatch, tmp_path):
  counter = _Counter()
  arguments = (counter, _Log, str(tmp_path), 10.0)
  with _running(monkeypatch, *arguments) as client:
    _insert(client, 4)
  assert counter.reports == [(Stage.SAVE, 'replay')]
  with _running(monkeypatch, *arguments) as client:
    assert client.server_info()['replay'].current_size == 4
    (sample,) = next(iter(client.sample('replay', 1)))
    assert sample.data[0].tolist() in [[i, i] for i in range(4)]


def test_the_last_checkpoint_is_made_once_before_the_program_stops(monkeypatch, tmp_path):
  counter = _Counter()
  with _running(monkeypatch, counter, _Log, str(tmp_path), 10.0) as client:
    _insert(client, 4)
    counter.now = Stage.SAVE
    _wait_until(lambda: counter.reports)
    (done,) = tmp_path.glob('*/DONE')
  assert counter.reports == [(Stage.SAVE, 'replay')]
  assert list(tmp_path.glob('*/DONE')) == [done]


def test_checkpoints_are_made_now_and_then(monkeypatch, tmp_path):
  monkeypatch.setattr(replay_lib, '_LOOK_SECONDS', 0.1)
  with _running(monkeypatch, _Counter(), _Log, str(tmp_path), 0.01) as client:
    _insert(client, 4)
    _wait_until(lambda: any(tmp_path.glob('*/DONE')))


def test_without_a_directory_nothing_is_written(monkeypatch, tmp_path):
  monkeypatch.chdir(tmp_path)
  with _running(monkeypatch, _Counter(), _Log) as client:
    _insert(client, 1)
  assert not list(tmp_path.iterdir())
