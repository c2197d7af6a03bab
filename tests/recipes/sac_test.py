"""The SAC recipe: one update by hand, its options, and that it composes."""

from __future__ import annotations

import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from sac_blocks import Transition, recipes
from tests.numerics import enable_x64, finite_differences
from tests.plain_networks import ACTION_SIZE, OBSERVATION_SIZE, make_plain_networks

SGD = {
  'critic_optimizer': optax.sgd(0.1),
  'actor_optimizer': optax.sgd(0.05),
  'temperature_optimizer': optax.sgd(0.02),
}


def make_batch(size: int = 8, seed: int = 0, dtype: Any = np.float32, **changes: Any) -> Transition:
  rng = np.random.default_rng(seed)
  batch = Transition(
    obs_tm1=rng.normal(size=(size, OBSERVATION_SIZE)).astype(dtype),
    a_tm1=np.tanh(rng.normal(size=(size, ACTION_SIZE))).astype(dtype),
    r_t=rng.normal(size=size).astype(dtype),
    discount_t=np.where(rng.random(size) < 0.25, 0.0, 0.97).astype(dtype),
    obs_t=rng.normal(size=(size, OBSERVATION_SIZE)).astype(dtype),
  )
  return batch._replace(**changes)


def train(algorithm: Any, steps: int = 3, key: Any = None, size: int = 8) -> Any:
  state = algorithm.init(jax.random.key(0) if key is None else key)
  update, metrics = jax.jit(algorithm.update), []
  for i in range(steps):
    state, step_metrics = update(state, make_batch(size, seed=i))
    metrics.append(step_metrics)
  return state, metrics


def assert_trees_close(actual: Any, expected: Any, tolerance: float = 1e-5) -> None:
  assert jax.tree.structure(actual) == jax.tree.structure(expected)
  for a, b in zip(jax.tree.leaves(actual), jax.tree.leaves(expected), strict=True):
    np.testing.assert_allclose(a, b, rtol=tolerance, atol=tolerance)


class NumPySAC:
  """One update of the linear networks, in float64 NumPy with numerical gradients."""

  def __init__(self, params: Any, target_entropy: float, entropy_backup: bool):
    self.params = jax.tree.map(lambda x: np.asarray(x, np.float64), params)
    self.target_entropy, self.entropy_backup = target_entropy, entropy_backup

  def sample(self, actor: Any, obs: np.ndarray) -> Any:
    epsilon = np.sin(7.0 * obs[:, :ACTION_SIZE])
    u = obs @ actor['loc'] + np.exp(actor['log_scale']) * epsilon
    log_prob = np.zeros(len(obs))
    for i in range(len(obs)):
      for d in range(ACTION_SIZE):
        log_prob[i] += -0.5 * epsilon[i, d] ** 2 - actor['log_scale'][d] - 0.5 * np.log(2 * np.pi)
        log_prob[i] -= np.log(1.0 - np.tanh(u[i, d]) ** 2)
    return np.tanh(u), log_prob

  def q(self, critic: Any, obs: np.ndarray, action: np.ndarray) -> np.ndarray:
    values = critic['w'] @ np.concatenate([obs, action], axis=1).T
    return np.tanh(values) + values + critic['b'][:, None]

  def descend(self, component: str, loss: Any, learning_rate: float) -> None:
    old = self.params[component]
    new = {}
    for name in old:
      gradient = finite_differences(lambda x, name=name: loss({**old, name: x}), old[name])
      new[name] = old[name] - learning_rate * gradient
    self.params[component] = new

  def update(self, batch: Transition) -> None:
    alpha = np.exp(self.params['log_alpha'])
    a_t, log_prob_t = self.sample(self.params['actor'], batch.obs_t)
    v_t = self.q(self.params['target_critic'], batch.obs_t, a_t).min(axis=0)
    v_t = v_t - (alpha * log_prob_t if self.entropy_backup else 0.0)
    target = batch.r_t + batch.discount_t * v_t

    def critic_loss(critic: Any) -> float:
      q = self.q(critic, batch.obs_tm1, batch.a_tm1)
      return sum(0.5 * np.mean((q[i] - target) ** 2) for i in range(len(q)))

    self.descend('critic', critic_loss, 0.1)
    entropy = -self.sample(self.params['actor'], batch.obs_tm1)[1].mean()

    def actor_loss(actor: Any) -> float:
      action, log_prob = self.sample(actor, batch.obs_tm1)
      return np.mean(alpha * log_prob - self.q(self.params['critic'], batch.obs_tm1, action).min(axis=0))

    self.descend('actor', actor_loss, 0.05)
    # The gradient of exp(log_alpha) (H - target).
    self.params['log_alpha'] = self.params['log_alpha'] - 0.02 * alpha * (entropy - self.target_entropy)
    for name, online in self.params['critic'].items():
      self.params['target_critic'][name] = 0.7 * self.params['target_critic'][name] + 0.3 * online


