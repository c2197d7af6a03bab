"""The default networks for discrete actions: shapes, masks, factors and options."""

from __future__ import annotations

import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import sac_blocks as sb
from sac_blocks import distributions, recipes
from sac_blocks.networks import make_discrete_networks

SPEC = jax.ShapeDtypeStruct((3,), np.float32)


def with_mask(size: int) -> dict[str, Any]:
  return {'x': SPEC, 'action_mask': jax.ShapeDtypeStruct((size,), np.bool_)}


def init(networks: sb.ActorCritic) -> Any:
  return jax.jit(lambda: (networks.actor.init(jax.random.key(0)), networks.critic.init(jax.random.key(1))))()


@pytest.mark.parametrize(
  ('leading', 'num_actions', 'num_critics'), [((), 1, 1), ((4,), 5, 2), ((2, 4), np.int64(5), 5)]
)
def test_any_leading_shape_and_number_of_critics(leading: Any, num_actions: int, num_critics: int):
  networks = make_discrete_networks(SPEC, num_actions, hidden_sizes=(8, 8), num_critics=num_critics)
  assert networks.actions.num_actions == num_actions

  def outputs(key: Any, obs: Any) -> Any:
    policy = networks.actor.apply(networks.actor.init(key), obs)
    assert isinstance(policy, distributions.Categorical)
    return policy.logits, policy.mode(), networks.critic.apply(networks.critic.init(key), obs)

  logits, action, q = jax.eval_shape(outputs, jax.random.key(0), jnp.ones((*leading, 3)))
  assert logits.shape == (*leading, num_actions)
  assert action.shape == leading
  assert q.shape == (num_critics, *leading, num_actions)


@pytest.mark.parametrize(
  ('leading', 'sizes'),
  [((), (3, 2)), ((4,), [3, 2]), ((2, 4), np.array([3, 2])), ((4,), (5,)), ((4,), np.array([5]))],
)
def test_factored_actions_have_factors_in_the_actor_and_joint_actions_in_the_critics(
  leading: Any, sizes: Any
):
  networks = make_discrete_networks(with_mask(5), sizes, hidden_sizes=(8,), num_critics=3)
  joint = math.prod(sizes)
  assert networks.actions.num_actions == joint

  def outputs(key: Any, obs: Any) -> Any:
    actor, critic = networks.actor.init(key), networks.critic.init(key)
    policy = networks.actor.apply(actor, obs)
    assert isinstance(policy, distributions.FactoredCategorical)
    assert policy.sizes == tuple(sizes)
    return actor, policy.logits, policy.mode(), networks.critic.apply(critic, obs)

  obs = {'x': jnp.ones((*leading, 3)), 'action_mask': jnp.ones((*leading, 5), bool)}
  actor, logits, action, q = jax.eval_shape(outputs, jax.random.key(0), obs)
  assert actor['output']['w'].shape == (8, 5)
  assert logits.shape == (*leading, joint)
  assert action.shape == (*leading, len(sizes))
  assert q.shape == (3, *leading, joint)


@pytest.mark.parametrize('sizes', [(10_000,), (100, 100), (2,) * 13])
def test_up_to_ten_thousand_joint_actions(sizes: tuple[int, ...]):
  make_discrete_networks(SPEC, sizes)
  with pytest.raises(ValueError, match='joint actions') as error:
    make_discrete_networks(SPEC, (*sizes, 2))
  assert f'{2 * math.prod(sizes):,}' in str(error.value)
  assert '10,000' in str(error.value)


def test_critics_start_apart_and_share_nothing_with_the_actor():
  networks = make_discrete_networks(SPEC, 2, hidden_sizes=(8,))
  actor, critic = init(networks)
  q = networks.critic.apply(critic, jnp.ones(3))
  assert np.all(np.abs(q[0] - q[1]) > 1e-3)
  assert critic['hidden_0']['w'].shape == (2, 3, 8)
  assert actor['hidden_0']['w'].shape == (3, 8)


