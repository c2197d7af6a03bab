"""Each option of the on-device trainer does what it says."""

from __future__ import annotations

import types
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from dm_env import specs

from agents import sac, sac_discrete
from agents.anakin import AnakinConfig, make_trainer, train
from agents.anakin.environments import Environment, TimeStep

LOOP = {'num_envs': 2, 'batch_size': 4, 'buffer_size': 64, 'learning_starts': 4}


def line(*, num_actions: int | None = None, as_dict: bool = False) -> Environment:
  """A point that actions push, with episodes of five steps."""

  def observe(state: jax.Array) -> Any:
    if as_dict:
      return {'place': state[:1], 'far': 100.0 * state[:1]}
    return state[:1]

  def reset(key: jax.Array) -> tuple[jax.Array, Any]:
    state = jnp.append(jax.random.uniform(key, (1,), minval=2.0, maxval=4.0), 0.0)
    return state, observe(state)

  def step(state: jax.Array, action: jax.Array, key: jax.Array) -> tuple[jax.Array, TimeStep]:
    del key
    state = state + jnp.append(jnp.ravel(action).astype(jnp.float32), 1.0)
    return state, TimeStep(observe(state), -state[0], jnp.ones(()), state[1] >= 5)

  shape = specs.Array((1,), np.float32)
  action = (
    specs.DiscreteArray(num_actions, np.int32)
    if num_actions
    else specs.BoundedArray((1,), np.float32, -1.0, 1.0)
  )
  return Environment({'place': shape, 'far': shape} if as_dict else shape, action, reset, step)


def make_algorithm(environment: Environment, networks: Any = None, **options: Any) -> Any:
  spec = types.SimpleNamespace(observations=environment.observation_spec, actions=environment.action_spec)
  networks = {'hidden_sizes': (4,), **(networks or {})}
  discrete = isinstance(environment.action_spec, specs.DiscreteArray)
  agent, config = (sac_discrete, sac_discrete.SACDiscreteConfig) if discrete else (sac, sac.SACConfig)
  return agent.make_algorithm(config(**options), agent.make_networks(spec, **networks))


class Path(NamedTuple):
  """What a run went through: the algorithm's state before and after each iteration, and the metrics."""

  states: Any
  metrics: dict[str, np.ndarray]
  batches: list[Any]

  def component(self, name: str) -> np.ndarray:
    """All weights of a component, `[iterations + 1, size]`."""
    leaves = jax.tree.leaves(self.states.params[name])
    return np.concatenate([np.reshape(leaf, (len(leaf), -1)) for leaf in leaves], axis=1)

  def moved(self, name: str) -> list[bool]:
    """Whether an iteration changed a component."""
    return np.any(np.diff(self.component(name), axis=0) != 0.0, axis=1).tolist()


def run(
  iterations: int, loop: Any = None, *, environment: Any = None, networks: Any = None, **options: Any
) -> Path:
  environment = line() if environment is None else environment
  algorithm = make_algorithm(environment, networks, **options)
  batches = []

  def update(state: Any, batch: Any) -> Any:
    jax.debug.callback(lambda batch: batches.append(jax.tree.map(np.array, batch)), batch, ordered=True)
    return algorithm.update(state, batch)

  config = AnakinConfig(**{**LOOP, **(loop or {})})
  trainer = make_trainer(environment, algorithm._replace(update=update), config)

  def go(key: jax.Array) -> Any:
    def body(state: Any, _: Any) -> Any:
      state, metrics = trainer.iteration(state)
      return state, (state.algorithm, metrics)

    state = trainer.warm_up(trainer.init(key))
    _, (states, metrics) = jax.lax.scan(body, state, length=iterations)

    def behind(first: Any, rest: Any) -> Any:
      return jnp.concatenate([first[None], rest])

    return jax.tree.map(behind, state.algorithm._replace(key=()), states._replace(key=())), metrics

  # Little work, so compiling fast saves more than running fast.
  fast = {'xla_backend_optimization_level': 0}
  states, metrics = jax.jit(go).lower(jax.random.key(0)).compile(compiler_options=fast)(jax.random.key(0))
  jax.effects_barrier()
  return Path(states, metrics, batches)