@pytest.mark.parametrize('num_critics', [1, 2, 5])
@pytest.mark.parametrize('entropy_backup', [True, False])
def test_three_updates_are_those_of_numpy(num_critics: int, entropy_backup: bool):
  with enable_x64():
    networks = make_plain_networks(num_critics, dtype=jnp.float64)
    algorithm = recipes.sac(networks, tau=0.3, entropy_backup=entropy_backup, initial_alpha=0.5, **SGD)
    state = algorithm.init(jax.random.key(1))
    reference = NumPySAC(state.params, -float(ACTION_SIZE), entropy_backup)
    for i in range(3):
      batch = make_batch(seed=i, dtype=np.float64)
      state, _ = jax.jit(algorithm.update)(state, batch)
      reference.update(batch)
    # log_alpha is a float32 component.
    assert_trees_close(state.params, reference.params, 1e-6)


def test_metrics_are_named_scalars_of_before_the_step():
  _, metrics = train(recipes.sac(make_plain_networks(), initial_alpha=0.25))
  assert sorted(metrics[0]) == [
    'actor_loss',
    'alpha',
    'critic_loss',
    'log_alpha_loss',
    'policy_entropy',
    'q_mean',
  ]
  assert all(value.shape == () for value in metrics[0].values())
  np.testing.assert_allclose(metrics[0]['alpha'], 0.25, rtol=1e-6)


def test_all_that_an_update_computes_comes_out_on_demand():
  algorithm = recipes.sac(make_plain_networks(num_critics=3), tau=0.0, **SGD)
  state, batch = algorithm.init(jax.random.key(0)), make_batch()
  new, metrics = jax.jit(algorithm.update)(state, batch)
  same, info = jax.jit(algorithm.update_with_info)(state, batch)
  assert_trees_close(same.params, new.params, 0.0)
  assert {name for name, value in info.items() if value.shape == ()} == set(metrics)
  assert (info['td_error'].shape, info['entropy'].shape) == ((3, 8), (8,))
  # The loss is half the sum of squares over critics, and its mean over examples.
  expected = 0.5 * np.mean(np.sum(np.square(info['td_error']), axis=0))
  np.testing.assert_allclose(metrics['critic_loss'], expected, rtol=1e-5)


def test_target_critic_starts_equal_bit_for_bit_in_its_own_memory():
  params = recipes.sac(make_plain_networks()).init(jax.random.key(0)).params
  np.testing.assert_array_equal(params['critic']['w'], params['target_critic']['w'])
  assert params['critic']['w'] is not params['target_critic']['w']


def test_state_can_be_donated():
  algorithm = recipes.sac(make_plain_networks(), normalize_observations=True)
  state = algorithm.init(jax.random.key(0))
  first = jax.tree.leaves(state)
  state, _ = jax.jit(algorithm.update, donate_argnums=0)(state, make_batch())
  assert all(leaf.is_deleted() for leaf in first)


def test_fixed_temperature_stays():
  state, metrics = train(recipes.sac(make_plain_networks(), learn_temperature=False, initial_alpha=0.2))
  np.testing.assert_allclose(state.params['log_alpha'], np.log(0.2), rtol=1e-6)
  assert 'log_alpha_loss' not in metrics[0]


def test_log_alpha_stays_within_its_bounds():
  fast = {**SGD, 'temperature_optimizer': optax.sgd(100.0)}
  up = recipes.sac(make_plain_networks(), target_entropy=50.0, log_alpha_bounds=(-1.0, 0.5), **fast)
  assert float(train(up)[0].params['log_alpha']) == 0.5
  down = recipes.sac(make_plain_networks(), target_entropy=-50.0, log_alpha_bounds=(-1.0, 0.5), **fast)
  assert float(train(down)[0].params['log_alpha']) == -1.0


def test_default_target_entropy_is_minus_the_action_size():
  by_default = train(recipes.sac(make_plain_networks(), **SGD))[0].params
  given = train(recipes.sac(make_plain_networks(), target_entropy=-2.0, **SGD))[0].params
  assert_trees_close(by_default, given, 0.0)