def test_depth_activation_and_layer_norm():
  networks = make_discrete_networks(SPEC, 2, hidden_sizes=(8, 16, 4), activation=jax.nn.tanh, layer_norm=True)
  actor, critic = init(networks)
  assert [actor[f'hidden_{i}']['w'].shape for i in range(3)] == [(3, 8), (8, 16), (16, 4)]
  for params in (actor, critic):
    assert sorted(name for name in params if name.startswith('norm')) == ['norm_0', 'norm_1', 'norm_2']
  # Normalised inputs of tanh: scaling the observation hardly changes the output.

  @jax.jit
  def outputs(scale: Any) -> Any:
    x = scale * jnp.array([1.0, -2.0, 0.5])
    return networks.actor.apply(actor, x).logits, networks.critic.apply(critic, x)

  for small, large in zip(outputs(10.0), outputs(1e4), strict=True):
    np.testing.assert_allclose(small, large, atol=1e-2)


# Masks.


def test_the_actor_obeys_the_mask_and_neither_network_sees_it():
  networks = make_discrete_networks(with_mask(4), 4, hidden_sizes=(8,))
  actor, critic = init(networks)
  assert actor['hidden_0']['w'].shape == (3, 8)
  assert critic['hidden_0']['w'].shape == (2, 3, 8)
  x = np.random.default_rng(0).normal(size=(16, 3)).astype(np.float32)
  mask = (np.arange(16)[:, None] >> np.arange(4)) % 2 == 1
  every = {'x': x, 'action_mask': np.ones((16, 4), bool)}
  some = {'x': x, 'action_mask': mask}
  free, bound = (networks.actor.apply(actor, obs) for obs in (every, some))
  np.testing.assert_array_equal(bound.mask, mask)
  np.testing.assert_array_equal(bound.probs[~mask], np.zeros(np.sum(~mask)))
  # The same probabilities, renormalised over what is legal; none at all in the first row.
  rows = mask.any(axis=1)
  expected = np.where(mask, free.probs, 0.0)[rows]
  np.testing.assert_allclose(bound.probs[rows], expected / expected.sum(axis=1, keepdims=True), rtol=1e-5)
  np.testing.assert_array_equal(bound.probs[~rows], np.zeros((1, 4)))
  np.testing.assert_array_equal(networks.critic.apply(critic, every), networks.critic.apply(critic, some))


def test_masks_of_the_factors_stand_side_by_side():
  networks = make_discrete_networks(with_mask(5), (2, 3), hidden_sizes=(8,))
  actor, _ = init(networks)
  obs = {'x': jnp.ones(3), 'action_mask': jnp.array([True, False, False, True, True])}
  policy = networks.actor.apply(actor, obs)
  # The first factor's 0 with the second one's 1 or 2.
  np.testing.assert_array_equal(policy.mask, [False, True, True, False, False, False])
  first, second = policy.sample(seed=jax.random.key(0), sample_shape=(50,)).T
  assert set(np.asarray(first)) == {0}
  assert set(np.asarray(second)) == {1, 2}


def test_networks_see_the_mask_where_it_is_asked_for():
  options = {'policy_keys': ('action_mask', 'x'), 'critic_keys': ('action_mask',)}
  networks = make_discrete_networks(with_mask(4), 4, hidden_sizes=(8,), **options)
  actor, critic = init(networks)
  assert actor['hidden_0']['w'].shape == (4 + 3, 8)
  assert critic['hidden_0']['w'].shape == (2, 4, 8)
  obs = {'x': jnp.ones(3), 'action_mask': jnp.array([True, True, False, True])}
  other = {**obs, 'action_mask': jnp.array([True, True, False, False])}
  assert np.any(networks.critic.apply(critic, obs) != networks.critic.apply(critic, other))
  # It is obeyed, too.
  np.testing.assert_array_equal(networks.actor.apply(actor, obs).mask, obs['action_mask'])