# Runs of several options that leave each other alone, since compiling takes most of the time.
@pytest.fixture(scope='module')
def learned() -> Path:
  return run(3, initial_alpha=0.2, temperature_learning_rate=0.01, tau=0.25)


@pytest.fixture(scope='module')
def fixed() -> Path:
  return run(3, initial_alpha=0.2, learn_temperature=False, max_gradient_norm=1e-3)


@pytest.fixture(scope='module')
def delayed() -> Path:
  return run(5, actor_update_period=2, target_update_period=3, tau=1.0)


@pytest.fixture(scope='module')
def many() -> Path:
  return run(3, {'num_updates': 3}, actor_update_period=2, input_normalization=True)


def test_a_learned_temperature_starts_at_alpha_and_steps_at_its_rate(learned):
  log_alpha = learned.component('log_alpha')[:, 0]
  np.testing.assert_allclose(log_alpha[0], np.log(0.2), rtol=1e-6)
  # Adam's first step is of the size of its rate.
  np.testing.assert_allclose(abs(log_alpha[1] - log_alpha[0]), 0.01, rtol=1e-3)
  assert learned.moved('log_alpha') == [True] * 3
  np.testing.assert_allclose(learned.metrics['alpha'], np.exp(log_alpha[:-1]), rtol=1e-5)


def test_a_fixed_temperature_stays_at_alpha(fixed):
  np.testing.assert_allclose(fixed.component('log_alpha'), np.log(0.2), rtol=1e-6)
  assert fixed.moved('actor') == [True] * 3
  assert 'log_alpha_loss' not in fixed.metrics


@pytest.mark.parametrize(('ratio', 'direction'), [(0.0, -1), (1.0, 1)])
def test_a_target_entropy_ratio_is_of_the_log_of_the_number_of_actions(ratio, direction):
  path = run(3, environment=line(num_actions=3), target_entropy_ratio=ratio)
  np.testing.assert_allclose(path.metrics['target_entropy'], ratio * np.log(3), rtol=1e-6)
  # The entropy is between both targets, so alpha falls for the lower and rises for the higher one.
  assert np.all(direction * np.diff(path.component('log_alpha')[:, 0]) > 0.0)


def test_a_delayed_actor_moves_every_second_update(delayed):
  assert delayed.moved('critic') == [True] * 5
  assert delayed.moved('actor') == delayed.moved('log_alpha') == [True, False, True, False, True]


def test_an_iteration_makes_its_number_of_updates(many):
  assert len(many.batches) == 9
  # The counts of Adam: every update is one of the critics, and every second one of actor and temperature.
  _, blocks = many.states.blocks
  counts = [optax.tree_utils.tree_get_all_with_path(blocks[i], 'count') for i in (0, 1)]
  assert [[np.asarray(count).tolist() for _, count in block] for block in counts] == [
    [[0, 3, 6, 9]],
    [[0, 2, 3, 5], [0, 2, 3, 5]],
  ]


def test_normalisation_counts_the_observations_of_every_batch_once(many):
  statistics = many.states.params['observation_statistics']
  assert statistics.num_observations.tolist() == [0, 12, 24, 36]
  for i in range(1, 4):
    seen = np.concatenate([batch.obs_tm1 for batch in many.batches[: 3 * i]]).astype(np.float64)
    np.testing.assert_allclose(statistics.mean[i], seen.mean(axis=0), rtol=1e-5)
    np.testing.assert_allclose(statistics.variance[i], seen.var(axis=0), rtol=1e-4)


def test_policy_and_critics_may_see_keys_of_their_own():
  environment = line(as_dict=True)
  networks = {'policy_keys': ('place',), 'critic_keys': ('place', 'far')}
  path = run(2, environment=environment, networks=networks)
  assert sorted(path.batches[0].obs_tm1) == ['far', 'place']
  assert path.moved('actor') == path.moved('critic') == [True] * 2
  params = jax.tree.map(lambda x: x[-1], path.states.params)
  # An observation and one action for the critics.
  assert params['actor']['hidden_0']['w'].shape == (1, 4)
  assert params['critic']['hidden_0']['w'].shape == (2, 3, 4)
  algorithm = make_algorithm(environment, networks)
  actions = [
    algorithm.evaluation_policy(params, {'place': jnp.ones((1, 1)), 'far': jnp.full((1, 1), far)}, None)
    for far in (0.0, jnp.nan)
  ]
  assert np.isfinite(actions).all()
  np.testing.assert_array_equal(*actions)


