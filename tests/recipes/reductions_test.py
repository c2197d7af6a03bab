"""One idea, written once, for every kind of action: the minimum over two of five critics, drawn anew."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import sac_blocks as sb
from sac_blocks import recipes, reductions
from tests.numerics import enable_x64
from tests.plain_networks import make_plain_networks
from tests.recipes import sac_discrete_test, sac_hybrid_test, sac_test
from tests.references import hybrid_soft_actor_critic, soft_actor_critic

N, M = 5, 2
ALPHA = 0.5


def sampled(networks: Any, params: Any, component: str, obs: Any, key: Any, heads: Any) -> Any:
  """The soft value of the reference, of the drawn critics alone; likewise the next two."""
  action, log_prob = networks.actor(params['actor'], obs).sample_and_log_prob(seed=key)
  q = np.asarray(networks.critic(params[component], obs, action), np.float64)
  return soft_actor_critic.soft_value(q[heads], np.asarray(log_prob, np.float64), ALPHA)


def enumerated(networks: Any, params: Any, component: str, obs: Any, key: Any, heads: Any) -> Any:
  logits = np.asarray(networks.actor(params['actor'], obs).logits, np.float64)
  q = np.asarray(networks.critic(params[component], obs), np.float64)
  return soft_actor_critic.categorical_soft_value(q[heads], logits, ALPHA, obs['action_mask'])


def hybrid(networks: Any, params: Any, component: str, obs: Any, key: Any, heads: Any) -> Any:
  policy = networks.actor(params['actor'], obs)
  x, log_prob = policy.sample_branches(seed=key)
  q = np.asarray(networks.critic(params[component], obs, x), np.float64)
  logits = np.asarray(policy.categorical.logits, np.float64)
  return hybrid_soft_actor_critic.hybrid_soft_value(
    q[heads], logits, np.asarray(log_prob, np.float64), ALPHA, ALPHA, policy.categorical.mask
  )


KINDS = {
  'sac': (
    lambda: make_plain_networks(N, dtype=jnp.float64),
    lambda: sac_test.make_batch(dtype=np.float64),
    sampled,
    lambda networks, params, batch: networks.critic(params, batch.obs_tm1, batch.a_tm1),
  ),
  'sac_discrete': (
    lambda: sac_discrete_test.make_networks(N, dtype=np.float64),
    lambda: sac_discrete_test.make_batch(dtype=np.float64),
    enumerated,
    lambda networks, params, batch: networks.critic(params, batch.obs_tm1)[:, np.arange(8), batch.a_tm1],
  ),
  'sac_hybrid': (
    lambda: sac_hybrid_test.make_bandit_networks(num_critics=N),
    lambda: jax.tree.map(jnp.asarray, sac_hybrid_test.make_terminal_batch()),
    hybrid,
    lambda networks, params, batch: networks.critic(
      params, batch.obs_tm1, np.repeat(batch.a_tm1['continuous'][:, None], 4, axis=1)
    )[:, np.arange(8), batch.a_tm1['discrete']],
  ),
}


@pytest.mark.parametrize('recipe', KINDS)
def test_a_random_subset_of_critics_is_that_of_numpy(recipe: str):
  make_networks, make_batch, value, taken = KINDS[recipe]
  with enable_x64():
    networks, batch = make_networks(), make_batch()
    drawn = []

    def recorded(q: Any, key: Any) -> Any:
      """Tells the draw by the key; the recipe is given the real reduction."""
      drawn.append(np.sort(np.asarray(jax.random.choice(key, N, (M,), replace=False))))
      return reductions.random_subset(M)(q, key)

    algorithm = getattr(recipes, recipe)(networks, reduce=recorded, initial_alpha=ALPHA)
    state = algorithm.init(jax.random.key(1))
    # Not compiled, so that the draws can be read; the keys are those of the chain's blocks.
    new, info = algorithm.update_with_info(state, batch)
    critic_key, actor_key = jax.random.split(jax.random.split(state.key)[1], 4)[:2]
    critic_heads, actor_heads = drawn[:2]
    assert len(set(critic_heads.tolist())) == len(set(actor_heads.tolist())) == M
    v_t = value(networks, state.params, 'target_critic', batch.obs_t, critic_key, critic_heads)
    target = np.asarray(batch.r_t, np.float64) + np.asarray(batch.discount_t, np.float64) * v_t
    q_tm1 = np.asarray(taken(networks, state.params['critic'], batch), np.float64)
    tolerance = {'rtol': 1e-5, 'atol': 1e-5}
    np.testing.assert_allclose(info['td_error'], target - q_tm1, **tolerance)
    losses = 0.5 * np.sum((target - q_tm1) ** 2, axis=0)
    np.testing.assert_allclose(info['critic_loss'], losses.mean(), **tolerance)
    # The actor sees the critics that have just moved.
    moved = {**state.params, 'critic': new.params['critic']}
    v_tm1 = value(networks, moved, 'critic', batch.obs_tm1, actor_key, actor_heads)
    np.testing.assert_allclose(info['actor_loss'], -v_tm1.mean(), **tolerance)


@pytest.mark.parametrize('recipe', KINDS)
def test_each_update_draws_another_subset(recipe: str):
  make_networks, make_batch, _, _ = KINDS[recipe]
  drawn = []

  def recorded(q: Any, key: Any) -> Any:
    heads = jax.random.choice(key, N, (M,), replace=False)
    jax.debug.callback(lambda x: drawn.append(tuple(sorted(np.asarray(x).tolist()))), heads)
    return reductions.random_subset(M)(q, key)

  with enable_x64():
    algorithm = getattr(recipes, recipe)(make_networks(), reduce=recorded)
    state, batch, update = algorithm.init(jax.random.key(1)), make_batch(), jax.jit(algorithm.update)
    for _ in range(8):
      state, _ = update(state, batch)
    jax.block_until_ready(state)
    jax.effects_barrier()
  assert len(set(drawn)) > 4


def test_sac_takes_every_kind_and_has_its_target_entropy():
  for make_networks, named in (
    (sac_discrete_test.make_networks, recipes.sac_discrete),
    (sac_hybrid_test.make_bandit_networks, recipes.sac_hybrid),
  ):
    networks = make_networks()
    batch = sac_discrete_test.make_batch() if named is recipes.sac_discrete else sac_hybrid_test.make_batch()
    states = []
    for recipe in (recipes.sac, named):
      algorithm = recipe(networks)
      states.append(jax.jit(algorithm.update)(algorithm.init(jax.random.key(0)), batch))
    jax.tree.map(
      np.testing.assert_array_equal, jax.tree.map(_data, states[0]), jax.tree.map(_data, states[1])
    )


def _data(x: Any) -> Any:
  return jax.random.key_data(x) if jnp.issubdtype(x.dtype, jax.dtypes.prng_key) else x


def test_a_recipe_says_which_kind_it_needs():
  with pytest.raises(ValueError, match='sac_discrete needs networks of discrete actions'):
    recipes.sac_discrete(make_plain_networks())
  with pytest.raises(ValueError, match='sac_hybrid needs networks of hybrid actions'):
    recipes.sac_hybrid(make_plain_networks())
  assert sb.actions.sampled(3).target_entropy == -3.0
