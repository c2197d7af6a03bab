"""Running statistics against float64 NumPy, on easy and on hard inputs."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from sac_blocks import Transition, blocks


def statistics_of(batches: list[np.ndarray]) -> blocks.RunningStatistics:
  statistics = blocks.init_statistics(jax.ShapeDtypeStruct(batches[0].shape[1:], np.float32))
  update = jax.jit(blocks.update_statistics)
  for batch in batches:
    statistics = update(statistics, batch)
  return statistics


@pytest.mark.parametrize(
  ('offset', 'scale', 'tolerance'),
  [(0.0, 1.0, 1e-5), (5.0, 0.1, 1e-4), (1e4, 1.0, 1e-3), (-3e5, 10.0, 1e-2), (0.0, 1e-6, 1e-4)],
)
def test_moments_of_batches_are_those_of_all_the_data(offset: float, scale: float, tolerance: float):
  rng = np.random.default_rng(0)
  batches = [(offset + scale * rng.normal(size=(32, 3))).astype(np.float32) for _ in range(50)]
  data = np.concatenate(batches).astype(np.float64)
  statistics = statistics_of(batches)
  np.testing.assert_allclose(statistics.mean, data.mean(axis=0), rtol=1e-6, atol=1e-6)
  # Sums of squares would leave no digit of the variance at an offset of 1e4.
  np.testing.assert_allclose(statistics.variance, data.var(axis=0), rtol=tolerance)
  assert int(statistics.num_observations) == len(data)


def test_unequal_batches_and_leading_axes():
  rng = np.random.default_rng(1)
  batches = [rng.normal(size=(n, 2)).astype(np.float32) for n in (1, 7, 64)]
  data = np.concatenate(batches)
  statistics = statistics_of(batches)
  np.testing.assert_allclose(statistics.mean, data.mean(axis=0), rtol=1e-5, atol=1e-6)
  np.testing.assert_allclose(statistics.variance, data.var(axis=0), rtol=1e-5)
  stacked = blocks.update_statistics(statistics, rng.normal(size=(4, 5, 2)).astype(np.float32))
  assert int(stacked.num_observations) == 92


def test_one_observation_has_no_variance_and_stays_finite():
  statistics = statistics_of([np.array([[3.0, -2.0]], np.float32)])
  np.testing.assert_array_equal(statistics.variance, [0.0, 0.0])
  np.testing.assert_allclose(blocks.normalize(statistics, jnp.array([3.0, -1.0])), [0.0, 10.0])


def test_normalisation_by_known_moments():
  statistics = blocks.RunningStatistics(jnp.array(9), jnp.array([8.0]), jnp.array([4.0]))
  assert float(blocks.normalize(statistics, jnp.array([10.0]))[0]) == 1.0
  np.testing.assert_allclose(
    blocks.normalize(statistics, np.array([[10.0], [6.0], [1e9]])), [[1.0], [-1.0], [10.0]]
  )
  assert float(blocks.normalize(statistics, jnp.array([1e9]), max_abs=5.0)[0]) == 5.0


def test_nothing_seen_changes_nothing():
  statistics = blocks.init_statistics(jax.ShapeDtypeStruct((2,), np.float32))
  np.testing.assert_array_equal(blocks.normalize(statistics, jnp.array([0.5, -3.0])), [0.5, -3.0])


def test_a_constant_feature_far_from_zero_gives_zero_and_not_rounding_noise():
  constant = np.full((32, 1), 123456.789, np.float32)
  statistics = statistics_of([constant] * 100)
  assert abs(float(blocks.normalize(statistics, constant[0])[0])) < 0.5


def test_the_count_saturates_instead_of_stopping_or_overflowing():
  statistics = blocks.RunningStatistics(jnp.array(2**30 - 1), jnp.array([0.0]), jnp.array([1.0]))
  statistics = blocks.update_statistics(statistics, np.full((256, 1), 1e6, np.float32))
  assert int(statistics.num_observations) == 2**30
  # 256 in 2^30 observations at 1e6 still move the mean, far beyond where a float32 counter stops.
  np.testing.assert_allclose(statistics.mean, [1e6 * 256 / 2**30], rtol=1e-5)
  again = blocks.update_statistics(statistics, np.zeros((256, 1), np.float32))
  assert int(again.num_observations) == 2**30


def test_dicts_integers_and_float64():
  spec = {'a': jax.ShapeDtypeStruct((2,), np.float32), 'b': jax.ShapeDtypeStruct((2, 2), np.uint8)}
  statistics = blocks.init_statistics(spec)
  batch = {'a': np.array([[1.0, 2.0], [3.0, 2.0]]), 'b': np.full((2, 2, 2), 255, np.uint8)}
  statistics = blocks.update_statistics(statistics, batch)
  np.testing.assert_allclose(statistics.mean['a'], [2.0, 2.0])
  np.testing.assert_allclose(statistics.mean['b'], np.full((2, 2), 255.0))
  assert jax.tree.map(lambda x: x.dtype, statistics.mean) == {'a': np.float32, 'b': np.float32}
  # As bytes 3 - 255 would be 4.
  low = {'a': np.zeros(2, np.float32), 'b': np.full((2, 2), 3, np.uint8)}
  np.testing.assert_allclose(blocks.normalize(statistics, low)['b'], np.full((2, 2), -10.0))


@pytest.mark.parametrize('kind', [np.asarray, jnp.asarray])
@pytest.mark.parametrize('leading', [(), (8,), (2, 4)])
def test_bools_pass_through_normalisation_beside_what_is_normalised(leading: tuple[int, ...], kind: Any):
  spec = {'x': jax.ShapeDtypeStruct((2,), np.float32), 'action_mask': jax.ShapeDtypeStruct((3,), np.bool_)}
  rng = np.random.default_rng(0)
  seen = {'x': 5.0 + rng.normal(size=(32, 2)), 'action_mask': rng.random((32, 3)) < 0.5}
  statistics = jax.jit(blocks.update_statistics)(blocks.init_statistics(spec), seen)
  mask = rng.random((*leading, 3)) < 0.5
  obs = {'x': kind(np.full((*leading, 2), 5.0, np.float32)), 'action_mask': kind(mask)}
  for normalize in (blocks.normalize, jax.jit(blocks.normalize)):
    normal = normalize(statistics, obs)
    assert normal['action_mask'].dtype == np.bool_
    np.testing.assert_array_equal(normal['action_mask'], mask)
    np.testing.assert_allclose(
      normal['x'], (obs['x'] - statistics.mean['x']) / np.sqrt(statistics.variance['x']), rtol=1e-4
    )


def test_bools_of_a_transition_stay_its_own():
  spec = {'x': jax.ShapeDtypeStruct((), np.float32), 'action_mask': jax.ShapeDtypeStruct((2,), np.bool_)}
  first, last = (
    {'x': np.full(4, x, np.float32), 'action_mask': np.array([mask] * 4)}
    for x, mask in ((3.0, [True, False]), (1.0, [False, False]))
  )
  ignored = np.zeros(4, np.float32)
  batch = Transition(first, ignored.astype(np.int32), ignored, ignored, last)
  block = blocks.observation_statistics()
  params = {'observation_statistics': blocks.init_statistics(spec)}
  params, _, _ = block.update(params, block.init(params), batch, jax.random.key(0), {})
  assert int(params['observation_statistics'].num_observations) == 4
  normal = blocks.normalize_transition(params, batch)
  np.testing.assert_array_equal(normal.obs_tm1['action_mask'], first['action_mask'])
  np.testing.assert_array_equal(normal.obs_t['action_mask'], last['action_mask'])
  np.testing.assert_array_equal(normal.obs_tm1['x'], np.zeros(4))
  # 2 below a mean without variance.
  np.testing.assert_array_equal(normal.obs_t['x'], np.full(4, -10.0))


def test_wrong_shapes_of_bools_are_named():
  statistics = blocks.init_statistics(jax.ShapeDtypeStruct((3,), np.bool_))
  with pytest.raises(ValueError, match=r'Expected observations of shape \[..., \*\(3,\)\], got \(4, 2\)'):
    blocks.normalize(statistics, np.ones((4, 2), bool))


def test_wrong_shapes_are_named():
  statistics = blocks.init_statistics(jax.ShapeDtypeStruct((3,), np.float32))
  for function in (blocks.update_statistics, blocks.normalize):
    for shape in ((8, 2), (2, 1), (2, 3, 1), ()):
      with pytest.raises(ValueError, match=r'Expected observations of shape \[..., \*\(3,\)\], got'):
        function(statistics, np.zeros(shape, np.float32))


def test_parts_of_different_lengths_are_refused():
  spec = jax.ShapeDtypeStruct((), np.float32)
  statistics = blocks.init_statistics({'a': spec, 'b': spec})
  with pytest.raises(ValueError, match=r'one leading shape .* got \[\(4,\), \(8,\)\]'):
    blocks.update_statistics(statistics, {'a': np.zeros(4), 'b': np.zeros(8)})