def test_keys_may_leave_the_mask_out_of_what_is_seen_but_not_of_what_is_obeyed():
  spec = {**with_mask(4), 'truth': jax.ShapeDtypeStruct((2,), np.float32)}
  networks = make_discrete_networks(spec, 4, hidden_sizes=(8,), policy_keys=('x',), critic_keys=('truth',))
  actor, critic = init(networks)
  assert actor['hidden_0']['w'].shape == (3, 8)
  assert critic['hidden_0']['w'].shape == (2, 2, 8)
  obs = {'x': jnp.ones(3), 'truth': jnp.ones(2), 'action_mask': jnp.array([False, True, False, False])}
  np.testing.assert_array_equal(networks.actor.apply(actor, obs).probs, [0.0, 1.0, 0.0, 0.0])


def test_observations_of_image_vector_and_mask_train():
  spec = {**with_mask(4), 'image': jax.ShapeDtypeStruct((4, 4), np.uint8)}
  networks = make_discrete_networks(spec, (2, 2), hidden_sizes=(8,), conv_layers=((2, 3, 2),))
  algorithm = recipes.sac_discrete(networks, normalize_observations=True)
  rng = np.random.default_rng(0)
  obs = {
    'x': rng.normal(size=(8, 3)).astype(np.float32),
    'image': rng.integers(0, 256, size=(8, 4, 4), dtype=np.uint8),
    # One choice for the first factor, two for the second.
    'action_mask': np.tile([True, False, True, True], (8, 1)),
  }
  ones = np.ones(8, np.float32)
  batch = sb.Transition(obs, np.tile(np.int32([0, 1]), (8, 1)), ones, 0.9 * ones, obs)
  before = jax.jit(algorithm.init)(jax.random.key(0))
  after, metrics = jax.jit(algorithm.update)(before, batch)
  assert all(np.isfinite(value) for value in metrics.values())
  np.testing.assert_allclose(metrics['target_entropy'], 0.5 * np.log(2), rtol=1e-6)
  for component in ('actor', 'critic'):
    for name in ('image_1_conv_0', 'hidden_0'):
      assert np.any(before.params[component][name]['w'] != after.params[component][name]['w'])
  single = jax.tree.map(lambda x: x[0], obs)
  action = jax.jit(algorithm.policy)(after.params, single, jax.random.key(0))
  assert action.shape == (2,)
  assert action[0] == 0


# Refusals.


@pytest.mark.parametrize(
  ('arguments', 'options', 'message'),
  [
    ((SPEC, 0), {}, 'num_actions .* at least 1, got 0'),
    ((SPEC, -2), {}, 'num_actions .* at least 1, got -2'),
    ((SPEC, ()), {}, 'num_actions .* at least 1'),
    ((SPEC, (3, 0)), {}, 'num_actions .* at least 1'),
    ((SPEC, 2), {'num_critics': 0}, 'num_critics .* at least 1, got 2 and 0'),
    ((SPEC, 2), {'policy_keys': ('x',)}, 'policy_keys needs a dict observation'),
    (({'x': SPEC}, 2), {'critic_keys': ('y',)}, r"critic_keys asks for \['y'\], .* has \['x'\]"),
    ((with_mask(3), 4), {}, r'action_mask must be bool of shape \(4,\)'),
    ((with_mask(4), (2, 3)), {}, r'action_mask must be bool of shape \(5,\)'),
    ((with_mask(6), (2, 3)), {}, r'action_mask must be bool of shape \(5,\)'),
    (({'x': SPEC, 'action_mask': SPEC}, 3), {}, 'action_mask must be bool .*float32'),
    (
      ({'x': SPEC, 'action_mask': jax.ShapeDtypeStruct((3,), np.int8)}, 3),
      {},
      'action_mask must be bool .*int8',
    ),
    (({'action_mask': with_mask(3)['action_mask']}, 3), {}, 'policy_keys must name at least one'),
  ],
)
def test_wrong_options_are_named(arguments: Any, options: dict[str, Any], message: str):
  with pytest.raises(ValueError, match=message):
    make_discrete_networks(*arguments, **options)