def test_zero_target_entropy_is_zero_and_not_the_default():
  zero = train(recipes.sac(make_plain_networks(), target_entropy=0.0, **SGD))[0].params['log_alpha']
  default = train(recipes.sac(make_plain_networks(), **SGD))[0].params['log_alpha']
  assert zero > default


def test_delayed_actor_moves_every_other_update_and_critics_always():
  algorithm = recipes.sac(make_plain_networks(), actor_update_period=2, **SGD)
  state = algorithm.init(jax.random.key(0))
  moved, reported = [], []
  for i in range(6):
    new, metrics = jax.jit(algorithm.update)(state, make_batch(seed=i))
    moved.append(
      tuple(
        bool(np.any(jax.tree.leaves(new.params[name])[0] != jax.tree.leaves(state.params[name])[0]))
        for name in ('critic', 'actor', 'log_alpha', 'target_critic')
      )
    )
    reported.append(float(metrics['actor_loss']))
    state = new
  assert moved == [(True, True, True, True), (True, False, False, True)] * 3
  assert np.isfinite(reported).all()
  # A skipped step reports the metric last seen.
  assert reported[0] == reported[1] != reported[2] == reported[3]


def test_periodic_hard_copy_equals_the_critics_and_is_constant_in_between():
  algorithm = recipes.sac(make_plain_networks(), tau=1.0, target_update_period=3, **SGD)
  state = algorithm.init(jax.random.key(0))
  update = jax.jit(algorithm.update)
  for i in range(7):
    new, _ = update(state, make_batch(seed=i))
    assert np.all(new.params['critic']['w'] != state.params['critic']['w'])
    # After the first update and every third from there.
    source = new.params['critic'] if i % 3 == 0 else state.params['target_critic']
    assert_trees_close(new.params['target_critic'], source, 0.0)
    state = new


def test_target_update_period_delays_soft_steps_too():
  every_update = recipes.sac(make_plain_networks(), tau=0.3, critic_optimizer=optax.sgd(0.0))
  every_second = recipes.sac(
    make_plain_networks(), tau=0.3, target_update_period=2, critic_optimizer=optax.sgd(0.0)
  )
  states = [a.init(jax.random.key(0)) for a in (every_update, every_second)]
  # Critics that stay, and a target that starts elsewhere.
  away = [
    s._replace(params={**s.params, 'target_critic': jax.tree.map(jnp.ones_like, s.params['critic'])})
    for s in states
  ]
  gaps = []
  for algorithm, state, steps in ((every_update, away[0], 2), (every_second, away[1], 4)):
    update = jax.jit(algorithm.update)
    for i in range(steps):
      state, _ = update(state, make_batch(seed=i))
    gaps.append(state.params['target_critic']['w'] - state.params['critic']['w'])
  np.testing.assert_allclose(gaps[0], 0.7**2 * (1.0 - states[0].params['critic']['w']), rtol=1e-5)
  np.testing.assert_allclose(gaps[1], gaps[0], rtol=1e-6)


def test_importance_weights_scale_the_critic_loss_only():
  algorithm = recipes.sac(make_plain_networks(), **SGD)
  state = algorithm.init(jax.random.key(0))
  batch = make_batch(2)
  singles = []
  for i in range(2):
    one = jax.tree.map(lambda x, i=i: x[i : i + 1], batch)
    singles.append(float(jax.jit(algorithm.update)(state, one)[1]['critic_loss']))
  weighted, metrics = jax.jit(algorithm.update)(
    state, batch._replace(weights=np.array([1.0, 0.3333], np.float32))
  )
  np.testing.assert_allclose(metrics['critic_loss'], (singles[0] + 0.3333 * singles[1]) / 2, rtol=1e-5)
  plain, _ = jax.jit(algorithm.update)(state, batch)
  np.testing.assert_allclose(weighted.params['log_alpha'], plain.params['log_alpha'])
  with pytest.raises(ValueError, match='weights'):
    jax.jit(algorithm.update)(state, batch._replace(weights=np.ones((2, 1), np.float32)))


