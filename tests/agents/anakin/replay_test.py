from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from agents.anakin import replay as replay_lib
from agents.anakin.replay import Rows
from tests.agents.anakin.programs import large_instructions


def _rows(first, length, num_envs=2, last=(), terminal=()):
  """Rows whose observation is 10 time + environment; `last` and `terminal` are of all environments."""
  time = np.arange(first, first + length)
  number = 10.0 * time[:, None] + np.arange(num_envs)
  ends = np.isin(time, last)[:, None] | np.zeros((1, num_envs), bool)
  return Rows(
    observation={'x': jnp.asarray(number, jnp.float32)},
    action=jnp.asarray(number[..., None], jnp.float32),
    reward=jnp.asarray(number / 100.0, jnp.float32),
    discount=jnp.asarray(~(np.isin(time, terminal)[:, None] | np.zeros((1, num_envs), bool)), jnp.float32),
    last=jnp.asarray(ends),
    next_observation={'x': jnp.asarray(number + 1000.0, jnp.float32)},
  )


def _fill(capacity, *chunks):
  replay = replay_lib.init(chunks[0], capacity)
  add = jax.jit(replay_lib.add)
  for chunk in chunks:
    replay = add(replay, chunk)
  return replay


def _times(batch):
  return np.unique(np.asarray(batch.obs_tm1['x']) // 10).astype(int).tolist()


def test_only_what_was_written_is_drawn():
  replay = _fill(12, _rows(1, 3))
  batch = replay_lib.sample(replay, jax.random.key(0), 1000)
  assert _times(batch) == [1, 2, 3]
  assert set(np.asarray(batch.obs_tm1['x']).tolist()) == {10.0, 11.0, 20.0, 21.0, 30.0, 31.0}


def test_a_full_ring_holds_the_newest_rows():
  replay = _fill(6, *[_rows(3 * i, 3) for i in range(5)])
  assert (int(replay.size), int(replay.head)) == (6, 3)
  assert _times(replay_lib.sample(replay, jax.random.key(0), 1000)) == [9, 10, 11, 12, 13, 14]


def test_draws_are_uniform_and_whole_rows():
  replay = _fill(6, *[_rows(3 * i, 3) for i in range(3)])
  batch = replay_lib.sample(replay, jax.random.key(0), 12_000, discount=0.5)
  number = np.asarray(batch.obs_tm1['x'])
  # 1,000 of each of the 12, with a standard deviation of 30.
  _, counts = np.unique(number, return_counts=True)
  np.testing.assert_allclose(counts, np.full(12, 1000), atol=150)
  np.testing.assert_array_equal(batch.a_tm1[:, 0], number)
  np.testing.assert_allclose(batch.r_t, number / 100.0, rtol=1e-6)
  np.testing.assert_array_equal(batch.obs_t['x'], number + 1000.0)
  np.testing.assert_array_equal(batch.discount_t, 0.5)


@pytest.mark.parametrize('num_chunks', [1, 2, 3, 4, 5])
def test_windows_end_with_their_episode_and_before_the_head(num_chunks):
  gamma, n, scale = 0.9, 3, 2.0
  last, terminal = (2, 7, 9, 13), (7, 13)
  chunks = [_rows(3 * i, 3, last=last, terminal=terminal) for i in range(num_chunks)]
  replay = _fill(9, *chunks)
  batch = replay_lib.sample(replay, jax.random.key(0), 2000, n_step=n, discount=gamma, reward_scale=scale)
  newest = 3 * num_chunks - 1
  oldest = max(0, newest - 8)
  assert _times(batch) == list(range(oldest, newest - n + 2))
  for number, reward, discount, following in zip(
    np.asarray(batch.obs_tm1['x'], np.float64), batch.r_t, batch.discount_t, batch.obs_t['x'], strict=True
  ):
    time, env = divmod(int(number), 10)
    total, factor, k = 0.0, 1.0, 0
    while True:
      total += factor * (10 * (time + k) + env) / 100.0
      factor *= gamma * (time + k not in terminal)
      if k == n - 1 or time + k in last:
        break
      k += 1
    np.testing.assert_allclose(reward, scale * total, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(discount, factor, rtol=1e-6)
    assert float(following) == 10 * (time + k) + env + 1000.0


@pytest.mark.parametrize('n_step', [1, 3])
def test_the_cost_of_a_draw_does_not_depend_on_the_capacity(n_step):
  def cost(capacity):
    replay = jax.eval_shape(lambda: replay_lib.init(_rows(0, 3), capacity))
    draw = jax.jit(lambda replay, key: replay_lib.sample(replay, key, 256, n_step=n_step))
    lowered = draw.lower(replay, jax.eval_shape(lambda: jax.random.key(0)))
    # Before fusion, since that of a fusion counts all of an array that is read in places.
    analysis = lowered.cost_analysis()
    assert set(large_instructions(lowered.compile(), capacity)) == {'parameter'}
    return analysis['flops'], analysis['bytes accessed']

  small, large = cost(9_999), cost(999_999)
  assert small == large
  assert min(small) > 0


def test_the_capacity_takes_whole_rollouts():
  with pytest.raises(ValueError, match='must be a multiple of the 3 rows that are added at once, got 7'):
    replay_lib.init(_rows(0, 3), 7)
  with pytest.raises(ValueError, match='got 0'):
    replay_lib.init(_rows(0, 3), 0)


def test_memory_is_projected():
  rows = _rows(0, 3)
  replay = replay_lib.init(rows, 12)
  assert replay_lib.projected_bytes(rows, 12) == sum(leaf.nbytes for leaf in jax.tree.leaves(replay.rows))


@pytest.mark.parametrize('seeds', [(2,), (2, 3)])
def test_rings_side_by_side_are_written_like_one(seeds):
  chunks = [_rows(1, 3), _rows(4, 3), _rows(7, 3)]
  alone = _fill(6, *chunks)
  add, replay = replay_lib.add, replay_lib.init(chunks[0], 6)
  for size in seeds:
    add = jax.vmap(add, in_axes=(0, None))
    replay = jax.tree.map(lambda x, size=size: jnp.broadcast_to(x, (size, *x.shape)), replay)
  for chunk in chunks:
    replay = jax.jit(add)(replay, chunk)
  jax.tree.map(lambda x, y: np.testing.assert_array_equal(x, np.broadcast_to(y, x.shape)), replay, alone)
