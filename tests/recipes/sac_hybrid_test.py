"""The hybrid recipe: it finds the soft-optimal policy of a bandit; its objectives by hand; its options."""

from __future__ import annotations

import math
import re
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

import sac_blocks as sb
from sac_blocks import ActorCritic, Network, Transition, distributions, objectives, recipes
from tests.references import hybrid_soft_actor_critic as reference

# A bandit of four branches, r = offset - steepness (x - best)^2, of which the last pays best but is illegal.
OFFSET = np.array([0.0, 0.0, 0.5, 10.0])
STEEPNESS = np.array([1.5, 3.0, 8.0, 1.0])
BEST = np.array([-0.2, 0.1, 0.4, 0.9])
LEGAL = np.array([True, True, True, False])
ALPHA = {'discrete': 0.5, 'continuous': 0.2}

with_and_without_sharing = pytest.mark.parametrize('shared', [False, True], ids=['per_branch', 'shared'])


def make_bandit_networks(shared: bool = False, num_critics: int = 2) -> ActorCritic:
  """A policy that ignores its observation, and critics that can represent the rewards exactly.

  An observation of 0 marks a state without legal branches.
  """
  shape = (1,) if shared else (4, 1)

  def init_actor(key: Any) -> Any:
    del key
    return {'logits': jnp.zeros(4), 'loc': jnp.zeros(shape), 'log_scale': jnp.zeros(shape)}

  def actor(params: Any, obs: Any) -> Any:
    def rows(x: Any) -> Any:
      return jnp.broadcast_to(x, (*obs.shape[:-1], *x.shape))

    mask = LEGAL & (obs != 0.0)
    gaussian = distributions.TanhGaussian(rows(params['loc']), rows(jnp.exp(params['log_scale'])))
    return distributions.Hybrid(distributions.Categorical(rows(params['logits']), mask), gaussian)

  def init_critic(key: Any) -> Any:
    return 0.5 * jax.random.normal(key, (num_critics, 4, 3))

  def critic(params: Any, obs: Any, x: Any) -> Any:
    del obs
    powers = jnp.concatenate([x**0, x, x**2], axis=-1)
    return jnp.stack([jnp.sum(powers * w, axis=-1) for w in params])

  return ActorCritic(Network(init_actor, actor), Network(init_critic, critic), sb.actions.hybrid(4, 1))


def make_batch(size: int = 8, seed: int = 0, **changes: Any) -> Transition:
  """Uniform actions, illegal ones among them, as another policy may have left them in replay."""
  rng = np.random.default_rng(seed)
  choice, x = rng.integers(0, 4, size), rng.uniform(-1.0, 1.0, size)
  reward = OFFSET[choice] - STEEPNESS[choice] * (x - BEST[choice]) ** 2
  batch = Transition(
    obs_tm1=np.ones((size, 1), np.float32),
    a_tm1={'discrete': choice.astype(np.int32), 'continuous': x[:, None].astype(np.float32)},
    r_t=reward.astype(np.float32),
    discount_t=np.zeros(size, np.float32),
    obs_t=np.ones((size, 1), np.float32),
  )
  return batch._replace(**changes)


def expected_reward_and_entropy(loc: Any, scale: Any) -> Any:
  """E[r_k(x)] `[..., A]` and the entropy `[...]` of x = tanh(u), by the trapezoidal rule over u."""
  z = np.linspace(-8.0, 8.0, 257)
  weights = np.exp(-0.5 * z**2) * (z[1] - z[0]) / math.sqrt(2.0 * math.pi)
  u = loc[..., None] + scale[..., None] * z
  log_slope = 2.0 * (math.log(2.0) - np.abs(u) - np.log1p(np.exp(-2.0 * np.abs(u))))
  squares = (np.tanh(u)[..., None, :] - BEST[:, None]) ** 2
  entropy = 0.5 * math.log(2.0 * math.pi * math.e) + np.log(scale) + log_slope @ weights
  return OFFSET - STEEPNESS * (squares @ weights), entropy


def maximize(objective: Any) -> tuple[float, float, float]:
  """Returns the largest value over loc and scale, and where it is, by ever finer grids."""
  loc, log_scale, width = 0.0, -1.0, 3.0
  for _ in range(8):
    locs, log_scales = loc + np.linspace(-width, width, 25), log_scale + np.linspace(-width, width, 25)
    values = objective(*np.broadcast_arrays(locs[:, None], np.exp(log_scales)[None]))
    i, j = np.unravel_index(np.argmax(values), values.shape)
    loc, log_scale, width = locs[i], log_scales[j], width / 4.0
  return float(values[i, j]), loc, math.exp(log_scale)


