from __future__ import annotations

import threading
import time

import numpy as np
import pytest

reverb = pytest.importorskip('reverb')

import dm_env  # noqa: E402
from acme import specs  # noqa: E402

from agents.acme import replay  # noqa: E402
from agents.acme.replay import adder as adder_lib  # noqa: E402
from agents.acme.replay.server import table_layout  # noqa: E402


def _observation(value):
  return np.array([value, -value], np.float32)


def _run(adder, rewards, *, end, start=0.0):
  """Adds an episode that observes start, start + 1, ... and does start / 10, (start + 1) / 10, ..."""
  adder.add_first(dm_env.restart(_observation(start)))
  for i, reward in enumerate(rewards):
    step = {'terminated': dm_env.termination, 'truncated': dm_env.truncation}[end]
    step = step if i == len(rewards) - 1 else dm_env.transition
    adder.add(np.array([(start + i) / 10]), step(reward, _observation(start + i + 1)))


def _items(client, count):
  """Reads `count` items of a queue as one batch, and asserts that there are no more."""
  layout = table_layout(client, 'replay')
  assert client.server_info()['replay'].current_size == count
  rows = [sample.data[0] for sample in client.sample('replay', count, emit_timesteps=False)]
  return layout.read(np.stack(rows))


@pytest.mark.parametrize(
  ('rewards', 'end', 'reward', 'discount'),
  [
    # CASES: reward 1 + .9 * 2 + .81 * 3, and the same cut after two steps.
    ([1, 2, 3, 0, 0], 'terminated', 5.23, 0.729),
    ([1, 2], 'truncated', 2.8, 0.81),
    ([1, 2], 'terminated', 2.8, 0.0),
  ],
)
def test_n_step_sums_and_discounts(queue, rewards, end, reward, discount):
  client = queue()
  _run(replay.TransitionAdder(client, 'replay', n_step=3, discount=0.9), rewards, end=end)
  items = _items(client, len(rewards))
  np.testing.assert_allclose(items.reward[0], reward, rtol=1e-7)
  np.testing.assert_allclose(items.discount[0], discount, rtol=1e-7)


@pytest.mark.parametrize('n_step', [1, 2, 3, 7])
@pytest.mark.parametrize('end', ['terminated', 'truncated'])
def test_one_window_per_step_none_across_episodes(queue, n_step, end):
  client = queue()
  adder = replay.TransitionAdder(client, 'replay', n_step=n_step, discount=0.5)
  _run(adder, [1.0, 10.0, 100.0, 1000.0], end=end)
  _run(adder, [7.0], end='truncated', start=50.0)
  items = _items(client, 5)
  rewards = [1.0, 10.0, 100.0, 1000.0]
  for start in range(4):
    window = rewards[start : start + n_step]
    ends_episode = start + len(window) == 4
    assert items.reward[start] == sum(0.5**k * r for k, r in enumerate(window))
    assert items.discount[start] == (0.0 if ends_episode and end == 'terminated' else 0.5 ** len(window))
    np.testing.assert_array_equal(items.observation[start], _observation(start))
    np.testing.assert_array_equal(items.next_observation[start], _observation(start + len(window)))
    np.testing.assert_array_equal(items.action[start], np.array([start / 10], np.float32))
  np.testing.assert_array_equal(items.observation[4], _observation(50.0))
  np.testing.assert_array_equal(items.next_observation[4], _observation(51.0))
  assert (items.reward[4], items.discount[4]) == (7.0, 0.5)


def test_environment_discounts_weigh_later_rewards(queue):
  client = queue()
  adder = replay.TransitionAdder(client, 'replay', n_step=3, discount=0.9)
  adder.add_first(dm_env.restart(_observation(0)))
  for reward, discount in ((1.0, 0.5), (2.0, 0.25), (3.0, 0.1)):
    adder.add(np.zeros(1), dm_env.transition(reward, _observation(0), discount))
  adder.reset()
  items = _items(client, 1)
  expected = 1 + 0.9 * 0.5 * 2 + 0.81 * 0.5 * 0.25 * 3
  np.testing.assert_allclose(items.reward, [expected], rtol=1e-7)
  np.testing.assert_allclose(items.discount, [0.729 * 0.5 * 0.25 * 0.1], rtol=1e-7)


def test_sums_are_made_in_float64(queue):
  # In float32 the ones would vanish beside 2^25.
  client = queue()
  rewards = [2.0**25] + [1.0] * 64 + [-(2.0**25)]
  adder = replay.TransitionAdder(client, 'replay', n_step=len(rewards), discount=1.0)
  _run(adder, [np.float32(reward) for reward in rewards], end='terminated')
  assert _items(client, len(rewards)).reward[0] == 64.0