def test_actor_learning_rate_leaves_the_path_of_log_alpha_alone():
  class FixedEntropy:
    def __init__(self, loc: Any):
      self.loc = loc

    def sample_and_log_prob(self, *, seed: Any) -> Any:
      del seed
      return jnp.tanh(self.loc), jnp.full(self.loc.shape[:-1], 1.5)

    def mode(self) -> Any:
      return jnp.tanh(self.loc)

  networks = make_plain_networks()
  actor = networks.actor._replace(apply=lambda params, obs: FixedEntropy(obs @ params['loc']))
  paths = []
  for rate in (1e-4, 1e-1):
    algorithm = recipes.sac(networks._replace(actor=actor), actor_optimizer=optax.adam(rate))
    paths.append([float(m['alpha']) for m in train(algorithm)[1]])
  assert paths[0] == paths[1]
  # H = -1.5 lies above the target of -2, so alpha falls.
  assert paths[0][0] > paths[0][1] > paths[0][2]


def test_gradients_reach_only_the_component_of_their_block():
  """A huge step in one component at a time; the others have to stay bit for bit."""
  for component in ('critic', 'actor', 'temperature'):
    rates = {f'{name}_optimizer': optax.sgd(0.0) for name in ('critic', 'actor', 'temperature')}
    rates[f'{component}_optimizer'] = optax.sgd(10.0)
    algorithm = recipes.sac(make_plain_networks(), tau=0.0, **rates)
    state = algorithm.init(jax.random.key(0))
    new, _ = jax.jit(algorithm.update)(state, make_batch())
    moved = {
      name
      for name in state.params
      if any(
        np.any(a != b)
        for a, b in zip(jax.tree.leaves(state.params[name]), jax.tree.leaves(new.params[name]), strict=True)
      )
    }
    assert moved == {'log_alpha' if component == 'temperature' else component}


def test_many_updates_a_call_are_as_many_calls():
  one = recipes.sac(make_plain_networks(), **SGD)
  state = one.init(jax.random.key(0))
  expected = state
  batches = [make_batch(seed=i) for i in range(4)]
  losses = []
  for batch in batches:
    expected, metrics = jax.jit(one.update)(expected, batch)
    losses.append(float(metrics['critic_loss']))
  many = recipes.sac(make_plain_networks(), updates_per_call=4, **SGD)
  joined = jax.tree.map(lambda *x: np.concatenate(x), *batches)
  actual, metrics = jax.jit(many.update)(state, joined)
  assert_trees_close(actual.params, expected.params)
  np.testing.assert_allclose(metrics['critic_loss'], np.mean(losses), rtol=1e-5)


def test_program_does_not_grow_with_the_updates_per_call():
  def size(updates: int) -> int:
    algorithm = recipes.sac(make_plain_networks(random=True), updates_per_call=updates)
    state = jax.eval_shape(algorithm.init, jax.random.key(0))
    return len(jax.jit(algorithm.update).lower(state, make_batch(4 * updates)).as_text().splitlines())

  # From 2 on the program holds a loop; the splitting of few keys is compiled apart.
  assert size(16) == size(64)


def test_delayed_actor_counts_across_calls():
  count = optax.sgd(optax.constant_schedule(0.05))
  counted = recipes.sac(
    make_plain_networks(), actor_update_period=2, updates_per_call=8, **{**SGD, 'actor_optimizer': count}
  )
  state, _ = jax.jit(counted.update)(counted.init(jax.random.key(0)), make_batch(32))
  counters = [x for x in jax.tree.leaves(state.blocks) if x.dtype == jnp.int32 and int(x) == 4]
  # 8 critic updates make 4 actor updates, counted by the schedule.
  assert len(counters) == 1


def test_vmap_over_seeds_equals_each_seed_alone():
  algorithm = recipes.sac(make_plain_networks(random=True))
  keys = jax.random.split(jax.random.key(3), 3)
  states = jax.vmap(algorithm.init)(keys)
  update = jax.jit(jax.vmap(algorithm.update, in_axes=(0, None)))
  for i in range(3):
    states, _ = update(states, make_batch(seed=i))
  for k in range(3):
    alone, _ = train(algorithm, key=keys[k])
    assert_trees_close(jax.tree.map(lambda x, k=k: x[k], states.params), alone.params, 1e-4)


def test_hyperparameters_can_be_vmapped_arrays():
  def final_alpha(target_entropy: Any, tau: Any, initial_alpha: Any) -> Any:
    algorithm = recipes.sac(
      make_plain_networks(), target_entropy=target_entropy, tau=tau, initial_alpha=initial_alpha, **SGD
    )
    state, _ = algorithm.update(algorithm.init(jax.random.key(0)), make_batch())
    return state.params['log_alpha'], state.params['target_critic']['b']

  targets, taus, alphas = jnp.array([-3.0, 1.0]), jnp.array([0.0, 1.0]), jnp.array([0.5, 2.0])
  together = jax.jit(jax.vmap(final_alpha))(targets, taus, alphas)
  for i in range(2):
    alone = jax.jit(final_alpha)(float(targets[i]), float(taus[i]), float(alphas[i]))
    assert_trees_close(jax.tree.map(lambda x, i=i: x[i], together), alone)


