from __future__ import annotations

import struct

import pytest
from tensorboardX.proto import event_pb2

from agents.records import metrics
from agents.records.recorder import Recorder


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


def test_metrics_go_to_the_table_and_to_tensorboard(tmp_path):
  recorder = Recorder(tmp_path)
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


def test_a_resumed_run_continues_its_files(tmp_path):
  first = Recorder(tmp_path)
  first.record_evaluation(0, [-9.0], [200])
  first.record_evaluation(1000, [-5.0], [200])
  # After its last checkpoint, at 1000 steps.
  first.record('train', 1200, {'episode_return': -4.0})
  first.record_evaluation(2000, [-3.0], [200])
  first.close()

  second = Recorder(tmp_path)
  evaluation = second.record_evaluation(1000, [-6.0], [200])
  second.close()
  assert [(e.step, e.return_mean) for e in second.evaluations] == [(0, -9.0), (1000, -6.0)]
  assert second.evaluations[1] is evaluation
  rows = metrics.read(tmp_path / metrics.FILE_NAME)
  assert [row.step for row in rows] == 6 * [0] + 6 * [1000]
  times = [row.wall_time for row in rows]
  assert times == sorted(times)