def test_environment_may_reuse_its_arrays(queue):
  client = queue()
  adder = replay.TransitionAdder(client, 'replay', n_step=2, discount=1.0)
  observation, action = _observation(1), np.array([0.5])
  adder.add_first(dm_env.restart(observation))
  for value in (2, 3):
    observation[:] = _observation(value)
    adder.add(action, dm_env.transition(0.0, observation))
    action[:] = -1
  adder.reset()
  items = _items(client, 1)
  np.testing.assert_array_equal(items.observation, [_observation(1)])
  np.testing.assert_array_equal(items.next_observation, [_observation(3)])
  np.testing.assert_array_equal(items.action, [[0.5]])


def test_items_arrive_during_an_episode(queue):
  client = queue()
  adder = replay.TransitionAdder(client, 'replay', n_step=1, discount=1.0)
  adder.add_first(dm_env.restart(_observation(0)))
  for _ in range(20):
    adder.add(np.zeros(1), dm_env.transition(0.0, _observation(0)))
  deadline = time.monotonic() + 10
  while (size := client.server_info()['replay'].current_size) < 20 and time.monotonic() < deadline:
    time.sleep(0.01)
  assert size == 20


def test_an_episode_broken_off_leaves_nothing_behind(queue):
  client = queue()
  adder = replay.TransitionAdder(client, 'replay', n_step=3, discount=1.0)
  adder.add_first(dm_env.restart(_observation(0)))
  adder.add(np.zeros(1), dm_env.transition(5.0, _observation(1)))
  _run(adder, [1.0, 1.0], end='terminated')
  np.testing.assert_array_equal(_items(client, 2).reward, [2.0, 1.0])


def test_extras_are_those_of_the_first_step(queue):
  client = queue(extras_spec={'log_prob': specs.Array((), np.float32)})
  adder = replay.TransitionAdder(client, 'replay', n_step=2, discount=1.0)
  adder.add_first(dm_env.restart(_observation(0)))
  adder.add(np.zeros(1), dm_env.transition(0.0, _observation(1)), {'log_prob': np.float32(-1)})
  adder.add(np.zeros(1), dm_env.truncation(0.0, _observation(2)), {'log_prob': np.float32(-2)})
  np.testing.assert_array_equal(_items(client, 2).extras['log_prob'], [-1, -2])


def test_misuse_is_refused(queue):
  client = queue()
  with pytest.raises(ValueError, match='n_step must be at least 1, got 0'):
    replay.TransitionAdder(client, 'replay', n_step=0, discount=0.9)
  with pytest.raises(ValueError, match=r'discount must be in \[0, 1\], got 1.5'):
    replay.TransitionAdder(client, 'replay', n_step=1, discount=1.5)
  adder = replay.TransitionAdder(client, 'replay', n_step=1, discount=0.9)
  step = dm_env.transition(0.0, _observation(0))
  with pytest.raises(ValueError, match='add_first must be called before add'):
    adder.add(np.zeros(1), step)
  with pytest.raises(ValueError, match='first timestep'):
    adder.add_first(step)
  adder.add_first(dm_env.restart(_observation(0)))
  with pytest.raises(ValueError, match='first timestep of another'):
    adder.add(np.zeros(1), dm_env.restart(_observation(0)))
  with pytest.raises(ValueError, match='reward of a step must be one scalar'):
    adder.add(np.zeros(1), dm_env.transition(np.zeros(2), _observation(0)))
  with pytest.raises(ValueError, match='extras must have the structure'):
    adder.add(np.zeros(1), step, {'log_prob': 0.0})
  with pytest.raises(ValueError, match=r'action must have shape \(1,\)'):
    adder.add(np.zeros(2), step)


@pytest.fixture
def blocked(environment_spec, serve):
  """A client, and a thread whose `add` waits for room in the table, with the errors that ended it."""
  table = replay.make_table(
    'replay',
    environment_spec,
    max_size=100,
    min_size=1,
    batch_size=1,
    samples_per_insert=1.0,
    error_buffer=2.0,
  )
  client = serve(table)
  adder = replay.TransitionAdder(client, 'replay', n_step=1, discount=1.0)
  errors = []

  def act():
    try:
      while True:
        _run(adder, [0.0] * 10, end='truncated')
    except (RuntimeError, ConnectionError) as error:
      errors.append(error)

  thread = threading.Thread(target=act, daemon=True)
  thread.start()
  while table.can_insert(1):
    time.sleep(0.01)
  return client, adder, thread, errors


def test_close_releases_an_add_that_waits_for_room(blocked):
  _, adder, thread, errors = blocked
  adder.close()
  thread.join(10)
  assert [type(error) for error in errors] == [RuntimeError]


def test_add_raises_when_the_server_stops(blocked, monkeypatch):
  client, _, thread, errors = blocked
  monkeypatch.setattr(adder_lib, '_SERVER_CHECK_S', 1)
  monkeypatch.setattr('agents.acme.replay.server._MAX_CALLS', 2)
  client.server.stop()
  thread.join(20)
  assert [type(error) for error in errors] == [ConnectionError]