@pytest.mark.parametrize('normalize', [False, True])
def test_two_devices_take_the_step_of_the_whole_batch(normalize: bool):
  options = {**SGD, 'normalize_observations': normalize}
  single = recipes.sac(make_plain_networks(), **options)
  expected = single.init(jax.random.key(0))
  double = recipes.sac(make_plain_networks(), axis_name='devices', **options)
  state = jax.tree.map(lambda x: jnp.stack([x, x]), double.init(jax.random.key(0)))
  update = jax.pmap(double.update, 'devices', devices=jax.devices()[:2])
  for i in range(3):
    batch = make_batch(seed=i)
    expected, expected_metrics = jax.jit(single.update)(expected, batch)
    state, metrics = update(state, jax.tree.map(lambda x: x.reshape(2, -1, *x.shape[1:]), batch))
    for device in range(2):
      own = functools.partial(jax.tree.map, lambda x, device=device: x[device])
      assert_trees_close(own(state.params), expected.params, 1e-4)
      assert_trees_close(own(metrics), dict(expected_metrics), 1e-4)


def test_devices_draw_different_noise_and_keep_one_state():
  algorithm = recipes.sac(make_plain_networks(random=True), axis_name='devices', **SGD)
  state = jax.tree.map(lambda x: jnp.stack([x, x]), algorithm.init(jax.random.PRNGKey(0)))
  same = jax.tree.map(lambda x: np.stack([x, x]), make_batch())
  new, _ = jax.pmap(algorithm.update, 'devices', devices=jax.devices()[:2])(state, same)
  for leaf in jax.tree.leaves(new):
    np.testing.assert_array_equal(leaf[0], leaf[1])
  # Were both to draw the same noise, the step would be that of one device alone.
  alone = recipes.sac(make_plain_networks(random=True), **SGD)
  one, _ = jax.jit(alone.update)(alone.init(jax.random.PRNGKey(0)), make_batch())
  assert np.any(np.abs(new.params['actor']['loc'][0] - one.params['actor']['loc']) > 1e-6)


def test_networks_see_observations_normalised_by_current_statistics():
  seen = {'actor': [], 'critic': []}

  def record(name: str, apply: Any) -> Any:
    def recording(params: Any, obs: Any, *rest: Any) -> Any:
      jax.debug.callback(lambda value: seen[name].append(np.asarray(value)), obs)
      return apply(params, obs, *rest)

    return recording

  networks = make_plain_networks()
  networks = networks._replace(
    actor=networks.actor._replace(apply=record('actor', networks.actor.apply)),
    critic=networks.critic._replace(apply=record('critic', networks.critic.apply)),
  )
  algorithm = recipes.sac(networks, normalize_observations=True)
  rng = np.random.default_rng(0)
  obs_tm1 = (8.0 + 2.0 * rng.normal(size=(64, OBSERVATION_SIZE))).astype(np.float32)
  obs_t = np.full_like(obs_tm1, 10.0)
  batch = make_batch(64, obs_tm1=obs_tm1, obs_t=obs_t)
  state, _ = jax.jit(algorithm.update)(algorithm.init(jax.random.key(0)), batch)
  jax.block_until_ready(state)
  jax.effects_barrier()

  statistics = state.params['observation_statistics']
  np.testing.assert_allclose(statistics.mean, obs_tm1.mean(axis=0), rtol=1e-5)
  np.testing.assert_allclose(statistics.variance, obs_tm1.var(axis=0), rtol=1e-4)
  assert int(statistics.num_observations) == 64
  normal_tm1 = (obs_tm1 - obs_tm1.mean(axis=0)) / obs_tm1.std(axis=0)
  normal_t = (obs_t - obs_tm1.mean(axis=0)) / obs_tm1.std(axis=0)
  for name in seen:
    # The raw observations, around 8 and 10, reach no network.
    for obs in seen[name]:
      close = [np.allclose(obs, expected, atol=1e-4) for expected in (normal_tm1, normal_t)]
      assert any(close)
  assert len(seen['actor']) == 2
  assert len(seen['critic']) == 3


