"""The discrete SAC recipe: updates by hand, masks, target entropies, its options, and that it composes."""

from __future__ import annotations

import functools
import itertools
import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

import sac_blocks as sb
from sac_blocks import ActorCritic, Network, Transition, distributions, recipes, reductions
from tests.numerics import enable_x64, finite_differences

FEATURES = 3
ACTIONS = 4
SIZES = (2, 2)
GAMMA = 0.97
SGD = {
  'critic_optimizer': optax.sgd(0.1),
  'actor_optimizer': optax.sgd(0.5),
  'temperature_optimizer': optax.sgd(0.2),
}

SCHEDULE = optax.linear_schedule(0.9, 0.1, transition_steps=4)
RATIOS = [0.9, 0.7, 0.5, 0.3, 0.1, 0.1]
EVERYTHING = {
  'target_entropy_ratio': SCHEDULE,
  'tau': 1.0,
  'target_update_period': 3,
  'actor_update_period': 2,
  'normalize_observations': True,
  **SGD,
}


def make_networks(
  num_critics: int = 2, *, factored: bool = False, masked: bool = True, dtype: Any = np.float32
) -> ActorCritic:
  """Linear actor and critics of a dict observation, whose mask makes actions illegal."""

  def actor(params: Any, obs: Any) -> Any:
    logits = obs['x'] @ params['w'] + params['b']
    mask = obs['action_mask'] if masked else None
    return (
      distributions.FactoredCategorical(logits, SIZES, mask)
      if factored
      else distributions.Categorical(logits, mask)
    )

  def init(*shape: int) -> Any:
    def init(key: Any) -> Any:
      return {
        'w': jax.random.normal(key, shape, dtype),
        'b': 0.1 * jax.random.normal(jax.random.fold_in(key, 1), (*shape[:-2], shape[-1]), dtype),
      }

    return init

  def critic(params: Any, obs: Any) -> Any:
    q = jnp.einsum('...i,nia->n...a', obs['x'], params['w'])
    return q + params['b'].reshape(num_critics, *[1] * (q.ndim - 2), ACTIONS)

  return ActorCritic(
    Network(init(FEATURES, ACTIONS), actor),
    Network(init(num_critics, FEATURES, ACTIONS), critic),
    sb.actions.enumerated(ACTIONS),
    {
      'x': jax.ShapeDtypeStruct((FEATURES,), np.float32),
      'action_mask': jax.ShapeDtypeStruct((ACTIONS,), np.bool_),
    },
  )


def make_mask(rng: np.random.Generator, size: int, *, factored: bool = False) -> np.ndarray:
  """Masks of 1 to 4 legal actions; the first row has one, the second all."""
  widths = SIZES if factored else (ACTIONS,)
  parts = []
  for width in widths:
    part = rng.random((size, width)) < 0.6
    part[np.arange(size), rng.integers(width, size=size)] = True
    part[0] = np.arange(width) == width - 1
    part[1] = True
    parts.append(part)
  return np.concatenate(parts, axis=1)


def joint_mask(mask: np.ndarray) -> np.ndarray:
  """The legal pairs of two choices of two, the second fastest."""
  return (mask[:, :2, None] & mask[:, None, 2:]).reshape(-1, 4)


