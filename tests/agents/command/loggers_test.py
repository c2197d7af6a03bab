from __future__ import annotations

import struct

import numpy as np
import pytest
from tensorboardX.proto import event_pb2

from agents.command import loggers, metrics


def _events(directory):
  """Reads (step, tag, value) of all event files in the order of their making, by the format of TFRecord."""
  for path in sorted(directory.glob('events.out.tfevents.*'), key=lambda path: path.stat().st_ctime_ns):
    content = path.read_bytes()
    while content:
      (length,) = struct.unpack('<Q', content[:8])
      event = event_pb2.Event.FromString(content[12 : 12 + length])
      content = content[16 + length :]
      for value in event.summary.value:
        yield event.step, value.tag, value.simple_value


def _episode(step, episode_return, length=200):
  return {
    'actor_steps': step,
    'episode_return': np.float32(episode_return),
    'episode_length': length,
    'steps_per_second': 50.0,
  }


def test_metrics_go_to_the_table_and_to_tensorboard(tmp_path):
  recorder = loggers.Recorder(tmp_path)
  recorder.record('train', 200, {'episode_return': -2.5})
  wall_time = recorder.record('learner', 300, {'alpha': 0.25})
  recorder.close()
  rows = metrics.read(tmp_path / metrics.FILE_NAME)
  assert [(row.step, row.label, row.metric, row.value) for row in rows] == [
    (200, 'train', 'episode_return', -2.5),
    (300, 'learner', 'alpha', 0.25),
  ]
  assert rows[1].wall_time == pytest.approx(wall_time, abs=1e-3)
  assert list(_events(tmp_path)) == [(200, 'train/episode_return', -2.5), (300, 'learner/alpha', 0.25)]


def test_training_episodes_are_recorded_and_reported(tmp_path):
  recorder = loggers.Recorder(tmp_path)
  seen = []
  loggers.EpisodeLogger(recorder, seen.append).write(_episode(400, -3.5, 200))
  recorder.close()
  assert seen == [loggers.Episode(400, -3.5, 200)]
  values = {row.metric: row.value for row in metrics.read(tmp_path / metrics.FILE_NAME)}
  assert values == {'episode_return': -3.5, 'episode_length': 200.0, 'steps_per_second': 50.0}


def test_an_evaluation_is_made_of_its_episodes(tmp_path):
  recorder = loggers.Recorder(tmp_path)
  seen = []
  logger = loggers.EvaluationLogger(recorder, 3, seen.append)
  first = _episode(0, -1.0, 10)
  # Nothing is counted yet in the first evaluation.
  del first['actor_steps']
  for episode in (first, _episode(0, -2.0, 20), _episode(0, -6.0, 30)):
    assert not seen
    logger.write(episode)
  for value in (0.0, 3.0, 3.0):
    logger.write(_episode(500, value, 10))
  recorder.close()
  assert [evaluation._replace(wall_time=0.0) for evaluation in seen] == [
    # mean (-1 - 2 - 6) / 3, variance (4 + 1 + 9) / 3
    metrics.Evaluation(0, 0.0, -3.0, pytest.approx((14 / 3) ** 0.5), -6.0, -1.0, 20.0, 3),
    metrics.Evaluation(500, 0.0, 2.0, pytest.approx(2**0.5), 0.0, 3.0, 10.0, 3),
  ]
  assert recorder.evaluations == seen
  read = metrics.evaluations(metrics.read(tmp_path / metrics.FILE_NAME))
  assert [e[2:] for e in read] == [e[2:] for e in seen]


def test_the_learner_is_recorded_every_so_many_environment_steps(tmp_path):
  recorder = loggers.Recorder(tmp_path)
  steps = iter([0, 50, 99, 100, 230, 300])
  logger = loggers.LearnerLogger(recorder, 100, lambda: next(steps))
  for i in range(6):
    data = {'loss': np.float32(i), 'td_error': np.zeros(3), 'learner_steps': 10 * i, 'actor_episodes': 1}
    logger.write({**data, 'learner_walltime': 1.0})
  recorder.close()
  rows = metrics.read(tmp_path / metrics.FILE_NAME)
  assert [(row.step, row.metric, row.value) for row in rows] == [
    (0, 'loss', 0.0),
    (0, 'steps', 0.0),
    (100, 'loss', 3.0),
    (100, 'steps', 30.0),
    (230, 'loss', 4.0),
    (230, 'steps', 40.0),
  ]


def test_a_resumed_run_continues_its_files(tmp_path):
  first = loggers.Recorder(tmp_path)
  loggers.EvaluationLogger(first, 1, lambda _: None).write(_episode(0, -9.0))
  loggers.EvaluationLogger(first, 1, lambda _: None).write(_episode(1000, -5.0))
  # After its last checkpoint, at 1000 steps.
  first.record('train', 1200, {'episode_return': -4.0})
  loggers.EvaluationLogger(first, 1, lambda _: None).write(_episode(2000, -3.0))
  first.close()

  second = loggers.Recorder(tmp_path)
  seen = []
  loggers.EvaluationLogger(second, 1, seen.append).write(_episode(1000, -6.0))
  second.close()
  assert [(e.step, e.return_mean) for e in second.evaluations] == [(0, -9.0), (1000, -6.0)]
  assert second.evaluations[1] is seen[0]
  rows = metrics.read(tmp_path / metrics.FILE_NAME)
  assert [row.step for row in rows] == 6 * [0] + 6 * [1000]
  times = [row.wall_time for row in rows]
  assert times == sorted(times)
