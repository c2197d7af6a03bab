from __future__ import annotations

import collections

import numpy as np
import pytest

pytest.importorskip('reverb')

from acme import specs, types

from agents.acme.replay.layout import RowLayout


def _environment_spec(observations, actions=None, rewards=None):
  scalar = specs.Array((), np.float64)
  return specs.EnvironmentSpec(
    observations=observations,
    actions=specs.Array((2,), np.float32) if actions is None else actions,
    rewards=scalar if rewards is None else rewards,
    discounts=scalar,
  )


def _value(spec, seed):
  rng = np.random.default_rng(seed)
  return rng.integers(0, 2 if spec.dtype == bool else 100, spec.shape).astype(spec.dtype)


NESTED = {
  'pixels': specs.Array((3, 5), np.uint8),
  'pose': (specs.Array((2, 2), np.float64), [specs.Array((), np.int32), specs.Array((1,), bool)]),
  'nothing': specs.Array((0,), np.float32),
}


def test_nested_structures_come_back_with_values_shapes_and_dtypes():
  tree = pytest.importorskip('tree')
  layout = RowLayout.from_environment_spec(_environment_spec(NESTED), {'log_prob': specs.Array((), 'f4')})
  batch = [tree.map_structure(lambda spec, i=i: _value(spec, i), layout.spec) for i in range(3)]
  rows = []
  for transition in batch:
    rows.append(layout.empty_row())
    layout.write(rows[-1], **transition._asdict())
  out = RowLayout.from_json(layout.to_json()).read(np.stack(rows))
  assert isinstance(out, types.Transition)
  expected = tree.map_structure(lambda *leaves: np.stack(leaves), *batch)
  tree.assert_same_structure(out, expected)
  for got, want in zip(tree.flatten(out), tree.flatten(expected), strict=True):
    assert got.dtype == want.dtype
    np.testing.assert_array_equal(got, want)


def test_read_makes_aligned_views():
  layout = RowLayout.from_environment_spec(_environment_spec(NESTED))
  rows = np.zeros((4, layout.row_bytes), np.uint8)
  out = layout.read(rows)
  assert np.shares_memory(out.reward, rows)
  assert out.observation['pose'][0].flags.aligned
  # Two observations of 32 + 15 + 4 + 1 bytes, an action of 8, reward and discount of 4, and padding.
  assert 120 <= layout.row_bytes <= 128


def test_reward_and_discount_are_float32_whatever_the_environment_says():
  layout = RowLayout.from_environment_spec(_environment_spec(specs.Array((1,), np.float32)))
  assert layout.spec.reward.dtype == layout.spec.discount.dtype == np.float32


def test_write_casts_within_a_kind_only():
  layout = RowLayout.from_environment_spec(_environment_spec(specs.Array((1,), np.uint8)))
  row = layout.empty_row()
  layout.write(row, action=np.array([0.25, 0.5]))
  np.testing.assert_array_equal(layout.read(row[None]).action, [[0.25, 0.5]])
  with pytest.raises(TypeError, match=r'observation must be uint8.*float64'):
    layout.write(row, observation=np.array([0.5]))


@pytest.mark.parametrize('action', [np.float32(0.5), np.zeros((1, 2)), np.zeros(1)])
def test_write_refuses_other_shapes_where_numpy_would_broadcast(action):
  layout = RowLayout.from_environment_spec(_environment_spec(specs.Array((1,), np.float32)))
  with pytest.raises(ValueError, match=r'action must have shape \(2,\)'):
    layout.write(layout.empty_row(), action=action)


def test_write_refuses_other_structures():
  layout = RowLayout.from_environment_spec(_environment_spec({'a': specs.Array((1,), np.float32)}))
  for observation in ({'b': np.zeros(1)}, {'a': np.zeros(1), 'b': 0.0}, np.zeros(1), {}):
    with pytest.raises(ValueError, match='observation must have the structure'):
      layout.write(layout.empty_row(), observation=observation)
  with pytest.raises(ValueError, match='extras must have the structure'):
    layout.write(layout.empty_row(), extras={'log_prob': 0.0})


def test_other_mappings_and_sequences_count_as_dicts_and_tuples():
  layout = RowLayout.from_environment_spec(_environment_spec({'a': specs.Array((1,), np.float32)}))
  row = layout.empty_row()
  layout.write(row, observation=collections.OrderedDict(a=np.ones(1)))
  np.testing.assert_array_equal(layout.read(row[None]).observation['a'], [[1.0]])


@pytest.mark.parametrize(
  'observations',
  [
    collections.namedtuple('Pose', 'x')(specs.Array((1,), np.float32)),
    {1: specs.Array((1,), np.float32)},
    [specs.Array((), np.dtype('U3'))],
    np.zeros(3),
  ],
)
def test_structures_that_cannot_be_stored_are_refused(observations):
  with pytest.raises(TypeError, match=r'observation.* must be .* to be stored'):
    RowLayout.from_environment_spec(_environment_spec(observations))


def test_rewards_have_to_be_scalars():
  with pytest.raises(ValueError, match=r'environment_spec.rewards must be one scalar, got shape \(2,\)'):
    RowLayout.from_environment_spec(
      _environment_spec(specs.Array((1,), np.float32), rewards=specs.Array((2,), np.float32))
    )