def soft_optimum(shared: bool) -> tuple[np.ndarray, np.ndarray]:
  """Returns the soft-optimal probabilities of the legal branches, and tanh of their Gaussians' means."""
  alpha_d, alpha_c = ALPHA['discrete'], ALPHA['continuous']

  def joint(loc: Any, scale: Any) -> Any:
    reward, entropy = expected_reward_and_entropy(loc, scale)
    return alpha_d * np.log(np.sum(np.exp(reward[..., :3] / alpha_d), axis=-1)) + alpha_c * entropy

  def of_branch(k: int) -> Any:
    def value(loc: Any, scale: Any) -> Any:
      reward, entropy = expected_reward_and_entropy(loc, scale)
      return reward[..., k] + alpha_c * entropy

    return value

  if shared:
    _, loc, scale = maximize(joint)
    values, locs = expected_reward_and_entropy(np.array(loc), np.array(scale))[0][:3], [loc]
  else:
    values, locs, _ = zip(*(maximize(of_branch(k)) for k in range(3)), strict=True)
  weights = np.exp((np.array(values) - max(values)) / alpha_d)
  return weights / weights.sum(), np.tanh(locs)


def decayed(rate: float, steps: int) -> optax.GradientTransformation:
  return optax.adam(optax.cosine_decay_schedule(rate, steps))


@pytest.mark.slow
@with_and_without_sharing
def test_policy_becomes_the_soft_optimal_one(shared: bool):
  """p_k is proportional to exp(W_k / alpha_d), with W_k the soft value of the best Gaussian in branch k."""
  steps, networks = 2000, make_bandit_networks(shared)
  algorithm = recipes.sac_hybrid(
    networks,
    learn_temperature=False,
    initial_alpha=ALPHA,
    critic_optimizer=decayed(0.05, steps),
    actor_optimizer=decayed(0.02, steps),
    updates_per_call=steps,
  )
  state, _ = jax.jit(algorithm.update)(algorithm.init(jax.random.key(0)), make_batch(128 * steps))
  policy = networks.actor.apply(state.params['actor'], jnp.ones(1))
  probs, modes = soft_optimum(shared)
  # W_k is at its maximum, so the Gaussians' errors enter squared. What is left is the noise of the last
  # steps: over seeds p varies by 3e-4 and tanh(loc) by 2e-3. Without the entropies in W_k p is off by 0.05.
  np.testing.assert_allclose(policy.categorical.probs, [*probs, 0.0], atol=2e-3)
  np.testing.assert_allclose(np.tanh(policy.continuous.loc).ravel()[: len(modes)], modes, atol=0.01)
  greedy = algorithm.evaluation_policy(state.params, jnp.ones(1), jax.random.key(0))
  assert greedy['discrete'] == 2
  np.testing.assert_allclose(greedy['continuous'], modes[-1:], atol=0.01)
  # The Gaussians of its own find what pays best in each branch; one for all can't.
  if not shared:
    np.testing.assert_allclose(modes, BEST[:3], atol=0.02)


@pytest.mark.slow
def test_temperatures_bring_each_entropy_to_its_own_target():
  algorithm = recipes.sac_hybrid(
    make_bandit_networks(),
    target_entropy_ratio=0.7,
    target_entropy_scale=0.5,
    critic_optimizer=optax.adam(0.05),
    actor_optimizer=optax.adam(0.01),
    temperature_optimizer=optax.adam(0.01),
    updates_per_call=1500,
  )
  state, update = algorithm.init(jax.random.key(0)), jax.jit(algorithm.update)
  for seed in range(2):
    state, metrics = update(state, make_batch(64 * 1500, seed))
  # Means over the last 1500 updates; three branches are legal of four.
  assert float(metrics['policy_entropy_discrete']) == pytest.approx(0.7 * math.log(3.0), abs=0.02)
  assert float(metrics['policy_entropy_continuous']) == pytest.approx(-0.5, abs=0.02)
  assert 0.0 < metrics['alpha_discrete'] != metrics['alpha_continuous'] > 0.0


# The objectives by hand, on a batch whose last state is terminal and has no legal branch.


