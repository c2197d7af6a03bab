"""Prioritised draws: their law against NumPy, their weights by hand, and the loop that updates them."""

from __future__ import annotations

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.stats

from agents.anakin import AnakinConfig, environments, make_trainer, prioritized_replay, train
from agents.anakin import replay as replay_lib
from agents.anakin.replay import Rows
from tests.agents.anakin.trainer_test import SMALL, assert_same, make_algorithm

PRIORITIZED = {**SMALL, 'priority_exponent': 0.6}


def _rows(first, length, num_envs=2):
  """Rows whose observation is 10 time + environment."""
  number = 10.0 * np.arange(first, first + length)[:, None] + np.arange(num_envs)
  number = jnp.asarray(number, jnp.float32)
  ones = jnp.ones_like(number)
  return Rows(number, number, number, ones, ones < 0.0, number + 1000.0)


# Compiled once for all calls of one shape.
_add = jax.jit(prioritized_replay.add, static_argnums=(2, 3))
_compiled_sample = jax.jit(prioritized_replay.sample, static_argnums=3, static_argnames='n_step')


def _fill(capacity, num_rows, length=1, n_step=1, num_envs=2):
  """A ring with rows 0 to `num_rows` - 1, added `length` at a time, and its priorities."""
  replay = replay_lib.init(_rows(0, length, num_envs), capacity)
  priorities = prioritized_replay.init(capacity * num_envs)
  for first in range(0, num_rows, length):
    replay = replay_lib.add(replay, _rows(first, length, num_envs))
    priorities = _add(priorities, replay, length, n_step)
  return replay, priorities


