"""What every block owes: jit, scan, vmap, donation, x64, data parallelism, and honest metrics."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from sac_blocks import Objective, Transition, blocks
from tests.numerics import enable_x64

BATCH = 8
STEPS = 4


def regression(params: Any, batch: Transition, key: Any, info: Any) -> Any:
  """A deterministic loss, so that one device and two see the same numbers."""
  del key, info
  error = batch.obs_tm1 @ params['critic']['w'] + params['critic']['b'] - batch.r_t
  return jnp.mean(error**2), {'error': error, 'error_mean': jnp.mean(error)}


REGRESSION = Objective(regression, metrics=('error_mean',))


def scheduled_regression(params: Any, batch: Transition, key: Any, info: Any) -> Any:
  loss, aux = regression(params, batch, key, info)
  return info['scale'] * loss, aux


def step_with(optimizer: optax.GradientTransformation, axis_name: str | None) -> blocks.Block:
  return blocks.gradient_step('critic', REGRESSION, optimizer, axis_name=axis_name)


def track() -> blocks.Block:
  return blocks.polyak_step('critic', 'target_critic', tau=0.1)


def schedule() -> blocks.Block:
  return blocks.scheduled_value('scale', optax.linear_schedule(1.0, 0.2, transition_steps=5))


def scheduled_step(axis_name: str | None) -> blocks.Block:
  objective = Objective(scheduled_regression, metrics=('error_mean',))
  return blocks.chain(
    schedule(), blocks.gradient_step('critic', objective, optax.sgd(0.1), axis_name=axis_name)
  )


class Case(NamedTuple):
  make: Callable[[str | None], blocks.Block]
  minibatches: int = 1


CASES = {
  'gradient_step sgd': Case(lambda axis: step_with(optax.sgd(0.1), axis)),
  'gradient_step adamw': Case(lambda axis: step_with(optax.adamw(0.1), axis)),
  'gradient_step clipped': Case(
    lambda axis: step_with(optax.chain(optax.clip_by_global_norm(0.1), optax.adam(0.1)), axis)
  ),
  'polyak_step': Case(lambda axis: track()),
  'map_component': Case(
    lambda axis: blocks.map_component(
      'critic', lambda params, info: jax.tree.map(lambda x: jnp.clip(x, -0.1, 0.1), params['critic'])
    )
  ),
  'scheduled_value': Case(lambda axis: schedule()),
  'scheduled_value chain': Case(scheduled_step),
  'scheduled_value repeat': Case(lambda axis: blocks.repeat(4, scheduled_step(axis)), 4),
  'observation_statistics': Case(lambda axis: blocks.observation_statistics(axis_name=axis)),
  'map_batch': Case(
    lambda axis: blocks.map_batch(blocks.normalize_transition, step_with(optax.sgd(0.1), axis))
  ),
  'chain': Case(
    lambda axis: blocks.chain(
      blocks.observation_statistics(axis_name=axis), step_with(optax.adam(0.1), axis), track()
    )
  ),
  'every': Case(lambda axis: blocks.every(3, blocks.chain(step_with(optax.adam(0.1), axis), track()))),
  'repeat': Case(lambda axis: blocks.repeat(4, blocks.chain(step_with(optax.adam(0.1), axis), track())), 4),
  'repeat every': Case(lambda axis: blocks.repeat(4, blocks.every(2, step_with(optax.sgd(0.1), axis))), 4),
}

every_case = pytest.mark.parametrize('name', CASES)


def make_params(seed: int = 0, dtype: Any = np.float32) -> dict[str, Any]:
  rng = np.random.default_rng(seed)

  def layer() -> dict[str, Any]:
    return {'w': jnp.asarray(rng.normal(size=3).astype(dtype)), 'b': jnp.zeros((), dtype)}

  return {
    'critic': layer(),
    'target_critic': layer(),
    'observation_statistics': blocks.init_statistics(jax.ShapeDtypeStruct((3,), jnp.float32)),
  }


def make_batch(seed: int, minibatches: int = 1, dtype: Any = np.float32) -> Transition:
  rng = np.random.default_rng(seed)
  size = BATCH * minibatches

  def draw(*shape: int) -> np.ndarray:
    return (2.0 + rng.normal(size=shape)).astype(dtype)

  return Transition(
    draw(size, 3), draw(size, 2), draw(size), np.full(size, 0.9, dtype), draw(size, 3), weights=None
  )


def run(case: Case, update: Any = None, seed: int = 0, steps: int = STEPS) -> Any:
  block = case.make(None)
  update = update or jax.jit(block.update)
  params = make_params(seed)
  state, infos = block.init(params), []
  for i in range(steps):
    params, state, info = update(params, state, make_batch(i, case.minibatches), jax.random.key(i), {})
    infos.append(blocks.scalars(info))
  return params, state, infos


@functools.cache
def reference(name: str, seed: int = 0) -> Any:
  return run(CASES[name], seed=seed)


def assert_close(actual: Any, expected: Any, tolerance: float = 1e-5) -> None:
  assert jax.tree.structure(actual) == jax.tree.structure(expected)
  for a, b in zip(jax.tree.leaves(actual), jax.tree.leaves(expected), strict=True):
    np.testing.assert_allclose(a, b, rtol=tolerance, atol=tolerance)


@every_case
def test_jit_equals_eager_and_leaves_its_inputs_alone(name: str):
  case = CASES[name]
  params = make_params()
  before = jax.tree.map(np.array, params)
  block = case.make(None)
  eager, _, info = block.update(
    params, block.init(params), make_batch(0, case.minibatches), jax.random.key(0), {}
  )
  assert_close(params, before, 0.0)
  compiled, _, (compiled_info,) = run(case, steps=1)
  assert_close((eager, blocks.scalars(info)), (compiled, compiled_info))


@every_case
def test_scan_equals_a_loop(name: str):
  case = CASES[name]
  block = case.make(None)
  params = make_params()
  batches = jax.tree.map(lambda *x: jnp.stack(x), *[make_batch(i, case.minibatches) for i in range(STEPS)])
  keys = jnp.stack([jax.random.key(i) for i in range(STEPS)])

  def body(carry: Any, step: Any) -> Any:
    new_params, state, info = block.update(*carry, *step, {})
    return (new_params, state), blocks.scalars(info)

  # The scan itself fails if an update changes the structure or a dtype of params or state.
  (final, state), infos = jax.lax.scan(body, (params, block.init(params)), (batches, keys))
  expected, expected_state, expected_infos = reference(name)
  assert_close((final, state), (expected, expected_state))
  assert_close(infos, jax.tree.map(lambda *x: jnp.stack(x), *expected_infos) if expected_infos[0] else {})


@every_case
def test_vmap_over_seeds_equals_each_seed_alone(name: str):
  case = CASES[name]
  block = case.make(None)
  seeds = [make_params(seed) for seed in range(3)]
  stacked = jax.tree.map(lambda *x: jnp.stack(x), *seeds)
  update = jax.jit(jax.vmap(block.update, in_axes=(0, 0, None, None, None)))
  params, state = stacked, jax.vmap(block.init)(stacked)
  for i in range(STEPS):
    params, state, _ = update(params, state, make_batch(i, case.minibatches), jax.random.key(i), {})
  for index in range(len(seeds)):
    expected, expected_state, _ = reference(name, index)
    own = functools.partial(jax.tree.map, lambda x, index=index: x[index])
    assert_close((own(params), own(state)), (expected, expected_state))


@every_case
def test_params_and_state_can_be_donated(name: str):
  case = CASES[name]
  block = case.make(None)
  donated = jax.jit(block.update, donate_argnums=(0, 1))
  params = make_params()
  state = block.init(params)
  first_leaves = jax.tree.leaves(params)
  for i in range(STEPS):
    params, state, _ = donated(params, state, make_batch(i, case.minibatches), jax.random.key(i), {})
  assert_close((params, state), reference(name)[:2])
  assert all(leaf.is_deleted() for leaf in first_leaves)


@every_case
def test_float64_keeps_its_dtypes(name: str):
  case = CASES[name]
  with enable_x64():
    block = case.make(None)
    params = make_params(dtype=np.float64)
    state = block.init(params)
    dtypes = jax.tree.map(lambda x: x.dtype, (params, state))
    for i in range(3):
      batch = make_batch(i, case.minibatches, np.float64)
      params, state, _ = block.update(params, state, batch, jax.random.key(i), {})
    assert jax.tree.map(lambda x: x.dtype, (params, state)) == dtypes
    assert params['critic']['w'].dtype == np.float64


@every_case
def test_two_devices_take_the_step_of_the_whole_batch(name: str):
  case = CASES[name]
  assert jax.device_count() >= 2
  params = make_params()
  expected, expected_state, expected_infos = reference(name)

  block = case.make('devices')
  update = jax.pmap(block.update, 'devices', in_axes=(0, 0, 0, None, None), devices=jax.devices()[:2])
  twice = functools.partial(jax.tree.map, lambda x: jnp.stack([x, x]))

  def shard(leaf: np.ndarray) -> np.ndarray:
    """Gives each device its half of every minibatch."""
    halves = leaf.reshape(case.minibatches, 2, BATCH // 2, *leaf.shape[1:])
    return np.swapaxes(halves, 0, 1).reshape(2, -1, *leaf.shape[1:])

  params, state = twice(params), twice(block.init(params))
  for i in range(STEPS):
    batch = jax.tree.map(shard, make_batch(i, case.minibatches))
    params, state, info = update(params, state, batch, jax.random.key(i), {})
    named = {name: info[name] for name in block.metrics}
    assert_close(named, twice({name: expected_infos[i][name] for name in block.metrics}), 1e-4)
  # Leaf by leaf, since averaging gradients adds an empty state.
  leaves = jax.tree.leaves((params, state))
  assert_close(leaves, jax.tree.leaves(twice((expected, expected_state))), 1e-4)


@every_case
def test_scalars_that_leave_a_block_are_the_metrics_it_names(name: str):
  case = CASES[name]
  _, _, infos = reference(name)
  assert sorted(infos[0]) == sorted(case.make(None).metrics)
