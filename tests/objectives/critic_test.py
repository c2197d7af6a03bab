"""The critics' and the actor's objective with policies, networks and targets of others."""

from __future__ import annotations

from typing import Any

import chex
import distrax
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from sac_blocks import ActorCritic, Network, Transition, actions, blocks, objectives, recipes

B, D, F = 6, 2, 3
KEY = jax.random.key(0)


def transformed(loc: Any, scale: Any) -> Any:
  law = distrax.Independent(distrax.Normal(loc, scale), 1)
  return distrax.Transformed(law, distrax.Block(distrax.Tanh(), 1))


POLICIES = {
  'Independent': lambda loc, scale: distrax.Independent(distrax.Normal(loc, scale), 1),
  'Transformed': transformed,
  'Transformed inside': lambda loc, scale: distrax.Independent(
    distrax.Transformed(distrax.Normal(loc, scale), distrax.Tanh()), 1
  ),
  'MultivariateNormalDiag': distrax.MultivariateNormalDiag,
}


def make_networks(policy: Any) -> ActorCritic:
  def init(key: Any) -> Any:
    return 0.1 * jax.random.normal(key, (F, 2 * D))

  def actor(params: Any, obs: Any) -> Any:
    loc, raw = jnp.split(obs @ params, 2, axis=-1)
    return policy(loc, jnp.exp(raw - 1.0))

  def critic(params: Any, obs: Any, action: Any) -> Any:
    x = jnp.concatenate([obs, action], axis=-1)
    return jnp.tanh(jnp.einsum('...i,ni->n...', x, params))

  return ActorCritic(
    Network(init, actor), Network(lambda key: jax.random.normal(key, (2, F + D)), critic), actions.sampled(D)
  )


def make_batch(action: Any) -> Transition:
  rng = np.random.default_rng(0)
  obs_tm1, obs_t = rng.normal(size=(2, B, F)).astype(np.float32)
  return Transition(obs_tm1, action, np.ones(B, np.float32), np.full(B, 0.9, np.float32), obs_t)


@pytest.mark.parametrize('name', POLICIES)
def test_continuous_policies_of_distrax_learn_and_act(name: str):
  networks = make_networks(POLICIES[name])
  algorithm = recipes.sac(networks)
  state = algorithm.init(KEY)
  batch = make_batch(np.zeros((B, D), np.float32))
  new, metrics = jax.jit(algorithm.update)(state, batch)
  chex.assert_tree_all_finite((new.params, metrics))
  assert np.any(new.params['actor'] != state.params['actor'])
  # Towards r + 0.9 (min q - alpha log pi), of the sample that the first block's key gives.
  key = jax.random.split(jax.random.split(state.key)[1], 4)[0]
  policy = networks.actor(state.params['actor'], batch.obs_t)
  a_t, log_prob = policy.sample_and_log_prob(seed=key)
  q_t = np.min(networks.critic(state.params['target_critic'], batch.obs_t, a_t), axis=0)
  target = 1.0 + 0.9 * (q_t - np.asarray(log_prob))
  _, info = jax.jit(algorithm.update_with_info)(state, batch)
  q_tm1 = networks.critic(state.params['critic'], batch.obs_tm1, batch.a_tm1)
  np.testing.assert_allclose(info['td_error'], target - q_tm1, rtol=1e-4, atol=1e-5)
  for act in (algorithm.policy, algorithm.evaluation_policy, algorithm.random_policy):
    chex.assert_shape(jax.jit(act)(state.params, batch.obs_t, KEY), (B, D))
  greedy = algorithm.evaluation_policy(state.params, batch.obs_t, KEY)
  loc = batch.obs_t @ state.params['actor'][:, :D]
  expected = np.tanh(loc) if 'Transformed' in name else loc
  np.testing.assert_allclose(greedy, expected, rtol=1e-5, atol=1e-6)
  uniform = np.asarray(algorithm.random_policy(state.params, np.zeros((4000, F), np.float32), KEY))
  assert np.all(np.abs(uniform) <= 1.0)
  np.testing.assert_allclose(uniform.mean(axis=0), 0.0, atol=0.05)
  np.testing.assert_allclose(uniform.var(axis=0), 1.0 / 3.0, atol=0.02)


