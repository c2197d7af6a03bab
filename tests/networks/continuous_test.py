"""The default networks: shapes, options and the bounds on the scale."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from sac_blocks import recipes
from sac_blocks.networks import make_networks
from tests.recipes.sac_test import make_batch

SPEC = jax.ShapeDtypeStruct((3,), np.float32)


@pytest.mark.parametrize('leading', [(), (4,), (2, 4)])
@pytest.mark.parametrize('num_critics', [1, 2, 5])
def test_any_leading_shape_and_number_of_critics(leading: tuple[int, ...], num_critics: int):
  networks = make_networks(SPEC, 2, hidden_sizes=(8, 8), num_critics=num_critics)
  obs, action = jnp.ones((*leading, 3)), jnp.ones((*leading, 2))
  policy = networks.actor.apply(networks.actor.init(jax.random.key(0)), obs)
  assert policy.loc.shape == policy.scale.shape == (*leading, 2)
  q = networks.critic.apply(networks.critic.init(jax.random.key(0)), obs, action)
  assert q.shape == (num_critics, *leading)


def test_critics_start_apart():
  networks = make_networks(SPEC, 2, hidden_sizes=(8,))
  q = networks.critic.apply(networks.critic.init(jax.random.key(0)), jnp.ones(3), jnp.ones(2))
  assert abs(float(q[0] - q[1])) > 1e-3


def test_depth_activation_and_layer_norm():
  networks = make_networks(SPEC, 2, hidden_sizes=(8, 16, 4), activation=jax.nn.tanh, layer_norm=True)
  params = networks.actor.init(jax.random.key(0))
  assert [params[f'hidden_{i}']['w'].shape for i in range(3)] == [(3, 8), (8, 16), (16, 4)]
  assert sorted(name for name in params if name.startswith('norm')) == ['norm_0', 'norm_1', 'norm_2']
  # Normalised inputs of tanh: scaling the observation hardly changes the output.
  small, large = (networks.actor.apply(params, x * jnp.array([1.0, -2.0, 0.5])).loc for x in (10.0, 1e4))
  np.testing.assert_allclose(small, large, atol=1e-2)


def biased(option: str, raw: float, **options: Any) -> Any:
  networks = make_networks(SPEC, 1, hidden_sizes=(4,), log_scale=option, **options)
  params = networks.actor.init(jax.random.key(0))

  def log_scale(bias: Any) -> Any:
    output = {'w': jnp.zeros_like(params['output']['w']), 'b': jnp.array([0.0, 1.0]) * bias}
    return jnp.log(networks.actor.apply({**params, 'output': output}, jnp.ones(3)).scale[0])

  return jax.value_and_grad(log_scale)(raw)


def test_clipped_log_scale_has_a_dead_gradient_and_tanh_a_live_one():
  value, gradient = biased('clip', 3.0, log_scale_bounds=(-5.0, 2.0))
  np.testing.assert_allclose(np.exp(value), 7.389, rtol=1e-4)
  assert gradient == 0.0
  value, gradient = biased('tanh', 3.0)
  np.testing.assert_allclose(value, -5.0 + 3.5 * (np.tanh(3.0) + 1.0), rtol=1e-5)
  np.testing.assert_allclose(gradient, 3.5 * (1.0 - np.tanh(3.0) ** 2), rtol=1e-3)
  assert gradient > 0.0


def test_default_bounds():
  np.testing.assert_allclose(biased('clip', -100.0)[0], -20.0, rtol=1e-5)
  np.testing.assert_allclose(biased('tanh', -100.0)[0], -5.0, rtol=1e-5)
  np.testing.assert_allclose(biased('clip', 100.0)[0], 2.0, rtol=1e-5)


def test_policy_and_critic_can_see_different_keys():
  spec = {
    'image': jax.ShapeDtypeStruct((2, 2), np.uint8),
    'position': jax.ShapeDtypeStruct((3,), np.float32),
    'truth': jax.ShapeDtypeStruct((), np.float32),
  }
  networks = make_networks(
    spec, 1, hidden_sizes=(8,), policy_keys=('position',), critic_keys=('truth', 'image'), conv_layers=None
  )
  actor, critic = networks.actor.init(jax.random.key(0)), networks.critic.init(jax.random.key(1))
  assert actor['hidden_0']['w'].shape == (3, 8)
  assert critic['hidden_0']['w'].shape == (2, 5 + 1, 8)
  obs = {'image': np.ones((4, 2, 2), np.uint8), 'position': jnp.ones((4, 3)), 'truth': jnp.ones(4)}
  other = {**obs, 'truth': 5.0 * obs['truth']}
  np.testing.assert_array_equal(networks.actor.apply(actor, obs).loc, networks.actor.apply(actor, other).loc)
  action = jnp.ones((4, 1))
  assert np.any(networks.critic.apply(critic, obs, action) != networks.critic.apply(critic, other, action))


def test_whole_dict_observations_train():
  spec = {'a': jax.ShapeDtypeStruct((3,), np.float32), 'b': jax.ShapeDtypeStruct((2, 2), np.float32)}
  networks = make_networks(spec, 2, hidden_sizes=(8,))
  algorithm = recipes.sac(networks, normalize_observations=True)
  obs = {'a': np.ones((8, 3), np.float32), 'b': np.ones((8, 2, 2), np.float32)}
  state, metrics = jax.jit(algorithm.update)(
    algorithm.init(jax.random.key(0)), make_batch(obs_tm1=obs, obs_t=obs)
  )
  assert np.isfinite(metrics['critic_loss'])
  single = jax.tree.map(lambda x: x[0], obs)
  assert algorithm.policy(state.params, single, jax.random.key(0)).shape == (2,)


def test_one_example_one_dimension_keep_their_axes():
  networks = make_networks(jax.ShapeDtypeStruct((1,), np.float32), 1, hidden_sizes=(4,))
  policy = networks.actor.apply(networks.actor.init(jax.random.key(0)), jnp.ones((1, 1)))
  action, log_prob = policy.sample_and_log_prob(seed=jax.random.key(0))
  assert action.shape == (1, 1)
  assert log_prob.shape == (1,)


@pytest.mark.parametrize(
  ('options', 'message'),
  [
    ({'log_scale': 'softplus'}, "log_scale must be 'clip' or 'tanh', got 'softplus'"),
    ({'log_scale_bounds': (2.0, -5.0)}, 'low < high'),
    ({'num_critics': 0}, 'at least 1, got 2 and 0'),
    ({'policy_keys': ('x',)}, 'policy_keys needs a dict observation'),
  ],
)
def test_wrong_options_are_named(options: dict[str, Any], message: str):
  with pytest.raises(ValueError, match=message):
    make_networks(SPEC, 2, **options)


def test_missing_keys_are_named():
  with pytest.raises(ValueError, match=r"critic_keys asks for \['y'\], but the observation has \['x'\]"):
    make_networks({'x': SPEC}, 2, critic_keys=('y',))
