"""Tests of the updates that move target parameters."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from hypothesis import given
from hypothesis import strategies as st

import sac_blocks as sb
from tests import numerics
from tests.references import soft_actor_critic as reference


def _params(seed, dtype=np.float32):
  rng = np.random.default_rng(seed)
  return {
    'encoder': {'w': jnp.asarray(rng.normal(size=(3, 2)).astype(dtype))},
    'head': [jnp.asarray(rng.normal(size=(2, 4)).astype(dtype)), jnp.asarray(dtype(rng.normal()))],
  }


def _leaves(tree):
  return [np.asarray(leaf) for leaf in jax.tree_util.tree_leaves(tree)]


def test_polyak_of_hand_computed_numbers():
  mixed = sb.polyak_update({'w': jnp.array([1.0, 0.0])}, {'w': jnp.array([0.0, 4.0])}, 0.25)
  np.testing.assert_allclose(mixed['w'], [0.25, 3.0], rtol=1e-6)


def test_every_subtree_agrees_with_the_reference_and_optax():
  online, target = _params(0), _params(1)
  mixed = sb.polyak_update(online, target, 0.3)
  oracle = optax.incremental_update(online, target, 0.3)
  assert jax.tree_util.tree_structure(mixed) == jax.tree_util.tree_structure(target)
  for actual, new, old, also in zip(*map(_leaves, (mixed, online, target, oracle)), strict=True):
    np.testing.assert_allclose(actual, reference.polyak_average(new, old, 0.3), rtol=1e-5)
    np.testing.assert_allclose(actual, also, rtol=1e-6)
    assert np.all(actual != old)


def test_a_thousand_small_steps():
  online = {'w': jnp.ones(2)}

  def step(target, _):
    return sb.polyak_update(online, target, 0.005), None

  target, _ = jax.lax.scan(step, {'w': jnp.zeros(2)}, None, length=1000)
  # 1 - 0.995^1000
  np.testing.assert_allclose(target['w'], [0.993346, 0.993346], atol=2e-6)


def test_tau_one_is_a_hard_copy_bit_for_bit():
  online = _params(0)
  for actual, expected in zip(
    _leaves(sb.polyak_update(online, _params(1), 1.0)), _leaves(online), strict=True
  ):
    np.testing.assert_array_equal(actual, expected)


def test_equal_trees_stay_equal():
  online = _params(0)
  for actual, expected in zip(_leaves(sb.polyak_update(online, online, 0.005)), _leaves(online), strict=True):
    np.testing.assert_allclose(actual, expected, rtol=1e-6)


@pytest.mark.parametrize('dtype', [jnp.bfloat16, jnp.float16, jnp.float32])
def test_polyak_keeps_the_dtype(dtype):
  online, target = {'w': jnp.ones(3, dtype)}, {'w': jnp.zeros(3, dtype)}
  for tau in (0.25, jnp.float32(0.25)):
    mixed = sb.polyak_update(online, target, tau)
    assert mixed['w'].dtype == dtype
    np.testing.assert_allclose(np.asarray(mixed['w'], np.float32), np.full(3, 0.25))


@pytest.mark.parametrize(
  ('online_dtype', 'target_dtype'), [(jnp.bfloat16, jnp.float32), (jnp.float32, jnp.bfloat16)]
)
def test_both_updates_keep_the_dtype_of_the_target(online_dtype, target_dtype):
  online, target = {'w': jnp.ones(3, online_dtype)}, {'w': jnp.zeros(3, target_dtype)}
  mixed = sb.polyak_update(online, target, 0.25)
  copied = sb.periodic_update(online, target, 2, 2)
  assert mixed['w'].dtype == copied['w'].dtype == target_dtype
  np.testing.assert_allclose(np.asarray(mixed['w'], np.float32), np.full(3, 0.25))
  np.testing.assert_allclose(np.asarray(copied['w'], np.float32), np.ones(3))


def test_polyak_in_float64():
  with numerics.enable_x64():
    online, target = _params(0, np.float64), _params(1, np.float64)
    mixed = sb.polyak_update(online, target, 0.3)
    for actual, new, old in zip(*map(_leaves, (mixed, online, target)), strict=True):
      assert actual.dtype == np.float64
      np.testing.assert_allclose(actual, reference.polyak_average(new, old, 0.3), rtol=1e-14)


def test_polyak_under_jit_with_a_traced_tau():
  online, target = _params(0), _params(1)
  jitted = jax.jit(sb.polyak_update)(online, target, 0.3)
  for actual, expected in zip(_leaves(jitted), _leaves(sb.polyak_update(online, target, 0.3)), strict=True):
    np.testing.assert_allclose(actual, expected, rtol=1e-5, atol=1e-7)


def test_polyak_under_vmap_over_seeds():
  online, target = jnp.arange(6.0).reshape(3, 2), jnp.zeros((3, 2))
  mapped = jax.vmap(sb.polyak_update, in_axes=(0, 0, None))({'w': online}, {'w': target}, 0.5)
  np.testing.assert_allclose(mapped['w'], online / 2, rtol=1e-6)


@pytest.mark.parametrize('tau', [-0.1, 1.1, float('nan')])
def test_a_tau_outside_the_unit_interval_is_refused(tau):
  with pytest.raises(ValueError, match='tau'):
    sb.polyak_update({'w': jnp.ones(2)}, {'w': jnp.zeros(2)}, tau)


def _polyak(online, target):
  return sb.polyak_update(online, target, 0.5)


def _periodic(online, target):
  return sb.periodic_update(online, target, 3, 3)


both_updates = pytest.mark.parametrize('update', [_polyak, _periodic])


@both_updates
def test_another_structure_is_refused(update):
  with pytest.raises(ValueError, match=r'online.*target|target.*online'):
    update({'w': jnp.ones(2)}, {'w': jnp.ones(2), 'b': jnp.ones(1)})


@both_updates
def test_another_shape_is_refused(update):
  with numerics.raises_naming(online=(2, 1), target=(2,)):
    update({'w': jnp.ones((2, 1))}, {'w': jnp.ones(2)})
  with numerics.raises_naming(online=(), target=(2,)):
    update({'w': jnp.ones(())}, {'w': jnp.ones(2)})


@both_updates
def test_the_error_says_which_leaf(update):
  with pytest.raises(ValueError, match='encoder'):
    update({'encoder': jnp.ones(2), 'h': jnp.ones(1)}, {'encoder': jnp.ones(3), 'h': jnp.ones(1)})


@both_updates
def test_trees_without_leaves_pass_through(update):
  assert update({}, {}) == {}


@pytest.mark.parametrize('period', [1, 2, 3, 7])
def test_periodic_update_copies_every_period_steps(period):
  online, target = {'w': jnp.ones(2)}, {'w': jnp.zeros(2)}
  update = jax.jit(sb.periodic_update, static_argnums=3)
  np.testing.assert_array_equal(sb.periodic_update(online, target, period, period)['w'], np.ones(2))
  for step in range(1, 15):
    expected = 1.0 if step % period == 0 else 0.0
    updated = update(online, target, step, period)
    np.testing.assert_array_equal(updated['w'], np.full(2, expected, np.float32))


def test_periodic_update_follows_optax_with_a_traced_step():
  online, target = _params(0), _params(1)
  update = jax.jit(sb.periodic_update, static_argnums=3)
  for step in (0, 1, 4, 5, 2**24 + 1, 2**24 + 4):
    actual = update(online, target, jnp.int32(step), 5)
    expected = optax.periodic_update(online, target, jnp.int32(step), 5)
    for x, y in zip(_leaves(actual), _leaves(expected), strict=True):
      np.testing.assert_array_equal(x, y)


def test_periodic_update_in_a_scan():
  def body(target, step):
    target = sb.periodic_update({'w': step.astype(jnp.float32)}, target, step, 3)
    return target, target['w']

  _, seen = jax.lax.scan(body, {'w': jnp.float32(-1.0)}, jnp.arange(1, 8))
  np.testing.assert_array_equal(seen, [-1.0, -1.0, 3.0, 3.0, 3.0, 6.0, 6.0])


def test_periodic_update_keeps_the_dtype():
  updated = sb.periodic_update({'w': jnp.ones(2, jnp.bfloat16)}, {'w': jnp.zeros(2, jnp.bfloat16)}, 2, 2)
  assert updated['w'].dtype == jnp.bfloat16


@pytest.mark.parametrize('period', [0, -3])
def test_a_period_below_one_is_refused(period):
  with pytest.raises(ValueError, match='period'):
    sb.periodic_update({'w': jnp.ones(2)}, {'w': jnp.zeros(2)}, 1, period)


_TAUS = st.floats(0.0078125, 1.0, width=32)


@given(seed=st.integers(0, 2**31), taus=st.tuples(_TAUS, _TAUS).filter(lambda pair: pair[0] != pair[1]))
def test_a_larger_tau_is_nearer_to_online(seed, taus):
  rng = np.random.default_rng(seed)
  online, target = rng.normal(size=(2, 5)).astype(np.float32)
  small, large = (np.asarray(sb.polyak_update(online, target, tau)) for tau in sorted(taus))
  tolerance = 1e-6 * (1.0 + np.abs(online) + np.abs(target))
  assert np.all(np.abs(online - large) <= np.abs(online - small) + tolerance)
  assert np.all(np.minimum(online, target) - tolerance <= small)
  assert np.all(small <= np.maximum(online, target) + tolerance)