def test_the_categorical_of_distrax_does_what_ours_does():
  from sac_blocks.distributions import Categorical

  def make(policy: Any) -> Any:
    networks = ActorCritic(
      Network(lambda key: jax.random.normal(key, (F, 4)), lambda params, obs: policy(obs @ params)),
      Network(
        lambda key: jax.random.normal(key, (2, F, 4)), lambda w, obs: jnp.einsum('bi,nia->nba', obs, w)
      ),
      actions.enumerated(4),
    )
    return recipes.sac_discrete(networks)

  ours, theirs = make(Categorical), make(distrax.Categorical)
  batch, state = make_batch(np.arange(B, dtype=np.int32) % 4), ours.init(KEY)
  updated = [jax.jit(algorithm.update)(state, batch) for algorithm in (ours, theirs)]
  chex.assert_trees_all_close(updated[0][0].params, updated[1][0].params, rtol=1e-5, atol=1e-6)
  chex.assert_trees_all_close(updated[0][1], updated[1][1], rtol=1e-5, atol=1e-6)
  for act in ('policy', 'evaluation_policy', 'random_policy'):
    action = getattr(theirs, act)(state.params, batch.obs_t, KEY)
    chex.assert_shape(action, (B,))
    assert set(np.asarray(action).tolist()) <= set(range(4))


def test_an_algorithm_without_target_critics_is_a_word_in_the_objective():
  networks = make_networks(transformed)
  starts = recipes.actor_critic_components(networks, initial_alpha=0.5)
  del starts['target_critic']
  critic = objectives.critic_objective(networks, target='critic')
  block = blocks.chain(
    blocks.gradient_step('critic', critic, optax.sgd(0.1)),
    blocks.gradient_step('actor', objectives.actor_objective(networks), optax.sgd(0.1)),
  )
  algorithm = recipes.algorithm(networks, block, components=starts)
  state, batch = algorithm.init(KEY), make_batch(np.zeros((B, D), np.float32))
  assert sorted(state.params) == ['actor', 'critic', 'log_alpha']
  new, info = algorithm.update_with_info(state, batch)
  # The step of a target that is data: no gradient runs through it.
  target = info['td_error'] + networks.critic(state.params['critic'], batch.obs_tm1, batch.a_tm1)

  def regression(critic_params: Any) -> Any:
    q = networks.critic(critic_params, batch.obs_tm1, batch.a_tm1)
    return jnp.mean(jnp.sum(0.5 * (q - jax.lax.stop_gradient(target)) ** 2, axis=0))

  gradient = jax.grad(regression)(state.params['critic'])
  np.testing.assert_allclose(
    new.params['critic'], state.params['critic'] - 0.1 * gradient, rtol=1e-5, atol=1e-6
  )


def test_stochastic_networks_get_a_key_of_their_own_in_each_place_and_none_in_acting():
  """A network that adds its noise shows which keys it is given."""
  seen = []

  def noisy(name: str) -> Any:
    def apply(params: Any, *inputs: Any, key: Any = None) -> Any:
      seen.append((name, None if key is None else tuple(jax.random.key_data(key).tolist())))
      obs, *rest = inputs
      x = jnp.concatenate([obs, *rest], axis=-1)
      if name == 'actor':
        return distrax.MultivariateNormalDiag(obs @ params, jnp.ones((*obs.shape[:-1], D)))
      noise = 0.0 if key is None else jax.random.normal(key, (2, *obs.shape[:-1]))
      return jnp.einsum('...i,ni->n...', x, params) + noise

    return apply

  networks = ActorCritic(
    Network(lambda key: jax.random.normal(key, (F, D)), noisy('actor'), stochastic=True),
    Network(lambda key: jax.random.normal(key, (2, F + D)), noisy('critic'), stochastic=True),
    actions.sampled(D),
  )
  algorithm = recipes.sac(networks)
  state, batch = algorithm.init(KEY), make_batch(np.zeros((B, D), np.float32))
  with jax.disable_jit():
    algorithm.update(state, batch)
    calls = list(seen)
    assert [name for name, _ in calls] == ['actor', 'critic', 'critic', 'actor', 'critic']
    assert len({key for _, key in calls}) == 5
    assert None not in {key for _, key in calls}
    seen.clear()
    algorithm.policy(state.params, batch.obs_t, KEY)
    algorithm.evaluation_policy(state.params, batch.obs_t, KEY)
  assert seen == [('actor', None)] * 2