def _leaves(priorities, num_steps):
  tree = np.asarray(priorities.tree)
  return tree[len(tree) // 2 :][:num_steps]


def _assert_sums(priorities):
  tree = np.asarray(priorities.tree)
  for i in range(1, len(tree) // 2):
    assert tree[i] == tree[2 * i] + tree[2 * i + 1], i


def _sample(priorities, replay, batch_size, key=0, **options):
  options = {'importance_exponent': 1.0, **options}
  return _compiled_sample(priorities, replay, jax.random.key(key), batch_size, **options)


def test_probabilities_and_weights_are_those_of_numpy():
  replay, priorities = _fill(capacity=3, num_rows=3)
  errors = np.array([0.5, -2.0, 1.0, 0.25, 0.0, -4.0])
  alpha, beta = 0.7, 0.4
  priorities = prioritized_replay.update(priorities, jnp.arange(6), jnp.asarray(errors, jnp.float32), alpha)
  _assert_sums(priorities)
  powers = (np.abs(errors) + 1e-6) ** alpha
  np.testing.assert_allclose(_leaves(priorities, 6), powers, rtol=1e-5)
  probabilities = powers / powers.sum()
  np.testing.assert_allclose(
    _leaves(priorities, 6) / np.asarray(priorities.tree)[1], probabilities, rtol=1e-5
  )
  batch, index = _sample(priorities, replay, 20_000, importance_exponent=beta)
  counts = np.bincount(np.asarray(index), minlength=6)
  # Index 4, with an error of 0, is expected once in a thousand such tests.
  drawn = [0, 1, 2, 3, 5]
  assert counts[4] == 0
  expected = 20_000 * probabilities[drawn] / probabilities[drawn].sum()
  assert scipy.stats.chisquare(counts[drawn], expected).pvalue > 0.01
  importance = (6 * probabilities[np.asarray(index)]) ** -beta
  np.testing.assert_allclose(batch.weights, importance / importance.max(), rtol=1e-4)


def test_weights_by_hand():
  replay, priorities = _fill(capacity=2, num_rows=2, num_envs=1)
  priorities = prioritized_replay.update(priorities, jnp.arange(2), jnp.array([1.0, 3.0]), 1.0)
  np.testing.assert_allclose(_leaves(priorities, 2) / priorities.tree[1], [0.25, 0.75], rtol=1e-5)
  batch, index = _sample(priorities, replay, 64)
  # (2 x 1/4)^-1 = 2 and (2 x 3/4)^-1 = 2/3, divided by 2.
  assert set(np.asarray(index).tolist()) == {0, 1}
  np.testing.assert_allclose(batch.weights, np.where(np.asarray(index) == 0, 1.0, 1 / 3), rtol=1e-5)
  no_correction, _ = _sample(priorities, replay, 64, importance_exponent=0.0)
  np.testing.assert_array_equal(no_correction.weights, 1.0)


def test_draws_are_the_transitions_of_their_index():
  replay, priorities = _fill(capacity=3, num_rows=5)
  batch, index = _sample(priorities, replay, 1000, discount=0.5, reward_scale=2.0)
  # Rows 3, 4 and 2 stand at places 0, 1 and 2.
  number = np.array([30.0, 31.0, 40.0, 41.0, 20.0, 21.0])[np.asarray(index)]
  assert np.unique(number).size == 6
  np.testing.assert_array_equal(batch.obs_tm1, number)
  np.testing.assert_array_equal(batch.r_t, 2.0 * number)
  np.testing.assert_array_equal(batch.obs_t, number + 1000.0)
  np.testing.assert_array_equal(batch.discount_t, 0.5)


@pytest.mark.parametrize('num_envs', [1, 2, 3])
def test_an_exponent_of_zero_is_uniform(num_envs):
  num_steps = 5 * num_envs
  replay, priorities = _fill(capacity=5, num_rows=5, num_envs=num_envs)
  errors = jnp.linspace(0.0, 9.0, num_steps)
  priorities = prioritized_replay.update(priorities, jnp.arange(num_steps), errors, 0.0)
  batch, index = _sample(priorities, replay, 2000 * num_steps)
  counts = np.bincount(np.asarray(index), minlength=num_steps)
  assert scipy.stats.chisquare(counts).pvalue > 0.01
  np.testing.assert_array_equal(batch.weights, 1.0)


def test_a_million_equal_priorities_are_drawn_evenly():
  # The number 1,000,000 is no power of two; a single float32 for a draw gives some steps 8 of its values and
  # some 9.
  num_steps = 1_000_000
  priorities = prioritized_replay.init(num_steps)
  node = priorities.tree.shape[0] // 2 + jnp.arange(num_steps)
  tree = prioritized_replay._sum(priorities.tree.at[node].set(1.0), node)
  replay = replay_lib.Replay(_rows(0, 1, num_envs=1), jnp.zeros((), int), jnp.ones((), int))
  _, index = _sample(priorities._replace(tree=tree), replay, 2_000_000)
  counts = np.bincount(np.asarray(index), minlength=num_steps)
  assert scipy.stats.chisquare(counts).pvalue > 0.01
  # What the uneven ones would show: places of which a single number has 8 values against those with 9.
  values = np.diff(np.ceil(np.arange(num_steps + 1) * (2.0**23 / num_steps)))
  few = values == 8
  np.testing.assert_allclose(counts[few].mean(), 2.0, atol=0.01)


@pytest.mark.parametrize('uniform', [0.0, np.nextafter(np.float32(1.0), np.float32(0.0))])
def test_what_has_no_priority_is_not_drawn_by_the_extreme_random_numbers_either(uniform, monkeypatch):
  monkeypatch.setattr(jax.random, 'uniform', lambda key, shape, dtype: jnp.full(shape, uniform, dtype))
  replay, priorities = _fill(capacity=11, num_rows=11, num_envs=3)
  rng = np.random.default_rng(0)
  for density in (0.03, 0.3, 0.9):
    leaves = np.zeros(64, np.float32)
    leaves[:33] = np.exp(10.0 * rng.normal(size=33)) * (rng.random(33) < density)
    leaves[rng.integers(33)] = 1e-4
    node = 64 + jnp.arange(64)
    tree = prioritized_replay._sum(priorities.tree.at[node].set(leaves), node)
    # Not the compiled one, which has its random numbers already.
    _, index = prioritized_replay.sample(
      priorities._replace(tree=tree), replay, jax.random.key(0), 3, importance_exponent=1.0
    )
    assert np.all(leaves[np.asarray(index)] > 0.0)


def test_of_several_errors_of_one_step_the_largest_counts():
  _, priorities = _fill(capacity=2, num_rows=2)
  index = jnp.array([1, 3, 1, 1, 3])
  errors = jnp.array([0.25, 0.5, -4.0, 1.0, 0.125])
  update = jax.jit(prioritized_replay.update)
  for order in ([0, 1, 2, 3, 4], [4, 3, 2, 1, 0], [2, 0, 4, 1, 3]):
    order = jnp.array(order)
    updated = update(priorities, index[order], errors[order], 0.5)
    np.testing.assert_allclose(_leaves(updated, 4), [1.0, 2.0, 1.0, np.sqrt(0.5)], rtol=1e-5)
    _assert_sums(updated)
    np.testing.assert_allclose(updated.largest, 2.0, rtol=1e-6)


def test_errors_of_several_critics_are_averaged():
  _, priorities = _fill(capacity=1, num_rows=1)
  errors = jnp.array([[1.0, -2.0], [-3.0, 6.0]])
  updated = prioritized_replay.update(priorities, jnp.arange(2), errors, 1.0)
  np.testing.assert_allclose(_leaves(updated, 2), [2.0, 4.0], rtol=1e-5)


def test_sums_stay_exact_over_many_updates():
  replay, priorities = _fill(capacity=37, num_rows=37, num_envs=3)

  def body(priorities, key):
    key, error_key = jax.random.split(key)
    _, index = prioritized_replay.sample(priorities, replay, key, 16, importance_exponent=1.0)
    errors = 10.0 ** jax.random.uniform(error_key, (16,), minval=-6.0, maxval=6.0)
    return prioritized_replay.update(priorities, index, errors, 1.0), index

  priorities, index = jax.lax.scan(body, priorities, jax.random.split(jax.random.key(0), 500))
  _assert_sums(priorities)
  assert np.max(index) < 111


def test_new_steps_get_the_largest_priority_so_far_and_overwritten_ones_lose_theirs():
  replay, priorities = _fill(capacity=3, num_rows=3)
  np.testing.assert_array_equal(_leaves(priorities, 6), 1.0)
  priorities = prioritized_replay.update(
    priorities, jnp.arange(6), jnp.array([7.0, 0.5, 2.0, 3.0, 0.5, 4.0]), 1.0
  )
  # The largest so far was that of a step that is overwritten here.
  for first in (3, 4):
    replay = replay_lib.add(replay, _rows(first, 1))
    priorities = _add(priorities, replay, 1, 1)
  np.testing.assert_allclose(_leaves(priorities, 6), [7.0, 7.0, 7.0, 7.0, 0.5, 4.0], rtol=1e-5)
  _assert_sums(priorities)
  # Errors below it don't lower what new steps get.
  priorities = prioritized_replay.update(priorities, jnp.arange(6), jnp.full(6, 0.1), 1.0)
  np.testing.assert_allclose(priorities.largest, 7.0, rtol=1e-6)


@pytest.mark.parametrize(
  ('capacity', 'length', 'n_step'),
  [(6, 1, 3), (6, 3, 2), (6, 2, 4), (4, 2, 3), (3, 3, 3), (4, 4, 4), (5, 1, 5), (6, 3, 1)],
)
def test_only_rows_with_a_full_window_behind_them_can_be_drawn(capacity, length, n_step):
  replay = replay_lib.init(_rows(0, length), capacity)
  priorities = prioritized_replay.init(2 * capacity)
  for first in range(0, 2 * capacity + length, length):
    num_rows = first + length
    replay = replay_lib.add(replay, _rows(first, length))
    priorities = _add(priorities, replay, length, n_step)
    _assert_sums(priorities)
    oldest = max(0, num_rows - capacity)
    expected = np.zeros(capacity)
    for row in range(oldest, num_rows - n_step + 1):
      expected[row % capacity] = 1.0
    np.testing.assert_array_equal(_leaves(priorities, 2 * capacity), np.repeat(expected, 2))
    if expected.any():
      batch, _ = _sample(priorities, replay, 500, n_step=n_step)
      times = np.unique(np.asarray(batch.obs_tm1) // 10).astype(int)
      assert times.tolist() == list(range(oldest, num_rows - n_step + 1))


def test_priorities_of_rows_that_stay_are_kept_when_rows_are_added():
  replay, priorities = _fill(capacity=6, num_rows=6, length=2, n_step=3, num_envs=1)
  priorities = prioritized_replay.update(priorities, jnp.arange(4), jnp.array([1.0, 2.0, 3.0, 4.0]), 1.0)
  replay = replay_lib.add(replay, _rows(6, 2, num_envs=1))
  priorities = _add(priorities, replay, 2, 3)
  # Rows 6 and 7 stand where 0 and 1 did and wait for their windows; those of 4 and 5 are full now.
  np.testing.assert_allclose(_leaves(priorities, 6), [0.0, 0.0, 3.0, 4.0, 4.0, 4.0], rtol=1e-5)


def test_a_ring_of_one_step_works():
  replay, priorities = _fill(capacity=1, num_rows=2, num_envs=1)
  batch, index = _sample(priorities, replay, 3)
  assert index.tolist() == [0, 0, 0]
  assert batch.obs_tm1.tolist() == [10.0] * 3
  updated = prioritized_replay.update(priorities, index, jnp.array([0.5, 3.0, 1.0]), 1.0)
  np.testing.assert_allclose(updated.tree[1], 3.0, rtol=1e-5)


def test_memory_is_projected():
  for num_steps in (1, 2, 3, 8, 9):
    assert prioritized_replay.projected_bytes(num_steps) == prioritized_replay.init(num_steps).tree.nbytes
  assert prioritized_replay.init(9).tree.shape == (32,)


@pytest.fixture(scope='module')
def pendulum():
  environment = environments.canonical_actions(environments.time_limit(environments.pendulum(), 10))
  return environment, make_algorithm(environment, batch_size=8)


@pytest.mark.slow
def test_the_loop_learns_from_weighted_draws_and_keeps_their_errors(pendulum):
  environment, algorithm = pendulum
  seen = []

  def recorded(state, batch):
    state, info = algorithm.update_with_info(state, batch)
    jax.debug.callback(
      lambda *x: seen.append([np.asarray(a) for a in x]), batch.obs_tm1, batch.weights, info['td_error']
    )
    return state, info

  config = AnakinConfig(**PRIORITIZED, importance_exponent=1.0)
  trainer = make_trainer(environment, algorithm._replace(update_with_info=recorded), config)
  state = jax.jit(trainer.warm_up)(trainer.init(jax.random.key(0)))
  assert float(state.priorities.tree[1]) == 64.0
  before = _leaves(state.priorities, 200)
  state, metrics = jax.jit(trainer.iteration)(state)
  jax.effects_barrier()
  assert np.isfinite(metrics['critic_loss'])
  assert len(seen) == config.num_updates
  # By the observations, which are all different, from the draws to their places.
  stored = np.asarray(state.replay.rows.observation).reshape(200, -1)
  expected = np.where(np.arange(200) < 72, 1.0, 0.0).astype(np.float32)
  np.testing.assert_array_equal(before, np.where(np.arange(200) < 64, 1.0, 0.0))
  for obs, weights, error in seen:
    place = np.array([np.flatnonzero((stored == row).all(axis=1)).item() for row in obs])
    np.testing.assert_allclose(weights, expected[place].min() / expected[place], rtol=1e-4)
    new = (np.abs(error).mean(axis=0) + 1e-6) ** 0.6
    expected[place] = 0.0
    np.maximum.at(expected, place, new)
  # The first update changes what the others draw and weigh.
  assert np.all(seen[0][1] == 1.0)
  assert np.any(seen[2][1] < 1.0)
  np.testing.assert_allclose(_leaves(state.priorities, 200), expected, rtol=1e-5)
  _assert_sums(state.priorities)


@pytest.mark.slow
def test_the_importance_exponent_may_follow_a_schedule(pendulum):
  environment, algorithm = pendulum
  seen = []

  def schedule(num_updates):
    jax.debug.callback(lambda n: seen.append(int(n)), num_updates, ordered=True)
    return 0.4 + 0.001 * num_updates

  config = AnakinConfig(**PRIORITIZED, importance_exponent=schedule)
  trainer = make_trainer(environment, algorithm, config)
  state = jax.jit(trainer.warm_up)(trainer.init(jax.random.key(0)))
  for _ in range(2):
    state, _ = jax.jit(trainer.iteration)(state)
  jax.effects_barrier()
  assert seen == list(range(6))


def test_priorities_cost_nothing_where_draws_are_uniform(pendulum):
  trainer = make_trainer(*pendulum, AnakinConfig(**SMALL))
  assert trainer.init(jax.random.key(0)).priorities is None


@pytest.mark.slow
def test_a_seed_is_the_same_alone_and_beside_others(pendulum):
  trainer = make_trainer(*pendulum, AnakinConfig(**PRIORITIZED))

  def start_and_iterate(key):
    return trainer.iteration(trainer.warm_up(trainer.init(key)))[0]

  keys = jax.random.split(jax.random.key(3), 3)
  together = jax.jit(jax.vmap(start_and_iterate))(keys)
  alone = jax.jit(start_and_iterate)(keys[1])
  picked = jax.tree.map(lambda x: x[1], together)
  assert_same(picked.algorithm.params, alone.algorithm.params, rtol=1e-3, atol=1e-4)
  assert_same(picked.priorities, alone.priorities, rtol=1e-3, atol=1e-4)
  assert np.any(together.priorities.tree[0] != together.priorities.tree[1])


@pytest.mark.slow
def test_a_run_that_goes_on_equals_one_that_never_stopped(pendulum):
  environment, algorithm = pendulum
  configs = [AnakinConfig(**{**PRIORITIZED, 'num_steps': steps}) for steps in (100, 200)]
  key = jax.random.key(1)
  straight = train(environment, algorithm, configs[1], key)
  first = train(environment, algorithm, configs[0], key)
  second = train(environment, algorithm, configs[1], key, state=first.state)
  assert_same(second.state, straight.state)


def test_discrete_actions_give_errors_too():
  environment = environments.catch()
  algorithm = make_algorithm(environment, batch_size=8)
  trainer = make_trainer(environment, algorithm, AnakinConfig(**PRIORITIZED, n_step=3))
  state, _ = jax.jit(trainer.iteration)(jax.jit(trainer.warm_up)(trainer.init(jax.random.key(0))))
  # Rows 16 and 17 of 18 wait for their windows.
  leaves = _leaves(state.priorities, 200)
  assert np.all(leaves[:64] > 0.0)
  assert np.all(leaves[64:] == 0.0)
  assert np.any(leaves[:64] != 1.0)


def test_an_algorithm_without_errors_is_refused(pendulum):
  environment, algorithm = pendulum
  config = AnakinConfig(**PRIORITIZED)
  with pytest.raises(ValueError, match=r'needs algorithm\.update_with_info, .*; got None'):
    make_trainer(environment, algorithm._replace(update_with_info=None), config)
  # The errors of several updates a call stay inside.
  several = make_algorithm(environment, batch_size=8, num_sgd_steps_per_step=2)
  with pytest.raises(ValueError, match=r'an algorithm of one update a call, .* got updates_per_call=2'):
    make_trainer(environment, several, dataclasses.replace(config, num_updates=2))

  def without_errors(state, batch):
    state, info = algorithm.update_with_info(state, batch)
    return state, {name: value for name, value in info.items() if name != 'td_error'}

  trainer = make_trainer(environment, algorithm._replace(update_with_info=without_errors), config)
  with pytest.raises(ValueError, match=r"reads 'td_error' .* which is \['actor_loss'.* in its aux, outside"):
    jax.eval_shape(trainer.iteration, jax.eval_shape(trainer.init, jax.random.key(0)))


@pytest.mark.parametrize(
  ('options', 'message'),
  [
    ({'priority_exponent': -0.5}, r'priority_exponent must be at least 0, or None, got -0\.5'),
    ({'priority_exponent': float('nan')}, 'priority_exponent must be at least 0, or None, got nan'),
    ({'importance_exponent': 1.5}, r'importance_exponent must be in \[0, 1\], or a schedule, got 1\.5'),
  ],
)
def test_wrong_options_are_named(options, message):
  with pytest.raises(ValueError, match=message):
    AnakinConfig(**options)


def test_replay_counts_the_memory_of_its_priorities(pendulum):
  environment, algorithm = pendulum
  rows = {**SMALL, 'buffer_size': 200, 'max_replay_bytes': 200 * (4 * 9 + 1)}
  make_trainer(environment, algorithm, AnakinConfig(**rows))
  with pytest.raises(ValueError, match='Replay would take'):
    make_trainer(environment, algorithm, AnakinConfig(**rows, priority_exponent=0.6))