def make_params(seed: int = 0) -> Any:
  rng = np.random.default_rng(seed)
  critics = rng.normal(size=(2, 2, 4, 3)).astype(np.float32)
  return {
    'actor': {
      'logits': jnp.asarray(rng.normal(size=4), jnp.float32),
      'loc': jnp.asarray(rng.normal(size=(4, 1)), jnp.float32),
      'log_scale': jnp.asarray(rng.uniform(-1.0, 0.0, size=(4, 1)), jnp.float32),
    },
    'critic': jnp.asarray(critics[0]),
    'target_critic': jnp.asarray(critics[1]),
    'log_alpha': {'discrete': jnp.log(0.3), 'continuous': jnp.log(0.7)},
  }


def make_terminal_batch(**changes: Any) -> Transition:
  rng = np.random.default_rng(1)
  choice = rng.integers(0, 4, 8).astype(np.int32)
  x = rng.uniform(-1.0, 1.0, (8, 1)).astype(np.float32)
  alive = np.arange(8)[:, None] < 7
  batch = make_batch(
    a_tm1={'discrete': choice, 'continuous': x},
    r_t=rng.normal(size=8).astype(np.float32),
    discount_t=0.9 * alive[:, 0].astype(np.float32),
    obs_t=alive.astype(np.float32),
  )
  return batch._replace(**changes)


def q_by_hand(w: Any, choice: int, x: float) -> np.ndarray:
  """Returns [N], each critic's value of one action."""
  return np.asarray(w, np.float64)[:, choice] @ np.array([1.0, x, x**2])


def branches_by_hand(params: Any, component: str, obs: Any, key: Any) -> Any:
  """Returns q [N, B, A], logits, log-probs and mask [B, A], at the continuous actions that the key gives."""
  x, log_prob = make_bandit_networks().actor.apply(params['actor'], obs).sample_branches(seed=key)
  q = np.zeros((2, 8, 4))
  for b, k in np.ndindex(8, 4):
    q[:, b, k] = q_by_hand(params[component], k, float(x[b, k, 0]))
  return q, np.tile(params['actor']['logits'], (8, 1)), np.asarray(log_prob), LEGAL & (obs != 0.0)


@pytest.mark.parametrize('reduction', ['minimum', 'mean'])
@pytest.mark.parametrize('entropy_backup', [True, False])
@pytest.mark.parametrize('weighted', [True, False])
def test_critic_objective_by_hand(reduction: str, entropy_backup: bool, weighted: bool):
  params, key = make_params(), jax.random.key(3)
  weights = np.linspace(0.2, 1.0, 8).astype(np.float32) if weighted else None
  batch = make_terminal_batch(weights=weights)
  objective = objectives.critic_objective(
    make_bandit_networks(), reduce=getattr(sb.reductions, reduction), entropy_backup=entropy_backup
  )
  loss, aux = objective.loss(params, batch, key, {})
  q_t, logits, log_prob, mask = branches_by_hand(params, 'target_critic', batch.obs_t, key)
  q_t = q_t.mean(axis=0, keepdims=True) if reduction == 'mean' else q_t
  alphas = (0.3, 0.7) if entropy_backup else (0.0, 0.0)
  target = reference.hybrid_soft_q_target(batch.r_t, batch.discount_t, q_t, logits, log_prob, *alphas, mask)
  taken = zip(batch.a_tm1['discrete'], batch.a_tm1['continuous'][:, 0], strict=True)
  q_tm1 = np.stack([q_by_hand(params['critic'], k, x) for k, x in taken], axis=-1)
  losses = 0.5 * np.sum((target - q_tm1) ** 2, axis=0) * (weights if weighted else 1.0)
  np.testing.assert_allclose(loss, losses.mean(), rtol=1e-5)
  np.testing.assert_allclose(aux['td_error'], target - q_tm1, rtol=1e-4, atol=1e-5)
  np.testing.assert_allclose(aux['q_mean'], q_tm1.mean(), rtol=1e-5)
  assert target[7] == pytest.approx(batch.r_t[7])


