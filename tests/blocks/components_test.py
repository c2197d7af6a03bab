"""Components as data, and their starting anew together with the optimiser's state."""

from __future__ import annotations

from typing import Any

import chex
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from sac_blocks import blocks, recipes
from tests.plain_networks import make_plain_networks
from tests.recipes.sac_test import make_batch

KEY = jax.random.key(0)


def test_components_start_in_order_and_only_random_ones_take_a_key():
  starts = {
    'a': blocks.drawn(lambda key: jax.random.normal(key, (2,))),
    'n': blocks.constant({'x': 3.0}),
    'b': blocks.drawn(lambda key: jax.random.normal(key, (2,))),
    'c': blocks.copied('b'),
  }
  keys = jax.random.split(KEY, blocks.num_keys(starts))
  assert len(keys) == 2
  components = blocks.init_components(starts, keys)
  assert list(components) == ['a', 'n', 'b', 'c']
  np.testing.assert_array_equal(components['a'], jax.random.normal(keys[0], (2,)))
  np.testing.assert_array_equal(components['b'], jax.random.normal(keys[1], (2,)))
  chex.assert_trees_all_equal(components['c'], components['b'])
  assert components['c'].unsafe_buffer_pointer() != components['b'].unsafe_buffer_pointer()


def test_more_components_need_no_new_function():
  networks = make_plain_networks()
  starts = {**recipes.actor_critic_components(networks), 'bonus': blocks.constant(jnp.zeros(3))}
  step = blocks.map_component('bonus', lambda params, info: params['bonus'] + 1.0)
  algorithm = recipes.algorithm(networks, step, components=starts)
  state, _ = jax.jit(algorithm.update)(algorithm.init(KEY), make_batch())
  np.testing.assert_array_equal(state.params['bonus'], np.ones(3))
  with pytest.raises(ValueError, match=r"components must name 'actor', by which to act, got \['bonus'\]"):
    recipes.algorithm(networks, step, components={'bonus': starts['bonus']})


@pytest.mark.parametrize('compiled', [True, False])
def test_a_reset_draws_anew_and_forgets_the_moments(compiled: bool):
  starts = {'w': blocks.drawn(lambda key: jax.random.normal(key, (3,))), 'target': blocks.copied('w')}
  loss = lambda params, batch, key, info: (jnp.sum((params['w'] - batch) ** 2), {})  # noqa: E731
  inside = blocks.chain(
    blocks.gradient_step('w', loss, optax.adam(0.1)), blocks.polyak_step('w', 'target', 0.5)
  )
  block = blocks.reset_every(3, starts, inside)
  assert block.metrics == ('w_loss',)
  params: Any = {**blocks.init_components(starts, jax.random.split(KEY, 1)), 'other': jnp.ones(2)}
  state, update = block.init(params), jax.jit(block.update) if compiled else block.update
  counts, keys = [], jax.random.split(jax.random.key(1), 7)
  for i in range(7):
    before = params
    params, state, _ = update(params, state, jnp.zeros(3), keys[i], {})
    counts.append(int(optax.tree_utils.tree_get(state.block, 'count')))
    if i == 3:
      # A first step of Adam, of the learning rate itself, from what this call's key draws.
      fresh = jax.random.normal(jax.random.split(keys[i], 2)[1], (3,))
      np.testing.assert_allclose(params['w'], fresh - 0.1 * np.sign(fresh), rtol=1e-4)
      np.testing.assert_allclose(params['target'], 0.5 * (params['w'] + fresh), rtol=1e-4)
      assert np.any(np.abs(params['w'] - before['w']) > 0.2)
    np.testing.assert_array_equal(params['other'], np.ones(2))
  assert counts == [1, 2, 3, 1, 2, 3, 1]


def test_the_recipe_with_resets_is_the_recipe_until_the_first():
  networks = make_plain_networks()
  starts = recipes.actor_critic_components(networks)
  plain = blocks.polyak_step('critic', 'target_critic', 0.1)
  with_resets = recipes.algorithm(networks, blocks.reset_every(2, starts, plain))
  state, batch = with_resets.init(KEY), make_batch()
  update = jax.jit(with_resets.update)
  actors = []
  for _ in range(5):
    state, _ = update(state, batch)
    actors.append(np.asarray(state.params['actor']['loc']))
  assert [bool(np.any(a != b)) for a, b in zip(actors[1:], actors[:-1], strict=True)] == [
    False,
    True,
    False,
    True,
  ]


def test_a_period_below_one_is_refused():
  with pytest.raises(ValueError, match='period of at least 1, got 0'):
    blocks.reset_every(0, {}, blocks.polyak_step('a', 'b', 0.1))
