"""The discrete SAC agent without Acme: configuration, and networks from specs."""

from __future__ import annotations

import types
from typing import Any

import numpy as np
import optax
import pytest
from dm_env import specs

from agents.sac_discrete import SACDiscreteConfig, make_algorithm, make_networks
from sac_blocks import recipes, reductions


def spec(actions: Any, observations: Any = None) -> Any:
  observations = specs.Array((3,), np.float32) if observations is None else observations
  return types.SimpleNamespace(observations=observations, actions=actions)


@pytest.mark.parametrize(
  ('options', 'message'),
  [
    ({'target_entropy_ratio': 1.5}, r'target_entropy_ratio must be in \[0, 1\], got 1.5'),
    ({'final_target_entropy_ratio': -0.1}, r'final_target_entropy_ratio must be in \[0, 1\], got -0.1'),
    # The continuous default for two dimensions.
    ({'target_entropy': -2.0}, 'target_entropy must be at least 0, or None, got -2.0'),
    (
      {'target_entropy': 0.1, 'final_target_entropy_ratio': 0.1},
      'final_target_entropy_ratio must be None where target_entropy is given',
    ),
    ({'target_entropy_ratio_updates': 0}, 'target_entropy_ratio_updates must be an integer of at least 1'),
    ({'reduce': 'max'}, "reduce must be 'minimum' or 'mean', got 'max'"),
    ({'tau': 2.0}, r'tau must be in \[0, 1\], got 2.0'),
  ],
)
def test_wrong_options_are_named(options: dict[str, Any], message: str):
  with pytest.raises(ValueError, match=message):
    SACDiscreteConfig(**options)


def test_every_option_reaches_the_recipe(monkeypatch: pytest.MonkeyPatch):
  given: dict[str, Any] = {}
  original = recipes.sac_discrete

  def record(networks: Any, **options: Any) -> Any:
    given.update(options)
    return original(networks, **options)

  monkeypatch.setattr(recipes, 'sac_discrete', record)
  networks = make_networks(spec(specs.DiscreteArray(3)), hidden_sizes=(8,))
  options = {
    'target_entropy': 0.2,
    'tau': 1.0,
    'target_update_period': 100,
    'actor_update_period': 2,
    'learn_temperature': False,
    'initial_alpha': 0.3,
    'entropy_backup': False,
  }
  named = {'reduce': 'mean', 'critic_loss': 'huber', 'target_entropy_ratio': 0.1}
  make_algorithm(SACDiscreteConfig(**options, **named), networks)
  assert {name: given[name] for name in options} == options
  assert given['pointwise_loss'] is optax.huber_loss
  assert given['reduce'] is reductions.mean
  assert given['target_entropy_ratio'] == 0.1


def test_a_final_ratio_makes_a_linear_schedule_over_updates(monkeypatch: pytest.MonkeyPatch):
  given: dict[str, Any] = {}
  monkeypatch.setattr(recipes, 'sac_discrete', lambda networks, **options: given.update(options))
  config = SACDiscreteConfig(
    target_entropy_ratio=0.9, final_target_entropy_ratio=0.1, target_entropy_ratio_updates=400
  )
  make_algorithm(config, make_networks(spec(specs.DiscreteArray(3)), hidden_sizes=(8,)))
  schedule = given['target_entropy_ratio']
  np.testing.assert_allclose([schedule(i) for i in (0, 100, 400, 1000)], [0.9, 0.7, 0.1, 0.1], rtol=1e-6)


def test_networks_follow_the_spec():
  assert make_networks(spec(specs.DiscreteArray(3))).actions.num_actions == 3
  factored = specs.BoundedArray((4,), np.int32, 0, [2, 2, 1, 2])
  assert make_networks(spec(factored)).actions.num_actions == 54
  # One bound for all factors.
  assert make_networks(spec(specs.BoundedArray((2,), np.int64, 0, 4))).actions.num_actions == 25


@pytest.mark.parametrize(
  'actions',
  [
    specs.BoundedArray((2,), np.float32, -1.0, 1.0),
    specs.BoundedArray((2,), np.int32, 1, 4),
    specs.BoundedArray((2, 2), np.int32, 0, 4),
    specs.Array((2,), np.int32),
  ],
)
def test_networks_refuse_what_is_not_discrete_from_0(actions: Any):
  with pytest.raises(ValueError, match='needs a discrete action or a vector of them, counted from 0'):
    make_networks(spec(actions))


def test_a_mask_that_does_not_fit_is_refused():
  observations = {
    'observation': specs.Array((3,), np.float32),
    'action_mask': specs.Array((3,), bool),
  }
  assert make_networks(spec(specs.DiscreteArray(3), observations)).actions.num_actions == 3
  with pytest.raises(ValueError, match=r'action_mask must be bool of shape \(4,\)'):
    make_networks(spec(specs.DiscreteArray(4), observations))
  observations['action_mask'] = specs.Array((3,), np.float32)
  with pytest.raises(ValueError, match='action_mask must be bool'):
    make_networks(spec(specs.DiscreteArray(3), observations))