@pytest.mark.parametrize('reduction', ['minimum', 'mean'])
def test_actor_and_temperature_objectives_by_hand(reduction: str):
  params, key, networks = make_params(), jax.random.key(3), make_bandit_networks()
  batch = make_terminal_batch()
  batch = batch._replace(obs_tm1=batch.obs_t)
  objective = objectives.actor_objective(networks, reduce=getattr(sb.reductions, reduction))
  loss, aux = objective.loss(params, batch, key, {})
  q, logits, log_prob, mask = branches_by_hand(params, 'critic', batch.obs_tm1, key)
  q = q.mean(axis=0, keepdims=True) if reduction == 'mean' else q
  losses, discrete, continuous = reference.hybrid_actor_loss(logits, log_prob, q, 0.3, 0.7, mask)
  np.testing.assert_allclose(loss, losses.mean(), rtol=1e-5)
  np.testing.assert_allclose(aux['entropy']['discrete'], discrete, rtol=1e-5)
  np.testing.assert_allclose(aux['entropy']['continuous'], continuous, rtol=1e-4, atol=1e-5)
  np.testing.assert_allclose(aux['policy_entropy_discrete'], discrete.mean(), rtol=1e-5)
  np.testing.assert_allclose(aux['policy_entropy_continuous'], continuous.mean(), rtol=1e-4)
  np.testing.assert_array_equal(aux['legal'], mask)
  objective = objectives.temperature_objective(
    {'discrete': lambda info: sb.discrete_target_entropy(info['legal'], 0.5), 'continuous': -2.0}
  )
  loss, added = objective.loss(params, batch, key, aux)
  goal = 0.5 * math.log(3.0) * 7 / 8
  expected = 0.3 * (discrete.mean() - goal) + 0.7 * (continuous.mean() + 2.0)
  np.testing.assert_allclose(loss, expected, rtol=1e-4)
  np.testing.assert_allclose(added['alpha_discrete'], 0.3, rtol=1e-6)
  np.testing.assert_allclose(added['alpha_continuous'], 0.7, rtol=1e-6)
  np.testing.assert_allclose(added['target_entropy_discrete'], goal, rtol=1e-6)
  assert objective.metrics == ('alpha_discrete', 'alpha_continuous', 'target_entropy_discrete')


def test_temperature_objective_says_which_parts_differ():
  objective = objectives.temperature_objective({'discrete': 0.5, 'continuous': -1.0})
  with pytest.raises(
    ValueError, match=r"must have the same parts, got \['continuous', 'discrete'\], None and"
  ):
    objective.loss(make_params(), make_batch(), jax.random.key(0), {'entropy': jnp.zeros(8)})


@pytest.mark.parametrize('shape', [(8,), (1, 1), (8, 2), (8, 1, 1)])
def test_stored_actions_that_would_broadcast_are_refused(shape: tuple[int, ...]):
  action = {'discrete': np.zeros(8, np.int32), 'continuous': np.zeros(shape, np.float32)}
  objective = objectives.critic_objective(make_bandit_networks())
  with pytest.raises(ValueError, match=re.escape(str(shape))):
    objective.loss(make_params(), make_batch(a_tm1=action), jax.random.key(0), {})


# The recipe's options.


SGD = {
  'critic_optimizer': optax.sgd(0.1),
  'actor_optimizer': optax.sgd(0.05),
  'temperature_optimizer': optax.sgd(0.02),
}


def test_metrics_are_named_scalars_of_before_the_step():
  algorithm = recipes.sac_hybrid(make_bandit_networks(), initial_alpha=ALPHA, target_entropy_scale=2.0)
  _, metrics = jax.jit(algorithm.update)(algorithm.init(jax.random.key(0)), make_batch())
  assert sorted(metrics) == [
    'actor_loss',
    'alpha_continuous',
    'alpha_discrete',
    'critic_loss',
    'log_alpha_loss',
    'policy_entropy_continuous',
    'policy_entropy_discrete',
    'q_mean',
    'target_entropy_continuous',
    'target_entropy_discrete',
  ]
  assert all(value.shape == () for value in metrics.values())
  np.testing.assert_allclose(metrics['alpha_discrete'], 0.5, rtol=1e-6)
  np.testing.assert_allclose(metrics['alpha_continuous'], 0.2, rtol=1e-6)
  # Half of the largest entropy of three legal branches, and -2 for the one dimension.
  np.testing.assert_allclose(metrics['target_entropy_discrete'], 0.5 * math.log(3.0), rtol=1e-6)
  np.testing.assert_allclose(metrics['target_entropy_continuous'], -2.0, rtol=1e-6)


def test_the_scale_of_the_target_entropy_may_be_mapped():
  def target(scale):
    algorithm = recipes.sac_hybrid(make_bandit_networks(), target_entropy_scale=scale, **SGD)
    return algorithm.update(algorithm.init(jax.random.key(0)), make_batch())[1]['target_entropy_continuous']

  # Minus the scale, for the one dimension.
  np.testing.assert_allclose(jax.jit(jax.vmap(target))(jnp.array([0.5, 2.0])), [-0.5, -2.0], rtol=1e-6)