def make_batch(
  size: int = 8, seed: int = 0, *, factored: bool = False, dtype: Any = np.float32, **changes: Any
) -> Transition:
  rng = np.random.default_rng(seed)
  mask_tm1, mask_t = (make_mask(rng, size, factored=factored) for _ in range(2))
  discount_t = np.where(rng.random(size) < 0.25, 0.0, GAMMA)
  discount_t[-1] = 0.0
  # What an episode ends in may have no legal action at all.
  mask_t[discount_t == 0.0] = False
  legal = joint_mask(mask_tm1) if factored else mask_tm1
  action = np.array([rng.choice(np.flatnonzero(row)) for row in legal], np.int32)
  batch = Transition(
    obs_tm1={'x': rng.normal(size=(size, FEATURES)).astype(dtype), 'action_mask': mask_tm1},
    a_tm1=np.stack([action // 2, action % 2], axis=-1) if factored else action,
    r_t=rng.normal(size=size).astype(dtype),
    discount_t=discount_t.astype(dtype),
    obs_t={'x': rng.normal(size=(size, FEATURES)).astype(dtype), 'action_mask': mask_t},
  )
  return batch._replace(**changes)


@functools.cache
def everything() -> Any:
  """The algorithm with all options that carry a state or a counter, and its compiled update."""
  algorithm = recipes.sac_discrete(make_networks(), **EVERYTHING)
  return algorithm, jax.jit(algorithm.update)


def train(key: Any = None, steps: int = 7) -> Any:
  """Returns the states before, between and after updates of `everything`, and the updates' metrics."""
  algorithm, update = everything()
  states, metrics = [algorithm.init(jax.random.key(0) if key is None else key)], []
  for i in range(steps):
    state, step_metrics = update(states[-1], make_batch(seed=i))
    states.append(state)
    metrics.append(step_metrics)
  return states, metrics


def assert_trees_close(actual: Any, expected: Any, tolerance: float = 1e-5) -> None:
  assert jax.tree.structure(actual) == jax.tree.structure(expected)
  for a, b in zip(jax.tree.leaves(actual), jax.tree.leaves(expected), strict=True):
    np.testing.assert_allclose(a, b, rtol=tolerance, atol=tolerance)


def changed(before: Any, after: Any) -> set[str]:
  """Returns the components of which any bit differs."""
  return {
    name
    for name in before
    if any(
      np.any(a != b) for a, b in zip(jax.tree.leaves(before[name]), jax.tree.leaves(after[name]), strict=True)
    )
  }


def one_legal(size: int) -> np.ndarray:
  return np.arange(ACTIONS) == np.arange(size)[:, None] % ACTIONS


class NumPySACDiscrete:
  """The updates of the linear networks in float64 NumPy, row by row, with numerical gradients.

  Christodoulou 2019, arXiv 1910.07207: eqs. 4 and 10 for the critics, 12 for the actor, 11 for the
  temperature, algorithm 1 for the order; the mean over critics is that of Zhou et al. 2022, arXiv 2209.10081.
  """

  def __init__(
    self,
    params: Any,
    *,
    ratio: float = 0.5,
    reduce: Any = np.min,
    entropy_backup: bool = True,
    huber: bool = False,
    factored: bool = False,
    masked: bool = True,
  ):
    self.params = jax.tree.map(lambda x: np.asarray(x, np.float64), params)
    self.ratio, self.entropy_backup, self.huber = ratio, entropy_backup, huber
    self.factored, self.masked = factored, masked
    self.reduce = reduce

  def policy(self, actor: Any, obs: Any, row: int) -> dict[int, float]:
    """Returns {action: probability} of the legal actions."""
    logits = obs['x'][row] @ actor['w'] + actor['b']
    mask = obs['action_mask'][row] if self.masked else np.ones(ACTIONS, bool)

    def softmax(places: Any) -> dict[int, float]:
      weights = {i: math.exp(logits[place]) for i, place in enumerate(places) if mask[place]}
      return {i: weight / sum(weights.values()) for i, weight in weights.items()}

    if not self.factored:
      return softmax(range(ACTIONS))
    first, second = softmax((0, 1)), softmax((2, 3))
    return {2 * i + j: p * first_p for i, first_p in first.items() for j, p in second.items()}

  def q(self, critic: Any, obs: Any, row: int) -> np.ndarray:
    return np.stack([obs['x'][row] @ w + b for w, b in zip(critic['w'], critic['b'], strict=True)])

  def value(self, actor: Any, critic: Any, alpha: float, obs: Any, row: int) -> float:
    q = self.reduce(self.q(critic, obs, row), axis=0)
    return sum(p * (q[a] - alpha * math.log(p)) for a, p in self.policy(actor, obs, row).items())

  def descend(self, component: str, loss: Any, learning_rate: float) -> None:
    old, new = self.params[component], {}
    for name in old:
      gradient = finite_differences(lambda x, name=name: loss({**old, name: x}), old[name])
      new[name] = old[name] - learning_rate * gradient
    self.params[component] = new

  def update(self, batch: Transition) -> None:
    params, size = self.params, len(batch.r_t)
    alpha = math.exp(params['log_alpha'])
    weights = np.ones(size) if batch.weights is None else batch.weights
    target = [
      batch.r_t[i]
      + batch.discount_t[i]
      * self.value(
        params['actor'], params['target_critic'], alpha if self.entropy_backup else 0.0, batch.obs_t, i
      )
      for i in range(size)
    ]

    def critic_loss(critic: Any) -> float:
      total = 0.0
      for i in range(size):
        action = batch.a_tm1[i] @ (2, 1) if self.factored else batch.a_tm1[i]
        for q in self.q(critic, batch.obs_tm1, i)[:, action]:
          error = abs(q - target[i])
          square = 0.5 * error**2
          total += weights[i] * (error - 0.5 if self.huber and error > 1.0 else square)
      return total / size

    self.descend('critic', critic_loss, 0.1)
    entropy_gaps = []
    for i in range(size):
      policy = self.policy(params['actor'], batch.obs_tm1, i)
      entropy = -sum(p * math.log(p) for p in policy.values())
      entropy_gaps.append(entropy - self.ratio * math.log(len(policy)))

    def actor_loss(actor: Any) -> float:
      return -np.mean([self.value(actor, params['critic'], alpha, batch.obs_tm1, i) for i in range(size)])

    self.descend('actor', actor_loss, 0.5)
    # The gradient of exp(log_alpha) (H - target).
    params['log_alpha'] = params['log_alpha'] - 0.2 * alpha * np.mean(entropy_gaps)
    for name, online in params['critic'].items():
      params['target_critic'][name] = 0.7 * params['target_critic'][name] + 0.3 * online


@pytest.mark.parametrize(
  ('num_critics', 'options', 'kind'),
  [
    (1, {}, {}),
    (2, {'entropy_backup': False}, {}),
    (2, {'reduce': reductions.mean}, {'masked': False}),
    (2, {'pointwise_loss': optax.huber_loss}, {'factored': True}),
    (5, {'target_entropy_ratio': 0.9}, {}),
    (5, {'reduce': reductions.mean}, {'factored': True}),
  ],
)
def test_three_updates_are_those_of_numpy(num_critics: int, options: dict[str, Any], kind: dict[str, bool]):
  with enable_x64():
    networks = make_networks(num_critics, dtype=np.float64, **kind)
    algorithm = recipes.sac_discrete(networks, tau=0.3, initial_alpha=0.5, **SGD, **options)
    state = algorithm.init(jax.random.key(1))
    reference = NumPySACDiscrete(
      state.params,
      ratio=options.get('target_entropy_ratio', 0.5),
      reduce=np.mean if 'reduce' in options else np.min,
      entropy_backup=options.get('entropy_backup', True),
      huber='pointwise_loss' in options,
      **kind,
    )
    update = jax.jit(algorithm.update)
    for i in range(3):
      batch = make_batch(seed=i, factored=kind.get('factored', False), dtype=np.float64)
      if i == 1:
        batch = batch._replace(weights=np.linspace(0.2, 2.0, 8))
      state, _ = update(state, batch)
      reference.update(batch)
    # log_alpha is a float32 component.
    assert_trees_close(state.params, reference.params, 1e-6)


def test_metrics_are_named_scalars():
  names = {
    'actor_loss',
    'alpha',
    'critic_loss',
    'log_alpha_loss',
    'policy_entropy',
    'q_mean',
    'target_entropy',
  }
  for options, expected in (
    ({}, names),
    ({'target_entropy_ratio': SCHEDULE}, names | {'target_entropy_ratio'}),
    ({'target_entropy': 0.5}, names - {'target_entropy'}),
    ({'learn_temperature': False}, names - {'alpha', 'log_alpha_loss', 'target_entropy'}),
  ):
    algorithm = recipes.sac_discrete(make_networks(), **options)
    state = jax.eval_shape(algorithm.init, jax.random.key(0))
    assert sorted(state.params) == ['actor', 'critic', 'log_alpha', 'target_critic']
    new, metrics = jax.eval_shape(algorithm.update, state, make_batch())
    assert set(metrics) == expected
    assert {(value.shape, value.dtype) for value in metrics.values()} == {((), np.dtype(np.float32))}
    assert jax.tree.map(lambda x: (x.shape, x.dtype), new) == jax.tree.map(
      lambda x: (x.shape, x.dtype), state
    )


# Target entropies.


def test_states_without_a_choice_leave_the_temperature_alone():
  """They count in the mean, with nothing: half of such rows make half the step."""
  networks = make_networks()
  algorithm = recipes.sac_discrete(networks, initial_alpha=2.0, target_entropy_ratio=0.98, **SGD)
  state = algorithm.init(jax.random.key(0))
  update = jax.jit(algorithm.update)
  batch = make_batch(8)
  mask = np.repeat([[1, 1, 0, 1]], 8, axis=0).astype(bool)
  steps = []
  for choices in (8, 4, 0):
    mask[choices:] = one_legal(8)[choices:]
    # The same 4 states stand twice where all have a choice.
    x = np.tile(batch.obs_tm1['x'][:4], (2, 1))
    some = batch._replace(obs_tm1={'x': x, 'action_mask': mask.copy()}, a_tm1=mask.argmax(axis=1))
    new, metrics = update(state, some)
    steps.append(float(new.params['log_alpha'] - state.params['log_alpha']))
  assert abs(steps[0]) > 1e-2
  np.testing.assert_allclose(steps[1], steps[0] / 2, rtol=1e-5)
  assert steps[2] == 0.0
  assert metrics['log_alpha_loss'] == metrics['policy_entropy'] == metrics['target_entropy'] == 0.0


def log_alpha_after(target: dict[str, Any], batch: Transition, steps: int = 1) -> Any:
  """Returns log_alpha after updates at a rate of 0.2 from alpha = 1, and their metrics."""
  algorithm = recipes.sac_discrete(make_networks(), **target, **SGD)
  state, metrics = algorithm.init(jax.random.key(0)), []
  update = jax.jit(algorithm.update)
  for _ in range(steps):
    state, step_metrics = update(state, batch)
    metrics.append(step_metrics)
  return float(state.params['log_alpha']), metrics


def test_an_absolute_target_of_zero_is_taken_whatever_the_ratio():
  options = {'target_entropy': 0.0, 'target_entropy_ratio': 0.1}
  log_alpha, (metrics,) = log_alpha_after(options, make_batch())
  np.testing.assert_allclose(log_alpha, -0.2 * metrics['policy_entropy'], rtol=1e-5)


def test_scheduled_ratio_counts_updates_and_is_what_the_temperature_learns_by():
  batch = make_batch()
  mean_log = np.mean(np.log(batch.obs_tm1['action_mask'].sum(axis=1)))
  log_alpha, metrics = log_alpha_after({'target_entropy_ratio': SCHEDULE}, batch, steps=6)
  np.testing.assert_allclose([m['target_entropy_ratio'] for m in metrics], RATIOS, rtol=1e-5)
  np.testing.assert_allclose([m['target_entropy'] for m in metrics], np.array(RATIOS) * mean_log, rtol=1e-5)
  expected = 0.0
  for step_metrics, ratio in zip(metrics, RATIOS, strict=True):
    np.testing.assert_allclose(step_metrics['alpha'], np.exp(expected), rtol=1e-4)
    expected -= 0.2 * np.exp(expected) * (float(step_metrics['policy_entropy']) - ratio * mean_log)
  np.testing.assert_allclose(log_alpha, expected, rtol=1e-4)


def test_scheduled_ratio_counts_updates_where_the_actor_is_delayed_too():
  _, metrics = train(steps=6)
  np.testing.assert_allclose([m['target_entropy_ratio'] for m in metrics], RATIOS, rtol=1e-5)
  for i in (0, 2, 4):
    mean_log = np.mean(np.log(make_batch(seed=i).obs_tm1['action_mask'].sum(axis=1)))
    np.testing.assert_allclose(metrics[i]['target_entropy'], RATIOS[i] * mean_log, rtol=1e-5)
    # A skipped step reports the metric last seen.
    assert metrics[i]['target_entropy'] == metrics[i + 1]['target_entropy']


# What moves when, and by what.


def test_periods_of_actor_and_target_critics_are_their_own():
  """Every second update the actor, every third a hard copy that stays in between, critics always."""
  states, metrics = train()
  for i, (before, after) in enumerate(itertools.pairwise(states)):
    moved = {'critic', 'observation_statistics'}
    moved |= {'actor', 'log_alpha'} if i % 2 == 0 else set()
    moved |= {'target_critic'} if i % 3 == 0 else set()
    assert changed(before.params, after.params) == moved
    if i % 3 == 0:
      for name, value in after.params['critic'].items():
        np.testing.assert_array_equal(after.params['target_critic'][name], value)
    assert np.isfinite(metrics[i]['actor_loss'])


def test_gradients_reach_only_the_component_of_their_block():
  """A huge step in one component at a time; the others have to stay bit for bit."""
  components = ('critic', 'actor', 'log_alpha')

  @jax.jit
  def step(rates: Any) -> Any:
    optimizers = [optax.sgd(rate) for rate in rates]
    names = ('critic_optimizer', 'actor_optimizer', 'temperature_optimizer')
    algorithm = recipes.sac_discrete(make_networks(), tau=0.0, **dict(zip(names, optimizers, strict=True)))
    state = algorithm.init(jax.random.key(0))
    return state.params, algorithm.update(state, make_batch())[0].params

  for component, rates in zip(components, 10.0 * np.eye(3, dtype=np.float32), strict=True):
    assert changed(*step(rates)) == {component}


# Masks.


def test_what_critics_say_of_illegal_actions_changes_no_bit():
  plain = make_networks()

  def critic(params: Any, obs: Any) -> Any:
    return jnp.where(obs['action_mask'], plain.critic.apply(params, obs), obs['anything'][..., None])

  networks = plain._replace(critic=plain.critic._replace(apply=critic))
  algorithm = recipes.sac_discrete(networks, tau=0.5, **SGD)
  update = jax.jit(algorithm.update)
  results = []
  # Something else in each row.
  for anything in ([0.0] * 4, [np.inf, -np.inf, np.nan, 1e30]):
    state = algorithm.init(jax.random.key(0))
    for i in range(3):
      batch = make_batch(seed=i)
      batch.obs_tm1['anything'] = batch.obs_t['anything'] = np.float32([*anything, *anything])
      state, metrics = update(state, batch)
    results.append((state.params, metrics))
  assert_trees_close(*results, tolerance=0.0)
  assert all(np.all(np.isfinite(leaf)) for leaf in jax.tree.leaves(results[0]))


def test_masks_stay_bool_beside_normalised_features():
  seen: dict[str, list[Any]] = {'actor': [], 'critic': []}
  networks = make_networks()

  def record(name: str, network: Network) -> Network:
    def apply(params: Any, obs: Any) -> Any:
      assert obs['action_mask'].dtype == jnp.bool_
      jax.debug.callback(lambda **obs: seen[name].append(jax.tree.map(np.asarray, obs)), **obs)
      return network.apply(params, obs)

    return network._replace(apply=apply)

  networks = networks._replace(
    actor=record('actor', networks.actor), critic=record('critic', networks.critic)
  )
  algorithm = recipes.sac_discrete(networks, normalize_observations=True)
  rng = np.random.default_rng(0)
  batch = make_batch(64)
  batch.obs_tm1['x'] = (8.0 + 2.0 * rng.normal(size=(64, FEATURES))).astype(np.float32)
  batch.obs_t['x'] = np.full((64, FEATURES), 10.0, np.float32)
  state, _ = jax.jit(algorithm.update)(algorithm.init(jax.random.key(0)), batch)
  jax.block_until_ready(state)
  jax.effects_barrier()
  mean, scale = batch.obs_tm1['x'].mean(axis=0), batch.obs_tm1['x'].std(axis=0)
  for name in seen:
    assert seen[name]
    for obs in seen[name]:
      raw = batch.obs_tm1 if np.array_equal(obs['action_mask'], batch.obs_tm1['action_mask']) else batch.obs_t
      np.testing.assert_array_equal(obs['action_mask'], raw['action_mask'])
      np.testing.assert_allclose(obs['x'], (raw['x'] - mean) / scale, atol=1e-4)
  assert algorithm.policy_components == ('actor', 'observation_statistics')
  action = jax.jit(algorithm.policy)(state.params, batch.obs_tm1, jax.random.key(0))
  assert np.all(np.take_along_axis(batch.obs_tm1['action_mask'], np.asarray(action)[:, None], axis=1))


# Acting.


@pytest.mark.parametrize('factored', [False, True])
def test_no_policy_takes_an_illegal_action(factored: bool):
  """Not even where the actor likes it best, for one observation and for many."""
  networks = make_networks(factored=factored)
  algorithm = recipes.sac_discrete(networks)
  params = algorithm.init(jax.random.key(0)).params
  size = 1000
  obs = make_batch(size, factored=factored).obs_tm1
  # Equal logits but for the first place, which is far ahead.
  params['actor'] = {'w': jnp.zeros((FEATURES, ACTIONS)), 'b': jnp.array([20.0, 0.0, 0.0, 0.0])}
  legal = joint_mask(obs['action_mask']) if factored else obs['action_mask']

  @jax.jit
  def act(obs: Any) -> Any:
    policies = (algorithm.policy, algorithm.evaluation_policy, algorithm.random_policy)
    return [policy(params, obs, jax.random.key(1)) for policy in policies]

  for action, single in zip(act(obs), act(jax.tree.map(lambda x: x[0], obs)), strict=True):
    assert action.dtype == single.dtype == jnp.int32
    assert action.shape == ((size, 2) if factored else (size,))
    assert single.shape == ((2,) if factored else ())
    place = np.asarray(action) @ (2, 1) if factored else np.asarray(action)
    assert np.all(legal[np.arange(size), place])
    # The first row has one legal action.
    np.testing.assert_array_equal(single, action[0])


def test_acting_samples_and_evaluation_is_greedy():
  algorithm = recipes.sac_discrete(make_networks())
  params = algorithm.init(jax.random.key(0)).params
  logits = np.array([1.0, 0.0, -1.0, 5.0])
  params['actor'] = {'w': jnp.zeros((FEATURES, ACTIONS)), 'b': jnp.asarray(logits, jnp.float32)}
  mask = np.array([True, True, True, False])
  obs = {'x': np.zeros((20_000, FEATURES), np.float32), 'action_mask': np.tile(mask, (20_000, 1))}
  for key in range(2):
    greedy = algorithm.evaluation_policy(params, obs, jax.random.key(key))
    np.testing.assert_array_equal(greedy, np.zeros(20_000))
  # Frequencies of 20,000 draws lie within 4 standard deviations of at most sqrt(1/4 / 20,000).
  p = np.exp(logits) * mask
  drawn = np.bincount(algorithm.policy(params, obs, jax.random.key(0)), minlength=4) / 20_000
  np.testing.assert_allclose(drawn, p / p.sum(), rtol=0, atol=0.015)
  uniform = np.bincount(algorithm.random_policy(params, obs, jax.random.key(0)), minlength=4) / 20_000
  np.testing.assert_allclose(uniform, mask / 3, rtol=0, atol=0.015)
  assert drawn[3] == uniform[3] == 0.0


def test_distrax_categorical_serves_as_the_policy():
  """And takes the very steps of ours; uniform actions are among its legal ones."""
  distrax = pytest.importorskip('distrax')
  ours = make_networks()

  def actor(params: Any, obs: Any) -> Any:
    logits = obs['x'] @ params['w'] + params['b']
    return distrax.Categorical(jnp.where(obs['action_mask'], logits, -jnp.inf))

  theirs = ours._replace(actor=ours.actor._replace(apply=actor))
  algorithms = [recipes.sac_discrete(networks, **SGD) for networks in (ours, theirs)]
  results = []
  for algorithm in algorithms:
    state = algorithm.init(jax.random.key(0))
    update = jax.jit(algorithm.update)
    for i in range(2):
      batch = make_batch(seed=i)
      # Its probabilities are NaN where no action is legal.
      batch.obs_t['action_mask'][:, 0] = True
      state, metrics = update(state, batch)
    action = algorithm.evaluation_policy(state.params, batch.obs_tm1, jax.random.key(0))
    results.append((state.params, metrics, action))
  assert_trees_close(*results)
  theirs = algorithms[1]
  assert theirs.policy(state.params, batch.obs_tm1, jax.random.key(0)).shape == (8,)
  for key in jax.random.split(jax.random.key(1), 20):
    uniform = theirs.random_policy(state.params, batch.obs_tm1, key)
    assert np.all(batch.obs_tm1['action_mask'][np.arange(8), uniform])


# Composition.


def test_many_updates_a_call_are_as_many_calls():
  states, reported = train(steps=4)
  many = recipes.sac_discrete(make_networks(), updates_per_call=4, **EVERYTHING)
  joined = jax.tree.map(lambda *x: np.concatenate(x), *[make_batch(seed=i) for i in range(4)])
  actual, metrics = jax.jit(many.update, donate_argnums=0)(many.init(jax.random.key(0)), joined)
  assert_trees_close(actual.params, states[-1].params)
  assert_trees_close(actual.blocks, states[-1].blocks)
  means = jax.tree.map(lambda *x: np.mean(x), *reported)
  assert_trees_close(metrics, means)
  np.testing.assert_allclose(means['target_entropy_ratio'], np.mean(RATIOS[:4]), rtol=1e-6)


def test_vmap_over_seeds_equals_each_seed_alone():
  algorithm, _ = everything()
  keys = jax.random.split(jax.random.key(3), 3)
  states = jax.vmap(algorithm.init)(keys)
  update = jax.jit(jax.vmap(algorithm.update, in_axes=(0, None)))
  for i in range(3):
    states, _ = update(states, make_batch(seed=i))
  for k in range(3):
    alone = train(keys[k], steps=3)[0][-1]
    assert_trees_close(jax.tree.map(lambda x, k=k: x[k], states.params), alone.params, 1e-4)


def test_hyperparameters_can_be_vmapped_arrays():
  def train_with(ratio: Any, tau: Any, alpha: Any, rate: Any) -> Any:
    options = {'target_entropy_ratio': ratio, 'tau': tau, 'initial_alpha': alpha}
    options.update({**SGD, 'actor_optimizer': optax.sgd(rate)})
    algorithm = recipes.sac_discrete(make_networks(), **options)
    return algorithm.update(algorithm.init(jax.random.key(0)), make_batch())[0].params

  values = [jnp.array(x) for x in ([0.2, 0.9], [0.0, 1.0], [0.5, 2.0], [0.1, 1.0])]
  together = jax.jit(jax.vmap(train_with))(*values)
  alone = jax.jit(train_with)
  first, second = (jax.tree.map(lambda x, i=i: x[i], together) for i in range(2))
  assert_trees_close(first, alone(*[float(x[0]) for x in values]))
  assert_trees_close(second, alone(*[float(x[1]) for x in values]))
  assert changed(first, second) == {'actor', 'critic', 'log_alpha', 'target_critic'}


def test_absolute_target_is_the_same_for_all_states_and_can_be_a_vmapped_array():
  def log_alpha_and_entropy(target: Any) -> Any:
    algorithm = recipes.sac_discrete(make_networks(), target_entropy=target, **SGD)
    state, metrics = algorithm.update(algorithm.init(jax.random.key(0)), make_batch())
    return state.params['log_alpha'], metrics['policy_entropy']

  targets = jnp.array([0.1, 0.6])
  log_alpha, entropy = jax.jit(jax.vmap(log_alpha_and_entropy))(targets)
  # The gradient of alpha (H - target) at alpha = 1, at a rate of 0.2.
  np.testing.assert_allclose(log_alpha, -0.2 * (entropy - targets), rtol=1e-5)


def test_two_devices_take_the_step_of_the_whole_batch():
  states, reported = train(steps=3)
  double = recipes.sac_discrete(make_networks(), axis_name='devices', **EVERYTHING)
  state = jax.tree.map(lambda x: jnp.stack([x, x]), double.init(jax.random.key(0)))
  update = jax.pmap(double.update, 'devices', devices=jax.devices()[:2])
  for i in range(3):
    halves = jax.tree.map(lambda x: x.reshape(2, -1, *x.shape[1:]), make_batch(seed=i))
    state, metrics = update(state, halves)
    for device in range(2):
      own = functools.partial(jax.tree.map, lambda x, device=device: x[device])
      assert_trees_close(own(state.params), states[i + 1].params, 1e-4)
      assert_trees_close(own(metrics), dict(reported[i]), 1e-4)


# Refusals.


@pytest.mark.parametrize(
  ('options', 'message'),
  [
    ({'target_entropy': -4.0}, r'target_entropy must lie in \[0.0, 1.386.*\], got -4.0'),
    ({'target_entropy': 1.39}, r'target_entropy must lie in .* got 1.39'),
    ({'target_entropy': math.nan}, 'target_entropy'),
    ({'target_entropy_ratio': -0.1}, r'target_entropy_ratio must lie in \[0.0, 1.0\], got -0.1'),
    ({'target_entropy_ratio': 1.1}, r'target_entropy_ratio must lie in \[0.0, 1.0\], got 1.1'),
    ({'tau': 1.5}, r'tau must lie in \[0.0, 1.0\], got 1.5'),
    ({'initial_alpha': 0.0}, r'initial_alpha must lie in \(0.0, inf\], got 0.0'),
    ({'target_update_period': 0}, 'n of at least 1, got 0'),
    ({'actor_update_period': 0}, 'n of at least 1, got 0'),
  ],
)
def test_wrong_options_are_named(options: dict[str, Any], message: str):
  with pytest.raises(ValueError, match=message):
    recipes.sac_discrete(make_networks(), **options)


def test_the_largest_entropies_are_targets():
  recipes.sac_discrete(make_networks(), target_entropy=math.log(4))
  recipes.sac_discrete(make_networks(), target_entropy=np.float32(np.log(4)))
  for ratio in (0.0, 1.0):
    recipes.sac_discrete(make_networks(), target_entropy_ratio=ratio)


def test_wrong_batches_are_named():
  algorithm = recipes.sac_discrete(make_networks())
  state, batch = jax.eval_shape(algorithm.init, jax.random.key(0)), make_batch()
  for error, message, changes in (
    (ValueError, 'weights', {'weights': np.ones((8, 1), np.float32)}),
    (TypeError, 'integers', {'a_tm1': batch.a_tm1.astype(np.float32)}),
    (ValueError, r'action \(8, 1\)', {'a_tm1': batch.a_tm1[:, None]}),
    (ValueError, 'discount_t', {'discount_t': batch.discount_t[:, None]}),
    (ValueError, 'r_t', {'r_t': batch.r_t[:, None]}),
  ):
    with pytest.raises(error, match=message):
      jax.eval_shape(algorithm.update, state, batch._replace(**changes))
