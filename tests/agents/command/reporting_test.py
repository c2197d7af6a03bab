from __future__ import annotations

import numpy as np
import pytest

from agents.command import reporting
from agents.records import metrics
from agents.records.recorder import Recorder


def _episode(step, episode_return, length=200):
  return {
    'actor_steps': step,
    'episode_return': np.float32(episode_return),
    'episode_length': length,
    'steps_per_second': 50.0,
  }


def test_training_episodes_are_recorded_and_reported(tmp_path):
  recorder = Recorder(tmp_path)
  seen = []
  reporting.EpisodeLogger(recorder, seen.append).write(_episode(400, -3.5, 200))
  recorder.close()
  assert seen == [reporting.Episode(400, -3.5, 200)]
  values = {row.metric: row.value for row in metrics.read(tmp_path / metrics.FILE_NAME)}
  assert values == {'episode_return': -3.5, 'episode_length': 200.0, 'steps_per_second': 50.0}


def test_an_evaluation_is_made_of_its_episodes(tmp_path):
  recorder = Recorder(tmp_path)
  seen = []
  logger = reporting.EvaluationLogger(recorder, 3, seen.append)
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
  recorder = Recorder(tmp_path)
  steps = iter([0, 50, 99, 100, 230, 300])
  logger = reporting.LearnerLogger(recorder, 100, lambda: next(steps))
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
