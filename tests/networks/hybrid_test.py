"""The default networks for hybrid actions: shapes, masks, and values that see their own branch alone."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from sac_blocks import Transition, recipes
from sac_blocks.networks import make_hybrid_networks, make_networks

SPEC = jax.ShapeDtypeStruct((3,), np.float32)
MASKED = {'action_mask': jax.ShapeDtypeStruct((4,), np.bool_), 'state': SPEC}


def small(spec: Any = SPEC, **options: Any) -> Any:
  """Four branches and two dimensions; returns the networks and params of actor and critics."""
  networks = make_hybrid_networks(spec, 4, 2, **{'hidden_sizes': (8, 8), **options})
  return networks, networks.actor.init(jax.random.key(0)), networks.critic.init(jax.random.key(1))


@pytest.mark.parametrize('leading', [(), (5,), (2, 5)])
@pytest.mark.parametrize('shared', [False, True])
@pytest.mark.parametrize('num_critics', [1, 3])
def test_any_leading_shape_and_number_of_critics(leading: tuple[int, ...], shared: bool, num_critics: int):
  networks, actor, critic = small(shared=shared, num_critics=num_critics)
  assert (networks.actions.num_actions, networks.actions.num_dimensions) == (4, 2)
  obs = jnp.ones((*leading, 3))
  policy = networks.actor.apply(actor, obs)
  assert policy.shared == shared
  assert policy.categorical.logits.shape == (*leading, 4)
  assert policy.continuous.loc.shape == ((*leading, 2) if shared else (*leading, 4, 2))
  x, _ = policy.sample_branches(seed=jax.random.key(0))
  assert networks.critic.apply(critic, obs, x).shape == (num_critics, *leading, 4)


def test_branches_have_gaussians_of_their_own():
  networks, actor, _ = small()
  policy = networks.actor.apply(actor, jnp.array([1.0, -2.0, 0.5]))
  for parameter in (policy.continuous.loc, policy.continuous.scale):
    assert len(np.unique(np.asarray(parameter))) == 8


def test_value_of_a_branch_depends_on_its_own_action_alone():
  networks, _, critic = small()
  obs, x = jnp.array([1.0, -2.0, 0.5]), jax.random.uniform(jax.random.key(2), (4, 2), minval=-1.0)
  # dq[n, k] / dx[j]
  slope = jax.jacobian(lambda x: networks.critic.apply(critic, obs, x))(x)
  own = np.eye(4, dtype=bool)
  assert np.all(np.abs(slope[:, own]).max(axis=-1) > 1e-4)
  np.testing.assert_array_equal(slope[:, ~own], np.zeros((2, 12, 2)))


def test_critics_tell_branches_with_the_same_action_apart_and_start_apart():
  networks, _, critic = small()
  q = networks.critic.apply(critic, jnp.ones(3), jnp.ones((4, 2)))
  assert len(np.unique(np.asarray(q).round(5))) == 8


def test_examples_of_a_batch_do_not_meet():
  networks, actor, critic = small()
  obs = jax.random.normal(jax.random.key(3), (5, 3))
  x = jax.random.uniform(jax.random.key(4), (5, 4, 2), minval=-1.0)
  q, policy = networks.critic.apply(critic, obs, x), networks.actor.apply(actor, obs)
  for i in range(5):
    np.testing.assert_allclose(q[:, i], networks.critic.apply(critic, obs[i], x[i]), rtol=1e-4, atol=1e-5)
    alone = networks.actor.apply(actor, obs[i])
    np.testing.assert_allclose(policy.categorical.logits[i], alone.categorical.logits, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(policy.continuous.loc[i], alone.continuous.loc, rtol=1e-4, atol=1e-5)


def test_the_actor_obeys_a_mask_that_no_network_sees():
  networks, actor, critic = small(MASKED)
  assert actor['hidden_0']['w'].shape == (3, 8)
  assert critic['hidden_0']['w'].shape == (2, 3 + 4 + 2, 8)
  mask = np.array([[True, True, True, True], [True, False, False, True]])
  obs = {'state': jnp.ones((2, 3)), 'action_mask': mask}
  policy = networks.actor.apply(actor, obs)
  np.testing.assert_array_equal(policy.categorical.mask, mask)
  assert policy.categorical.probs[1, 1] == policy.categorical.probs[1, 2] == 0.0
  np.testing.assert_array_equal(policy.continuous.loc[0, [0, 3]], policy.continuous.loc[1, [0, 3]])
  q = networks.critic.apply(critic, obs, jnp.ones((2, 4, 2)))
  # Rows of one product may be summed in another order each, by the processor's kind.
  np.testing.assert_allclose(q[:, 0], q[:, 1], rtol=1e-6)
  # Unless it is asked for.
  _, actor, critic = small(MASKED, policy_keys=('state', 'action_mask'), critic_keys=('action_mask',))
  assert actor['hidden_0']['w'].shape == (7, 8)
  assert critic['hidden_0']['w'].shape == (2, 4 + 4 + 2, 8)


@pytest.mark.parametrize('log_scale', ['clip', 'tanh'])
@pytest.mark.parametrize('bounds', [None, (-1.0, 0.5)])
def test_scales_are_bounded_as_those_of_the_continuous_networks(log_scale: Any, bounds: Any):
  """With every weight of the last layer 0, the biases are the outputs."""
  options = {'hidden_sizes': (4,), 'log_scale': log_scale, 'log_scale_bounds': bounds}
  continuous, hybrid = make_networks(SPEC, 1, **options), make_hybrid_networks(SPEC, 1, 1, **options)
  for raw in (-100.0, -0.7, 0.3, 100.0):
    scales = []
    for networks, bias in ((continuous, [0.2, raw]), (hybrid, [5.0, 0.2, raw])):
      params = networks.actor.init(jax.random.key(0))
      output = {'w': jnp.zeros_like(params['output']['w']), 'b': jnp.array(bias)}
      policy = networks.actor.apply({**params, 'output': output}, jnp.ones(3))
      gaussian = policy.continuous if networks is hybrid else policy
      np.testing.assert_allclose(gaussian.loc.ravel(), [0.2], rtol=1e-6)
      scales.append(float(gaussian.scale.ravel()[0]))
    assert scales[0] == pytest.approx(scales[1], rel=1e-6)


def test_images_and_masks_train():
  spec = {'image': jax.ShapeDtypeStruct((8, 8), np.uint8), **MASKED}
  networks, *_ = small(spec, hidden_sizes=(8,), conv_layers=((4, 3, 2),))
  algorithm = recipes.sac_hybrid(networks, normalize_observations=True)
  rng = np.random.default_rng(0)

  def observe() -> Any:
    return {
      'image': rng.integers(0, 256, (8, 8, 8), np.uint8),
      'state': rng.normal(size=(8, 3)).astype(np.float32),
      'action_mask': np.tile([True, False, True, True], (8, 1)),
    }

  action = {'discrete': np.arange(8, dtype=np.int32) % 2 * 2, 'continuous': np.zeros((8, 2), np.float32)}
  batch = Transition(observe(), action, np.ones(8, np.float32), np.full(8, 0.9, np.float32), observe())
  state, metrics = jax.jit(algorithm.update)(algorithm.init(jax.random.key(0)), batch)
  assert all(np.isfinite(value) for value in metrics.values())
  assert float(metrics['policy_entropy_discrete']) <= np.log(3.0) + 1e-6
  action = jax.jit(algorithm.policy)(state.params, batch.obs_t, jax.random.key(0))
  assert action['continuous'].shape == (8, 2)
  assert np.all(action['discrete'] != 1)


@pytest.mark.parametrize(
  ('spec', 'sizes', 'options', 'message'),
  [
    (SPEC, (0, 2), {}, 'num_actions, action_size and num_critics must be at least 1, got 0, 2 and 2'),
    (SPEC, (4, 0), {}, 'got 4, 0 and 2'),
    (SPEC, (4, 2), {'num_critics': 0}, 'got 4, 2 and 0'),
    (SPEC, (4, 2), {'log_scale': 'softplus'}, "log_scale must be 'clip' or 'tanh', got 'softplus'"),
    (SPEC, (4, 2), {'log_scale_bounds': (2.0, -5.0)}, 'low < high'),
    (SPEC, (4, 2), {'policy_keys': ('x',)}, 'policy_keys needs a dict observation'),
    (MASKED, (5, 2), {}, r'action_mask must be bool of shape \(5,\)'),
    (
      {**MASKED, 'action_mask': jax.ShapeDtypeStruct((4,), np.float32)},
      (4, 2),
      {},
      'action_mask must be bool',
    ),
  ],
)
def test_wrong_options_are_named(spec: Any, sizes: tuple[int, int], options: dict[str, Any], message: str):
  with pytest.raises(ValueError, match=message):
    make_hybrid_networks(spec, *sizes, **options)