def test_policy_normalises_and_evaluation_is_greedy():
  algorithm = recipes.sac(make_plain_networks(random=True), normalize_observations=True)
  assert algorithm.policy_components == ('actor', 'observation_statistics')
  params = algorithm.init(jax.random.key(0)).params
  statistics = params['observation_statistics']._replace(
    mean=jnp.full(3, 8.0), variance=jnp.full(3, 4.0), num_observations=jnp.array(9)
  )
  params = {**params, 'observation_statistics': statistics}
  obs = jnp.array([10.0, 8.0, 6.0])
  greedy = algorithm.evaluation_policy(params, obs, jax.random.key(0))
  expected = np.tanh(np.array([1.0, 0.0, -1.0]) @ np.asarray(params['actor']['loc']))
  np.testing.assert_allclose(greedy, expected, rtol=1e-5)
  noisy = [algorithm.policy(params, obs, jax.random.key(i)) for i in range(2)]
  assert np.any(noisy[0] != noisy[1])
  assert np.all(np.abs(noisy) <= 1.0)


def test_random_policy_is_uniform_over_the_box_whatever_the_policy():
  algorithm = recipes.sac(make_plain_networks(random=True))
  params = algorithm.init(jax.random.key(0)).params
  # A policy that would hardly leave the corner.
  params['actor'] = {'loc': jnp.full((OBSERVATION_SIZE, ACTION_SIZE), 5.0), 'log_scale': jnp.full(2, -3.0)}
  draws = algorithm.random_policy(params, jnp.ones((20_000, OBSERVATION_SIZE)), jax.random.key(0))
  assert draws.shape == (20_000, ACTION_SIZE)
  for dimension in range(ACTION_SIZE):
    counts, _ = np.histogram(draws[:, dimension], bins=10, range=(-1.0, 1.0))
    assert counts.sum() == 20_000
    # Pearson's statistic; the quantile of the chi-square law with 9 degrees of freedom at 1 - 1e-4.
    assert np.sum((counts - 2000) ** 2 / 2000) < 33.72
  assert abs(np.corrcoef(np.asarray(draws).T)[0, 1]) < 0.03
  single = algorithm.random_policy(params, jnp.ones(OBSERVATION_SIZE), jax.random.key(0))
  assert single.shape == (ACTION_SIZE,)


def test_random_policy_of_a_law_without_uniform_samples_is_refused():
  algorithm = recipes.sac(make_plain_networks())
  params = algorithm.init(jax.random.key(0)).params
  with pytest.raises(TypeError, match='sample_uniformly'):
    algorithm.random_policy(params, jnp.ones(OBSERVATION_SIZE), jax.random.key(0))


def test_bfloat16_networks_learn_in_float32():
  networks = make_plain_networks()
  critic = networks.critic._replace(
    apply=lambda params, obs, action: networks.critic.apply(params, obs, action).astype(jnp.bfloat16)
  )
  algorithm = recipes.sac(networks._replace(critic=critic))
  state, metrics = train(algorithm)
  assert {leaf.dtype for leaf in jax.tree.leaves(state.params)} == {np.dtype(np.float32)}
  assert metrics[0]['critic_loss'].dtype == np.float32
  assert np.isfinite(metrics[-1]['critic_loss'])


def test_wrong_options_are_named():
  networks = make_plain_networks()
  with pytest.raises(ValueError, match=r'tau must lie in \[0.0, 1.0\], got 1.5'):
    recipes.sac(networks, tau=1.5)
  with pytest.raises(ValueError, match=r'initial_alpha must lie in \(0.0, inf\], got 0.0'):
    recipes.sac(networks, initial_alpha=0.0)
  with pytest.raises(ValueError, match='log_alpha_bounds'):
    recipes.sac(networks, log_alpha_bounds=(1.0, -1.0))
  with pytest.raises(ValueError, match='initial_alpha must lie in'):
    recipes.sac(networks, log_alpha_bounds=(-5.0, -1.0))
  with pytest.raises(ValueError, match='temperature that is not learned'):
    recipes.sac(networks, log_alpha_bounds=(-5.0, 1.0), learn_temperature=False)
  with pytest.raises(ValueError, match='observation_spec'):
    recipes.sac(networks._replace(observation_spec=None), normalize_observations=True)
  with pytest.raises(ValueError, match='every'):
    recipes.sac(networks, actor_update_period=0)
  with pytest.raises(ValueError, match='every'):
    recipes.sac(networks, target_update_period=0)
  with pytest.raises(ValueError, match='repeat'):
    recipes.sac(networks, updates_per_call=0)