def test_one_number_is_the_temperature_of_both_parts():
  log_alpha = recipes.sac_hybrid(make_bandit_networks(), initial_alpha=0.25).init(jax.random.key(0)).params
  assert sorted(log_alpha['log_alpha']) == ['continuous', 'discrete']
  for value in log_alpha['log_alpha'].values():
    np.testing.assert_allclose(value, math.log(0.25), rtol=1e-6)


def test_states_without_legal_branches_leave_actor_and_temperatures_alone():
  algorithm = recipes.sac_hybrid(make_bandit_networks(), **SGD)
  state = algorithm.init(jax.random.key(0))
  none = np.zeros((8, 1), np.float32)
  new, _ = jax.jit(algorithm.update)(state, make_batch(obs_tm1=none, obs_t=none))
  for name in ('actor', 'log_alpha'):
    for a, b in zip(*map(jax.tree.leaves, (new.params[name], state.params[name])), strict=True):
      np.testing.assert_array_equal(a, b)


def test_target_entropy_ratio_can_follow_a_schedule():
  schedule = optax.linear_schedule(1.0, 0.0, transition_steps=4)
  algorithm = recipes.sac_hybrid(make_bandit_networks(), target_entropy_ratio=schedule)
  state, seen = algorithm.init(jax.random.key(0)), []
  for seed in range(3):
    state, metrics = jax.jit(algorithm.update)(state, make_batch(seed=seed))
    seen.append(float(metrics['target_entropy_discrete']))
  np.testing.assert_allclose(seen, np.array([1.0, 0.75, 0.5]) * math.log(3.0), rtol=1e-6)


def test_shared_options_reach_both_temperatures():
  options = {**SGD, 'temperature_optimizer': optax.sgd(100.0)}
  algorithm = recipes.sac_hybrid(
    make_bandit_networks(),
    target_entropy_ratio=0.0,
    target_entropy_scale=5.0,
    log_alpha_bounds=(-0.5, 0.5),
    actor_update_period=2,
    updates_per_call=4,
    **options,
  )
  state = algorithm.init(jax.random.key(0))
  first = jax.tree.leaves(state)
  state, metrics = jax.jit(algorithm.update, donate_argnums=0)(state, make_batch(32))
  assert all(leaf.is_deleted() for leaf in first)
  # Both entropies are above their targets, 0 and -5.
  assert state.params['log_alpha'] == {'discrete': -0.5, 'continuous': -0.5}
  assert all(np.isfinite(value) for value in metrics.values())
  fixed = recipes.sac_hybrid(make_bandit_networks(), learn_temperature=False, initial_alpha=ALPHA, **SGD)
  state, _ = jax.jit(fixed.update)(fixed.init(jax.random.key(0)), make_batch())
  for part, alpha in ALPHA.items():
    np.testing.assert_allclose(state.params['log_alpha'][part], math.log(alpha), rtol=1e-6)


def test_policies_act_on_legal_branches():
  algorithm = recipes.sac_hybrid(make_bandit_networks())
  params, obs = algorithm.init(jax.random.key(0)).params, jnp.ones((50, 1))
  for policy in (algorithm.policy, algorithm.evaluation_policy, algorithm.random_policy):
    action = jax.jit(policy)(params, obs, jax.random.key(0))
    assert action['discrete'].shape == (50,)
    assert action['continuous'].shape == (50, 1)
    assert np.all(action['discrete'] < 3)
  assert len(np.unique(np.asarray(action['discrete']))) == 3


@pytest.mark.parametrize(
  ('options', 'message'),
  [
    (
      {'initial_alpha': {'discrete': 1.0}},
      "initial_alpha must be a number or a dict of .'continuous', 'discrete'.",
    ),
    (
      {'initial_alpha': {'discrete': 1.0, 'continuous': 0.0}},
      r'initial_alpha must lie in \(0.0, inf\], got 0.0',
    ),
    ({'target_entropy_ratio': 1.5}, 'target_entropy_ratio must lie in'),
    ({'target_entropy_scale': -1.0}, 'target_entropy_scale must lie in'),
  ],
)
def test_wrong_options_are_named(options: dict[str, Any], message: str):
  with pytest.raises(ValueError, match=message):
    recipes.sac_hybrid(make_bandit_networks(), **options)
