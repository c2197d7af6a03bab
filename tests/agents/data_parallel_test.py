"""A learner on several devices makes the updates of one device on the whole batch."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import numpy as np
import optax
import pytest

from agents import data_parallel
from agents.config import ReplayConfig, SoftActorCriticConfig, recipe_options
from sac_blocks import recipes
from tests.plain_networks import make_plain_networks
from tests.recipes.sac_test import SGD, assert_trees_close, make_batch

# Clipped, since only averaged gradients have the norm of the whole batch's.
OPTIONS: dict[str, Any] = {
  **SGD,
  'critic_optimizer': optax.chain(optax.clip_by_global_norm(0.3), optax.sgd(0.1)),
  'normalize_observations': True,
  'actor_update_period': 2,
}


def make_update(parallel: data_parallel.DataParallel, donate: bool = False, **options: Any) -> Any:
  algorithm = recipes.sac(make_plain_networks(), **OPTIONS, **options)
  traces = []

  def update(state: Any, batch: Any) -> Any:
    traces.append(batch.r_t.shape)
    state, metrics = algorithm.update(state, batch)
    return state, metrics, state.params['actor']

  state = parallel.replicate(algorithm.init(jax.random.PRNGKey(0)))
  return state, parallel.compile(update, donate=donate), traces


@pytest.mark.parametrize(
  ('num_devices', 'updates_per_call', 'donate'), [(1, 1, False), (2, 1, True), (2, 3, False)]
)
def test_devices_together_take_the_steps_of_one(num_devices: int, updates_per_call: int, donate: bool):
  single = recipes.sac(make_plain_networks(), updates_per_call=updates_per_call, **OPTIONS)
  expected, expected_update = single.init(jax.random.PRNGKey(0)), jax.jit(single.update)
  state, update, traces = make_update(
    data_parallel.DataParallel(jax.devices()[:num_devices]),
    donate,
    updates_per_call=updates_per_call,
    axis_name=data_parallel.AXIS,
  )
  seen = []
  for seed in range(3):
    batch = make_batch(8 * updates_per_call, seed=seed)
    seen.append(batch.obs_tm1)
    old = state
    expected, expected_metrics = expected_update(expected, batch)
    state, metrics, actor = update(state, batch)
    assert all(leaf.is_deleted() for leaf in jax.tree.leaves(old)) == donate
    assert_trees_close(metrics, dict(expected_metrics), 1e-4)
    assert_trees_close(actor, expected.params['actor'], 1e-4)
  assert_trees_close(state.params, expected.params, 1e-4)
  np.testing.assert_array_equal(state.key, expected.key)
  rows = np.concatenate(seen).astype(np.float64)
  statistics = state.params['observation_statistics']
  assert int(statistics.num_observations) == len(rows)
  np.testing.assert_allclose(statistics.mean, rows.mean(axis=0), rtol=1e-5, atol=1e-6)
  np.testing.assert_allclose(statistics.variance, rows.var(axis=0), rtol=1e-5)
  # One program for all steps, and each device sees its part only.
  assert traces == [(8 * updates_per_call // num_devices,)]
  assert all(len(leaf.devices()) == 1 for leaf in jax.tree.leaves((metrics, actor)))
  assert all(len(leaf.devices()) == num_devices for leaf in jax.tree.leaves(state))


def test_each_minibatch_of_a_sample_is_spread_over_all_devices():
  rows = np.arange(12)
  sample = {'x': np.stack([rows, rows], axis=1), 'legal': rows % 3 == 0}
  dealt = data_parallel.DataParallel(jax.devices()[:2]).deal(sample)
  columns = [np.asarray(shard.data)[:, 0, 0] for shard in dealt['x'].addressable_shards]
  minibatches = [column.reshape(3, 2) for column in columns]
  for i in range(3):
    together = sorted(np.concatenate([minibatches[0][i], minibatches[1][i]]))
    assert together == [4 * i, 4 * i + 1, 4 * i + 2, 4 * i + 3]
  np.testing.assert_array_equal(dealt['legal'], dealt['x'][..., 0] % 3 == 0)


def test_devices_that_learn_apart_are_noticed():
  parallel = data_parallel.DataParallel(jax.devices()[:2])
  state, update, _ = make_update(parallel)
  with pytest.raises(ValueError, match=r"has its own params\['actor'\].*with axis_name='devices'"):
    update(state, make_batch(8))


@pytest.mark.parametrize('size', [7, 1])
def test_a_sample_that_leaves_a_remainder_is_refused(size: int):
  with pytest.raises(ValueError, match=rf'must have leaves \[2 B, ...\], got shape \({size},'):
    data_parallel.DataParallel(jax.devices()[:2]).deal(make_batch(size))


class _Device(NamedTuple):
  process_index: int
  id: int
  platform: str = 'cpu'


@pytest.mark.parametrize(
  ('devices_of', 'num_devices', 'expected'),
  [
    ([3], 1, [(0, 0)]),
    ([3], None, [(0, 0), (0, 1), (0, 2)]),
    ([3], 4, 'must be at most 3, the number of cpu devices, got 4: change it'),
    ([2, 2], 2, [(0, 0), (1, 0)]),
    ([2, 2], None, [(0, 0), (0, 1), (1, 0), (1, 1)]),
    ([2, 1], None, [(0, 0), (1, 0)]),
    ([2, 2], 1, 'must be at most 4, .* and a multiple of 2, the number of learner processes, got 1: change'),
    ([2, 1], 4, 'at most 2, .* got 4'),
  ],
)
def test_each_process_gives_as_many_devices(monkeypatch, devices_of, num_devices, expected):
  devices = [_Device(p, i) for p, number in enumerate(devices_of) for i in range(number)]
  monkeypatch.setattr(jax, 'devices', lambda: devices)
  monkeypatch.setattr(jax, 'process_count', lambda: len(devices_of))
  if isinstance(expected, str):
    with pytest.raises(ValueError, match=expected):
      data_parallel.learner_devices(num_devices)
  else:
    chosen = data_parallel.learner_devices(num_devices)
    assert [(device.process_index, device.id) for device in chosen] == expected


@pytest.mark.parametrize(
  ('options', 'message'),
  [
    ({'num_learner_devices': 0}, 'num_learner_devices must be an integer of at least 1, or None'),
    ({'num_learner_devices': True}, 'num_learner_devices must be an integer of at least 1, or None'),
    (
      {'num_learner_devices': 3, 'batch_size': 64},
      r'batch_size must be a multiple of the 3 learner devices \(num_learner_devices=3\), got 64',
    ),
  ],
)
def test_wrong_options_are_named(options: dict[str, Any], message: str):
  with pytest.raises(ValueError, match=message):
    ReplayConfig(**options)


@pytest.mark.parametrize(('num_devices', 'axis_name'), [(1, None), (2, 'devices'), (None, 'devices')])
def test_the_recipe_averages_only_for_several_devices(num_devices: int | None, axis_name: str | None):
  options = recipe_options(SoftActorCriticConfig(num_learner_devices=num_devices))
  assert options['axis_name'] == axis_name


def test_the_builder_spreads_its_learner_over_the_devices_of_the_configuration():
  specs = pytest.importorskip('acme.specs')
  reverb, types = pytest.importorskip('reverb'), pytest.importorskip('acme.types')
  from agents.sac import SACBuilder, SACConfig

  batch = make_batch(12)
  data = types.Transition(batch.obs_tm1, batch.a_tm1, batch.r_t, batch.discount_t, batch.obs_t)

  def make_learner(**options: Any) -> Any:
    return SACBuilder(SACConfig(num_sgd_steps_per_step=3, **options)).make_learner(
      jax.random.PRNGKey(0),
      make_plain_networks(),
      iter([reverb.ReplaySample(info=None, data=data)] * 2),
      lambda label: None,
      specs.EnvironmentSpec(None, None, None, None),
    )

  states = []
  for num_devices in (1, 2):
    learner = make_learner(num_learner_devices=num_devices, batch_size=4)
    assert {len(leaf.devices()) for leaf in jax.tree.leaves(learner._state)} == {num_devices}
    learner.step()
    learner.step()
    states.append(learner.save().training_state)
  assert_trees_close(states[1].params, states[0].params, 1e-4)
  n = len(jax.devices())
  with pytest.raises(ValueError, match=rf'multiple of the {n} learner devices \(num_learner_devices=None\)'):
    make_learner(num_learner_devices=None, batch_size=n + 1)
  with pytest.raises(ValueError, match=f'num_learner_devices must be at most {n}'):
    make_learner(num_learner_devices=n + 1, batch_size=n + 1)


def test_each_process_reads_its_part_of_a_batch(monkeypatch):
  pytest.importorskip('acme')
  from agents.acme import replay
  from agents.sac import SACBuilder, SACConfig

  read = {}
  monkeypatch.setattr(replay, 'make_dataset_iterator', lambda client, table, **options: read.update(options))
  builder = SACBuilder(SACConfig(batch_size=12, num_sgd_steps_per_step=3, num_learner_devices=None))
  for processes, expected in ((1, 36), (2, 18)):
    monkeypatch.setattr(jax, 'process_count', lambda processes=processes: processes)
    builder.make_dataset_iterator(None)
    assert read['batch_size'] == expected
