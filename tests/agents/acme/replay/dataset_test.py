from __future__ import annotations

import subprocess
import sys
import textwrap
import threading
import time

import numpy as np
import pytest

reverb = pytest.importorskip('reverb')

import dm_env  # noqa: E402
from acme import specs, types  # noqa: E402

from agents.acme import replay  # noqa: E402
from agents.acme.replay import dataset as dataset_lib  # noqa: E402


def _fill(client, count, observation=lambda i: np.full(2, i, np.float32)):
  adder = replay.TransitionAdder(client, 'replay', n_step=1, discount=1.0)
  adder.add_first(dm_env.restart(observation(0)))
  for i in range(count):
    adder.add(np.array([i / 100]), dm_env.transition(i, observation(i + 1)))
  adder.reset()


def _table(spec, *, min_size=1, **kwargs):
  return replay.make_table('replay', spec, max_size=1000, min_size=min_size, batch_size=4, **kwargs)


def _iterator(client, **kwargs):
  return replay.make_dataset_iterator(client, 'replay', **({'batch_size': 4} | kwargs))


def _samples(client):
  return client.server_info()['replay'].rate_limiter_info.sample_stats.completed


def test_values_and_dtypes_of_nested_observations(serve):
  spec = specs.EnvironmentSpec(
    observations={'position': specs.Array((2,), np.float32), 'pixels': specs.Array((4, 3, 1), np.uint8)},
    actions=specs.Array((1,), np.float32),
    rewards=specs.Array((), np.float32),
    discounts=specs.Array((), np.float32),
  )

  def observation(i):
    pixels = np.arange(12).reshape(4, 3, 1) + i
    return {'position': np.full(2, i / 3, np.float32), 'pixels': pixels.astype(np.uint8)}

  client = serve(_table(spec))
  _fill(client, 50, observation)
  sample = next(_iterator(client, batch_size=32))
  assert isinstance(sample, reverb.ReplaySample)
  assert isinstance(sample.data, types.Transition)
  assert sample.info.key.shape == sample.info.probability.shape == (32,)
  np.testing.assert_allclose(sample.info.probability, 1 / 50)
  data = sample.data
  assert data.reward.shape == data.discount.shape == (32,)
  assert data.reward.dtype == data.discount.dtype == data.action.dtype == np.float32
  assert data.extras == ()
  for row, index in enumerate(data.reward.astype(int)):
    for got, want in ((data.observation, index), (data.next_observation, index + 1)):
      want = observation(want)
      for key, value in want.items():
        assert got[key].dtype == value.dtype
        np.testing.assert_array_equal(got[key][row], value)
    np.testing.assert_array_equal(data.action[row], np.float32([index / 100]))


def test_samples_are_uniform(environment_spec, serve):
  client = serve(_table(environment_spec))
  _fill(client, 10)
  iterator = _iterator(client, batch_size=1000)
  draws = np.concatenate([next(iterator).data.reward for _ in range(10)]).astype(int)
  counts = np.bincount(draws, minlength=10)
  # Chi-squared with 9 degrees of freedom: above 33.7 in one run of 10,000.
  assert np.sum((counts - 1000) ** 2 / 1000) < 33.7
  # Neighbours are independent: repeats make up a tenth, with a standard deviation of 0.003.
  assert abs(np.mean(draws[1:] == draws[:-1]) - 0.1) < 0.015


@pytest.mark.parametrize('prefetch_size', [0, 1, 2])
def test_reading_ahead_is_bounded(environment_spec, serve, prefetch_size):
  client = serve(_table(environment_spec))
  _fill(client, 10)
  iterator = _iterator(client, batch_size=64, prefetch_size=prefetch_size)
  for batches in (1, 2, 3):
    next(iterator)
    time.sleep(0.2)
    assert 0 <= _samples(client) - 64 * batches <= 64 * prefetch_size + 64


def test_every_sample_that_the_limiter_allows_arrives(environment_spec, serve):
  # From 10 items on, each insert allows 2 samples, and the first 10 allow 8: 28 in all for 20 items.
  client = serve(_table(environment_spec, min_size=10, samples_per_insert=2.0, error_buffer=8))
  iterator = _iterator(client)
  batches = []
  thread = threading.Thread(target=lambda: batches.extend(iterator))
  thread.start()
  _fill(client, 20)
  deadline = time.monotonic() + 10
  while len(batches) < 7 and time.monotonic() < deadline:
    time.sleep(0.01)
  time.sleep(0.2)
  assert _samples(client) == 28
  assert len(batches) == 7
  iterator.close()
  thread.join(10)
  assert not thread.is_alive()


def test_close_ends_a_next_that_waits_and_all_later_ones(environment_spec, serve):
  iterator = _iterator(serve(_table(environment_spec)))
  ended = []
  thread = threading.Thread(target=lambda: ended.append(list(iterator)))
  thread.start()
  time.sleep(0.2)
  iterator.close()
  thread.join(10)
  assert ended == [[]]
  with pytest.raises(StopIteration):
    next(iterator)


def test_close_ends_the_iteration_where_batches_are_ready(environment_spec, serve):
  client = serve(_table(environment_spec))
  _fill(client, 10)
  iterator = _iterator(client)
  next(iterator)
  iterator.close()
  assert list(iterator) == []
  assert 'replay-server-watch' not in {thread.name for thread in threading.enumerate()}


def test_next_raises_when_the_server_stops(environment_spec, serve, monkeypatch):
  monkeypatch.setattr(dataset_lib, '_SERVER_CHECK_S', 0.1)
  monkeypatch.setattr('agents.acme.replay.server._MAX_CALLS', 2)
  client = serve(_table(environment_spec))
  iterator = _iterator(client)
  threading.Timer(0.3, client.server.stop).start()
  with pytest.raises(ConnectionError, match=client.server_address):
    next(iterator)


@pytest.mark.slow
@pytest.mark.slow
@pytest.mark.parametrize('server_stops_first', [True, False])
def test_an_iterator_that_waits_does_not_keep_the_interpreter(server_stops_first):
  code = f"""
    import threading, time
    import numpy as np, reverb
    from acme import specs
    from agents.acme import replay
    array = lambda *shape: specs.Array(shape, np.float32)
    spec = specs.EnvironmentSpec(array(2), array(1), array(), array())
    table = replay.make_table('replay', spec, max_size=9, min_size=1, batch_size=1)
    server = reverb.Server([table])
    client = reverb.Client(f'localhost:{{server.port}}')
    iterator = replay.make_dataset_iterator(client, 'replay', batch_size=4)
    threading.Thread(target=lambda: list(iterator), daemon=True).start()
    time.sleep(0.5)
    if {server_stops_first}: server.stop()
    print('end of the script', flush=True)
  """
  result = subprocess.run(
    [sys.executable, '-c', textwrap.dedent(code)], capture_output=True, text=True, timeout=120, check=False
  )
  assert result.returncode == 0, result.stderr
  assert 'end of the script' in result.stdout
