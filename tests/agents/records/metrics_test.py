from __future__ import annotations

import pytest

from agents.records import metrics
from agents.records.metrics import Evaluation, Row

_EVALUATION = {
  'return_mean': -150.0,
  'return_std': 50.0,
  'return_min': -200.0,
  'return_max': -100.0,
  'length_mean': 200.0,
  'episodes': 2,
}


@pytest.fixture
def path(tmp_path):
  return tmp_path / metrics.FILE_NAME


def _write(path, *records):
  file = metrics.MetricsFile(path)
  for record in records:
    file.write(*record)
  file.close()


def test_rows_come_back_in_the_order_of_writing(path):
  _write(path, (0, 0.5, 'train', {'episode_return': -1.5, 'episode_length': 200}))
  _write(path, (100, 2.0, 'learner', {'alpha': 1 / 3, 'loss': float('inf')}))
  assert path.read_text().splitlines()[:2] == [
    'step,wall_time,label,metric,value',
    '0,0.5,train,episode_return,-1.5',
  ]
  assert metrics.read(path) == [
    Row(0, 0.5, 'train', 'episode_return', -1.5),
    Row(0, 0.5, 'train', 'episode_length', 200.0),
    Row(100, 2.0, 'learner', 'alpha', 1 / 3),
    Row(100, 2.0, 'learner', 'loss', float('inf')),
  ]


def test_records_reach_the_disk_before_the_file_is_closed(path):
  file = metrics.MetricsFile(path)
  file.write(1, 0.0, 'train', {'x': 1.0})
  assert len(metrics.read(path)) == 1
  file.close()


def test_a_missing_table_is_empty_and_a_row_cut_short_is_left_out(path):
  assert metrics.read(path) == []
  _write(path, (0, 0.0, 'train', {'x': 1.0}))
  with path.open('a') as file:
    file.write('10,1.0,train,x,2')
  assert [row.value for row in metrics.read(path)] == [1.0]


def test_another_file_is_refused(path):
  path.write_text('a,b\n1,2\n')
  with pytest.raises(ValueError, match='not a table of metrics'):
    metrics.read(path)


def test_evaluations_are_collected_and_incomplete_ones_left_out(path):
  _write(
    path,
    (0, 1.0, 'evaluation', _EVALUATION),
    (50, 2.0, 'train', {'episode_return': -1.0}),
    (100, 3.0, 'evaluation', {**_EVALUATION, 'return_mean': -120.0}),
    (200, 4.0, 'evaluation', {'return_mean': -110.0}),
  )
  assert metrics.evaluations(metrics.read(path)) == [
    Evaluation(0, 1.0, -150.0, 50.0, -200.0, -100.0, 200.0, 2.0),
    Evaluation(100, 3.0, -120.0, 50.0, -200.0, -100.0, 200.0, 2.0),
  ]


def test_rewinding_drops_what_will_be_lived_through_again(path):
  _write(
    path,
    (0, 1.0, 'evaluation', {'x': 1.0}),
    (100, 2.0, 'train', {'x': 2.0}),
    (100, 3.0, 'evaluation', {'x': 3.0}),
    (150, 4.0, 'learner', {'x': 4.0}),
    (200, 5.0, 'evaluation', {'x': 5.0}),
  )
  kept = metrics.rewind(path, 100)
  assert [row.value for row in kept] == [1.0, 2.0]
  assert metrics.read(path) == kept
  _write(path, (100, 3.5, 'evaluation', {'x': 6.0}))
  assert [row.value for row in metrics.read(path)] == [1.0, 2.0, 6.0]
  assert [child.name for child in path.parent.iterdir()] == [path.name]