def test_gradients_are_clipped_by_their_global_norm(learned, fixed):
  def norms(path: Path) -> list[float]:
    # Of critics and actor: Adam's first moment after one step is a tenth of the gradient.
    moments = [optax.tree_utils.tree_get_all_with_path(path.states.blocks[i], 'mu')[0][1] for i in (0, 1)]
    return [float(10.0 * optax.global_norm(jax.tree.map(lambda x: x[1], moment))) for moment in moments]

  assert min(norms(learned)) > 2e-3
  np.testing.assert_allclose(norms(fixed), 1e-3, rtol=1e-4)


def test_learning_rates_may_follow_schedules():
  def until(step: int) -> optax.Schedule:
    return optax.piecewise_constant_schedule(1e-3, {step: 0.0})

  path = run(
    4, critic_learning_rate=until(3), actor_learning_rate=until(1), temperature_learning_rate=until(2)
  )
  assert path.moved('critic') == [True, True, True, False]
  assert path.moved('actor') == [True, False, False, False]
  assert path.moved('log_alpha') == [True, True, False, False]


def test_tau_moves_the_targets_by_a_part_of_the_way(learned):
  critic, target = learned.component('critic'), learned.component('target_critic')
  np.testing.assert_array_equal(target[0], critic[0])
  np.testing.assert_allclose(target[1:], 0.75 * target[:-1] + 0.25 * critic[1:], rtol=1e-5, atol=1e-7)


def test_targets_may_be_copied_periodically(delayed):
  critic, target = delayed.component('critic'), delayed.component('target_critic')
  np.testing.assert_array_equal(target, critic[[0, 1, 1, 1, 4, 4]])


@pytest.mark.parametrize(('learning_starts', 'expected'), [(12, 12), (13, 18)])
def test_learning_starts_after_its_steps_in_whole_iterations(learning_starts, expected):
  config = AnakinConfig(
    num_envs=2, rollout_length=3, batch_size=4, buffer_size=64, learning_starts=learning_starts
  )
  environment = line()
  trainer = make_trainer(environment, make_algorithm(environment), config)
  first = trainer.init(jax.random.key(0))
  state = trainer.warm_up(first)
  assert (int(state.num_steps), int(state.num_updates)) == (expected, 0)
  assert int(state.replay.size) == expected // 2
  jax.tree.map(np.testing.assert_array_equal, state.algorithm.params, first.algorithm.params)


@pytest.mark.parametrize(
  ('num_envs', 'batch_size', 'buffer_size', 'rows'), [(1, 3, 10, 10), (4, 8, 30, 7), (4, 8, 32, 8)]
)
def test_sizes_are_those_of_the_configuration(num_envs, batch_size, buffer_size, rows):
  config = AnakinConfig(num_envs=num_envs, batch_size=batch_size, buffer_size=buffer_size, learning_starts=4)
  environment, shapes = line(), []
  algorithm = make_algorithm(environment)

  def update(state: Any, batch: Any) -> Any:
    shapes.append((batch.obs_tm1.shape, batch.r_t.shape))
    return algorithm.update(state, batch)

  trainer = make_trainer(environment, algorithm._replace(update=update), config)
  state = jax.eval_shape(trainer.init, jax.random.key(0))
  jax.eval_shape(trainer.iteration, state)
  assert set(shapes) == {((batch_size, 1), (batch_size,))}
  assert state.acting.observation.shape == (num_envs, 1)
  assert state.replay.rows.reward.shape == (rows, num_envs)


def test_training_ends_at_its_number_of_steps():
  environment = line()
  algorithm = make_algorithm(environment)._replace(update=lambda state, batch: (state, {}))
  config = AnakinConfig(**LOOP, num_steps=23, eval_every=10, num_eval_episodes=1)
  result = train(environment, algorithm, config, jax.random.key(0))
  # The last iteration of two steps goes one beyond.
  assert result.num_steps.tolist() == [0, 10, 20, 24]
  assert int(result.state.num_steps) == 24
