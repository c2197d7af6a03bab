"""chain, every, repeat and map_batch: order, bookkeeping and errors."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from sac_blocks import Objective, blocks

KEY = jax.random.key(0)


def add(amount: float) -> blocks.Block:
  return blocks.map_component('x', lambda params, info: params['x'] + amount)


def double() -> blocks.Block:
  return blocks.map_component('x', lambda params, info: 2.0 * params['x'])


def report_x(name: str = 'seen') -> blocks.Block:
  def update(params: Any, state: Any, batch: Any, key: Any, info: Any) -> Any:
    del batch, key, info
    return params, state, {name: params['x']}

  return blocks.Block(lambda params: (), update, metrics=(name,))


def apply(block: blocks.Block, x: float, batch: Any = None) -> Any:
  params = {'x': jnp.asarray(x)}
  return block.update(params, block.init(params), batch, KEY, {})


def test_chain_applies_in_the_order_given():
  assert float(apply(blocks.chain(add(1.0), double()), 3.0)[0]['x']) == 8.0
  assert float(apply(blocks.chain(double(), add(1.0)), 3.0)[0]['x']) == 7.0


def test_chain_gives_every_block_another_key():
  keys = []

  def record(params: Any, state: Any, batch: Any, key: Any, info: Any) -> Any:
    keys.append(jax.random.key_data(key).tolist())
    return params, state, {}

  block = blocks.Block(lambda params: (), record)
  apply(blocks.chain(block, block, blocks.chain(block, block)), 0.0)
  assert len({tuple(key) for key in keys}) == 4


def test_chain_passes_info_on():
  def read(params: Any, state: Any, batch: Any, key: Any, info: Any) -> Any:
    return {**params, 'x': info['seen'] + 10.0}, state, {}

  reader = blocks.Block(lambda params: (), read)
  params, _, reported = apply(blocks.chain(report_x(), reader, add(1.0)), 3.0)
  assert float(params['x']) == 14.0
  assert reported == {'seen': 3.0}


def test_what_no_block_has_reported_is_asked_for_by_name():
  """Whoever asks, block, entry and mend are named, for entries that objectives of others may lack."""

  def loss(params: Any, batch: Any, key: Any, info: Any) -> Any:
    return params['x'] * info['seen'], {}

  step = blocks.gradient_step('x', loss, optax.sgd(0.1))
  assert float(apply(blocks.chain(report_x(), step), 3.0)[2]['x_loss']) == 9.0
  mend = "reads 'seen' from info, which holds .*: put it behind the block that reports 'seen'"
  with pytest.raises(KeyError, match=rf"gradient_step\('x'\) {mend}"):
    apply(blocks.chain(step, report_x()), 3.0)
  moved = blocks.map_component('x', lambda params, info: params['x'] + info['seen'])
  with pytest.raises(KeyError, match=rf"map_component\('x'\) {mend}"):
    apply(blocks.chain(moved, report_x()), 3.0)


def test_a_block_that_hands_info_on_reports_nothing_of_others_in_a_loop():
  """What a block reports is what it returns, even an entry that another block had reported before."""
  again = blocks.repeat(2, report_x('seen'))
  _, _, reported = apply(blocks.chain(report_x('seen'), add(1.0), again), 3.0, np.zeros(4))
  assert float(reported['seen']) == 4.0


def test_chain_refuses_nothing_and_foreign_states():
  with pytest.raises(ValueError, match='at least one block'):
    blocks.chain()
  with pytest.raises(ValueError, match='chain of 2 blocks got a state of 1'):
    blocks.chain(double(), double()).update({'x': 0.0}, ((),), None, KEY, {})


@pytest.mark.parametrize('n', [1, 2, 3])
def test_every_runs_first_and_then_each_nth_call(n: int):
  block = blocks.every(n, blocks.chain(add(1.0), report_x()))
  params = {'x': jnp.asarray(0.0)}
  state, xs, seen = block.init(params), [], []
  for _ in range(7):
    params, state, info = block.update(params, state, None, KEY, {})
    xs.append(float(params['x']))
    seen.append(float(info['seen']))
  assert xs == [1.0 + i // n for i in range(7)]
  assert seen == xs


def test_every_withholds_what_a_skipped_call_lacks():
  def update(params: Any, state: Any, batch: Any, key: Any, info: Any) -> Any:
    return params, state, {'per_example': jnp.zeros(4)}

  block = blocks.every(2, blocks.Block(lambda params: (), update))
  assert apply(block, 0.0)[2] == {}


@pytest.mark.parametrize('wrap', [lambda b: blocks.every(2, b), lambda b: blocks.repeat(2, b)])
def test_scalars_inside_a_loop_have_to_be_named(wrap: Any):
  unnamed = report_x()._replace(metrics=())
  with pytest.raises(ValueError, match=r"reports \['seen'\], which its metrics \(\) do not name"):
    apply(wrap(unnamed), 0.0, np.zeros(4))
  absent = double()._replace(metrics=('absent',))
  with pytest.raises(ValueError, match=r"names the metrics \['absent'\] but does not report"):
    apply(wrap(absent), 0.0, np.zeros(4))


@pytest.mark.parametrize('combinator', [blocks.every, blocks.repeat])
def test_periods_start_at_one(combinator: Any):
  with pytest.raises(ValueError, match='at least 1, got 0'):
    combinator(0, double())


def test_repeat_takes_the_minibatches_in_order_and_averages_metrics():
  def update(params: Any, state: Any, batch: Any, key: Any, info: Any) -> Any:
    x = 10.0 * params['x'] + jnp.sum(batch)
    return {'x': x}, state, {'x_seen': x}

  block = blocks.repeat(3, blocks.Block(lambda params: (), update, metrics=('x_seen',)))
  params, _, info = apply(block, 0.0, np.array([1.0, 0.0, 2.0, 0.0, 3.0, 0.0], np.float32))
  assert float(params['x']) == 123.0
  np.testing.assert_allclose(info['x_seen'], (1.0 + 12.0 + 123.0) / 3.0, rtol=1e-6)


def test_repeat_draws_new_noise_each_time():
  def update(params: Any, state: Any, batch: Any, key: Any, info: Any) -> Any:
    return {'x': params['x'] + jax.random.normal(key)}, state, {'noise': jax.random.normal(key)}

  block = blocks.repeat(2, blocks.Block(lambda params: (), update, metrics=('noise',)))
  params, _, info = apply(block, 0.0, np.zeros(2))
  np.testing.assert_allclose(params['x'], 2.0 * info['noise'], rtol=1e-5)
  first = jax.random.normal(jax.random.split(KEY, 2)[0])
  assert abs(float(info['noise']) - float(first)) > 1e-6


def test_repeat_refuses_a_batch_that_it_cannot_split():
  with pytest.raises(ValueError, match=r'repeat\(2, ...\) needs batch leaves \[2 B, ...\], got shape \(3,\)'):
    apply(blocks.repeat(2, double()), 0.0, np.zeros(3))


def test_map_batch_changes_the_batch_of_its_block_only():
  def total(params: Any, state: Any, batch: Any, key: Any, info: Any) -> Any:
    return {'x': params['x'] + jnp.sum(batch)}, state, {}

  block = blocks.Block(lambda params: (), total)
  scaled = blocks.map_batch(lambda params, batch: params['x'] * batch, block)
  # 2 + (2 * 3), and then 3 of the batch as it was.
  assert float(apply(blocks.chain(scaled, block), 2.0, np.array([3.0]))[0]['x']) == 11.0


def test_a_hard_copy_every_n_updates_is_a_composition():
  block = blocks.chain(add(1.0), blocks.every(3, blocks.polyak_step('x', 'target', tau=1.0)))
  params = {'x': jnp.asarray(0.0), 'target': jnp.asarray(-1.0)}
  state, targets = block.init(params), []
  for _ in range(5):
    params, state, _ = block.update(params, state, None, KEY, {})
    targets.append(float(params['target']))
  assert targets == [1.0, 1.0, 1.0, 4.0, 4.0]


def test_polyak_step_converges_as_the_formula_says():
  params = {'x': jnp.asarray(1.0), 'target': jnp.asarray(0.0)}
  block = blocks.polyak_step('x', 'target', tau=0.005)
  body = lambda _, p: block.update(p, (), None, KEY, {})[0]  # noqa: E731
  final = jax.lax.fori_loop(0, 1000, body, params)
  np.testing.assert_allclose(final['target'], 0.993346, atol=2e-6)


class TestGradientStep:
  @staticmethod
  def quadratic(params: Any, batch: Any, key: Any, info: Any) -> Any:
    return 0.5 * jnp.sum((params['x'] - params['other']) ** 2), {'aux': 3.0}

  def test_takes_the_optimisers_step_in_one_component(self):
    block = blocks.gradient_step('x', self.quadratic, optax.sgd(0.5))
    params = {'x': jnp.array([2.0, 0.0]), 'other': jnp.array([0.0, 4.0])}
    new, _, info = block.update(params, block.init(params), None, KEY, {'kept': 1})
    np.testing.assert_allclose(new['x'], [1.0, 2.0])
    np.testing.assert_allclose(new['other'], params['other'])
    assert float(info['x_loss']) == 10.0
    assert float(info['aux']) == 3.0
    assert sorted(info) == ['aux', 'x_loss']  # what it adds, and no more

  def test_global_norm_clipping_keeps_the_direction(self):
    loss = lambda params, batch, key, info: (jnp.dot(jnp.array([3.0, 4.0]), params['x']), {})  # noqa: E731
    for clip, expected in ((optax.clip_by_global_norm(1.0), [-0.6, -0.8]), (optax.clip(1.0), [-1.0, -1.0])):
      block = blocks.gradient_step('x', loss, optax.chain(clip, optax.sgd(1.0)))
      params = {'x': jnp.zeros(2)}
      new = block.update(params, block.init(params), None, KEY, {})[0]
      np.testing.assert_allclose(new['x'], expected, rtol=1e-6)

  def test_weight_decay_sees_the_params(self):
    loss = lambda params, batch, key, info: (0.0 * jnp.sum(params['x']), {})  # noqa: E731
    block = blocks.gradient_step('x', loss, optax.adamw(0.1, weight_decay=0.5))
    params = {'x': jnp.array([2.0])}
    new = block.update(params, block.init(params), None, KEY, {})[0]
    np.testing.assert_allclose(new['x'], [2.0 - 0.1 * 0.5 * 2.0], rtol=1e-6)

  def test_an_objective_names_its_metrics(self):
    block = blocks.gradient_step('x', Objective(self.quadratic, metrics=('aux',)), optax.sgd(0.5))
    assert sorted(block.metrics) == ['aux', 'x_loss']

  def test_a_missing_component_is_named(self):
    with pytest.raises(KeyError, match=r"gradient_step\('x', ...\) finds only \['y'\] in params"):
      blocks.gradient_step('x', self.quadratic, optax.sgd(0.5)).init({'y': jnp.zeros(2)})
