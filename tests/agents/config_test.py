"""Configurations refuse what cannot be meant, and say what would be."""

from __future__ import annotations

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from agents import sac, sac_discrete
from agents.config import ReplayConfig
from tests.plain_networks import make_plain_networks
from tests.recipes.sac_test import assert_trees_close, make_batch


@pytest.mark.parametrize(
  ('options', 'message'),
  [
    ({'batch_size': 0}, 'batch_size must be an integer of at least 1, got 0'),
    ({'batch_size': True}, 'batch_size must be an integer of at least 1, got True'),
    ({'n_step': 1.5}, 'n_step must be an integer of at least 1, got 1.5'),
    ({'random_steps': -1}, 'random_steps must be an integer of at least 0, got -1'),
    ({'discount': 1.01}, r'discount must be in \[0, 1\], got 1.01'),
    ({'reward_scale': 0.0}, 'reward_scale must be positive, got 0.0'),
    ({'samples_per_insert': -1.0}, 'samples_per_insert must be positive, or None for no limit'),
    ({'samples_per_insert_tolerance_rate': 0.0}, 'tolerance_rate must be positive'),
    (
      {'min_replay_size': 200, 'max_replay_size': 100},
      r'min_replay_size must be at most max_replay_size \(100\), got 200',
    ),
  ],
)
def test_wrong_options_are_named(options: dict[str, Any], message: str):
  with pytest.raises(ValueError, match=message):
    ReplayConfig(**options)


def test_a_configuration_is_frozen_and_checked_again_when_replaced():
  config = ReplayConfig()
  with pytest.raises(dataclasses.FrozenInstanceError):
    config.batch_size = 3  # type: ignore[misc]
  with pytest.raises(ValueError, match='batch_size'):
    dataclasses.replace(config, batch_size=-1)


TRACED = {
  'discount': 0.9,
  'reward_scale': 2.0,
  'actor_learning_rate': 0.01,
  'critic_learning_rate': 0.02,
  'temperature_learning_rate': 0.03,
  'max_gradient_norm': 0.1,
  'initial_alpha': 0.5,
  'target_entropy': 0.4,
  'tau': 0.2,
}


def test_options_of_the_algorithm_may_be_traced():
  def params(options: dict[str, Any]) -> Any:
    algorithm = sac.make_algorithm(sac.SACConfig(**options), make_plain_networks())
    return algorithm.update(algorithm.init(jax.random.key(0)), make_batch())[0].params

  def bounded(bound: Any) -> Any:
    return params({**TRACED, 'log_alpha_bounds': (-bound, bound)})['log_alpha']

  assert_trees_close(jax.jit(params)(TRACED), params(TRACED))
  # Adam's first step lowers log alpha, since the entropy is above its target, by its step size.
  np.testing.assert_allclose(
    jax.jit(jax.vmap(bounded))(jnp.array([0.5, 1.0])), [-0.5, np.log(0.5) - 0.03], rtol=1e-4
  )


def test_options_of_the_discrete_algorithm_may_be_traced():
  def config(options: dict[str, Any]) -> Any:
    made = sac_discrete.SACDiscreteConfig(**options)
    return made.target_entropy_ratio + made.final_target_entropy_ratio

  ratios = {'target_entropy_ratio': 0.5, 'final_target_entropy_ratio': 0.25}
  assert float(jax.jit(config)(ratios)) == 0.75
  with pytest.raises(
    ValueError, match='final_target_entropy_ratio must be None where target_entropy is given'
  ):
    jax.jit(config)({**ratios, 'target_entropy': 0.1})
