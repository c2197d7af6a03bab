from __future__ import annotations

import threading

import numpy as np
import pytest

pytest.importorskip('courier')

from agents.acme.distributed import remote_logging, supervision
from agents.command.reporting import Report
from agents.command.settings import Settings
from agents.records import metrics

_SETTINGS = Settings(
  agent='sac',
  env='gymnasium:Pendulum-v1',
  seed=0,
  steps=1000,
  eval_every=1000,
  num_eval_episodes=1,
  checkpoint_minutes=5.0,
  config={},
  networks={},
)


def _episode(step, episode_return):
  return {
    'actor_steps': step,
    'episode_return': np.float32(episode_return),
    'episode_length': 200,
    'steps_per_second': 50.0,
  }


@pytest.fixture
def report(tmp_path):
  report = Report(_SETTINGS, tmp_path)
  yield report
  report.close()


@pytest.fixture
def make_logger(report, monkeypatch):
  monkeypatch.setattr(supervision, 'stop_event', threading.Event)
  with remote_logging.Receiver(report.make_logger) as receiver:
    yield lambda label, period=0: remote_logging.RemoteLogger(receiver.address, label, period)


def test_metrics_of_other_processes_are_written_as_if_they_were_measured_here(report, make_logger, tmp_path):
  make_logger('actor').write(_episode(200, -3.0))
  make_logger('evaluator').write(_episode(0, -9.0))
  learner = make_logger('learner', period=100)
  for step, loss in ((0, 1.0), (99, 2.0), (250, 3.0), (300, 4.0), (350, 5.0)):
    learner.write(
      {'loss': np.float32(loss), 'td_error': np.zeros(3), 'learner_steps': step, 'actor_steps': step}
    )
  report.close()
  rows = metrics.read(tmp_path / metrics.FILE_NAME)
  assert [(row.step, row.value) for row in rows if row.metric == 'episode_return'] == [(200, -3.0)]
  assert [(e.step, e.return_mean) for e in report.evaluations] == [(0, -9.0)]
  assert [(row.step, row.value) for row in rows if row.metric == 'loss'] == [(0, 1.0), (250, 3.0), (350, 5.0)]
  assert not [row for row in rows if row.metric == 'td_error']
  assert (tmp_path / 'learning_curve.png').exists()


def test_replay_is_recorded_and_its_warnings_are_shown(report, make_logger, tmp_path, capsys):
  replay = make_logger('replay', period=100)
  replay.write({'items': 10, 'samples_per_insert': 3.5, 'actor_steps': 10})
  replay.write({'items': 20, 'actor_steps': 20})
  replay.write({'items': 30, 'actor_steps': 30, 'warning': 'nothing moves'})
  report.close()
  assert 'Warning: nothing moves' in capsys.readouterr().out
  rows = metrics.read(tmp_path / metrics.FILE_NAME)
  assert [(row.step, row.metric, row.value) for row in rows if row.label == 'replay'] == [
    (10, 'items', 10.0),
    (10, 'samples_per_insert', 3.5),
    (30, 'items', 30.0),
  ]


def test_progress_never_goes_back(report, make_logger):
  logger = make_logger('actor')
  for step, expected in ((200, 200), (600, 600), (400, 600), (1200, 1200)):
    logger.write(_episode(step, 0.0))
    assert report.progress.step == expected


def test_a_resumed_run_drops_later_rows_before_anything_is_measured(tmp_path):
  first = Report(_SETTINGS, tmp_path)
  for step in (200, 400, 600):
    first.make_logger('actor').write(_episode(step, -1.0))
  first.close()
  second = Report(_SETTINGS, tmp_path)
  second.resume_at(400)
  second.make_logger('actor').write(_episode(800, -2.0))
  second.close()
  rows = metrics.read(tmp_path / metrics.FILE_NAME)
  assert [row.step for row in rows if row.metric == 'episode_return'] == [200, 400, 800]
