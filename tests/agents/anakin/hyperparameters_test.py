"""Hyper-parameters that differ from seed to seed in one compiled loop."""

from __future__ import annotations

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from agents.anakin import AnakinConfig, make_trainer, train
from sac_blocks import Algorithm, TrainingState, recipes
from tests.agents.anakin.standing_environment import standing
from tests.plain_networks import make_plain_networks

ENVIRONMENT = standing(5)
CONFIG = AnakinConfig(
  num_steps=48,
  num_envs=2,
  rollout_length=2,
  num_updates=3,
  batch_size=8,
  buffer_size=40,
  learning_starts=8,
  eval_every=24,
  num_eval_episodes=2,
)
OPTIONS = {
  'actor_learning_rate': np.array([1e-3, 1e-2], np.float32),
  'critic_learning_rate': np.array([3e-2, 1e-2], np.float32),
  'tau': np.array([0.1, 0.9], np.float32),
  'initial_alpha': np.array([0.2, 1.0], np.float32),
  'target_entropy': np.array([-2.0, 1.0], np.float32),
  'discount': np.array([0.9, 0.5], np.float32),
  'reward_scale': np.array([1.0, 3.0], np.float32),
}


def make_algorithm(row, **options):
  return recipes.sac(
    make_plain_networks(random=True),
    critic_optimizer=optax.adam(row['critic_learning_rate']),
    actor_optimizer=optax.adam(row['actor_learning_rate']),
    tau=row['tau'],
    initial_alpha=row['initial_alpha'],
    target_entropy=row['target_entropy'],
    **options,
  )


def make_config(row):
  return dataclasses.replace(CONFIG, discount=row['discount'], reward_scale=row['reward_scale'])


def row_of(options, k):
  return {name: float(values[k]) for name, values in options.items()}


def assert_close(actual, expected):
  jax.tree.map(lambda x, y: np.testing.assert_allclose(x, y, rtol=1e-4, atol=1e-5), actual, expected)


@pytest.mark.slow
def test_a_seed_trains_as_it_would_alone_with_numbers():
  keys = jax.random.split(jax.random.key(0), 2)
  half = dataclasses.replace(CONFIG, num_steps=24)

  def half_config(row):
    return dataclasses.replace(make_config(row), num_steps=half.num_steps)

  first = train(ENVIRONMENT, make_algorithm, half_config, keys, options=OPTIONS)
  second = train(ENVIRONMENT, make_algorithm, make_config, keys, state=first.state, options=OPTIONS)
  row = row_of(OPTIONS, 1)
  alone = train(ENVIRONMENT, make_algorithm(row), make_config(row), keys[1])
  assert [*first.num_steps, *second.num_steps] == alone.num_steps.tolist() == [0, 24, 48]
  assert_close(jax.tree.map(lambda x: x[1], second.state.algorithm.params), alone.state.algorithm.params)
  assert_close(first.episode_return[:, 1], alone.episode_return[:2])
  assert_close(second.episode_return[:, 1], alone.episode_return[2:])


def test_the_program_is_traced_no_more_often_for_several_values_than_for_one():
  def action(params, observation, key):
    return jnp.zeros((*observation.shape[:-1], 2))

  def run(values):
    traces = []

    def algorithm(row):
      def update(state, batch):
        traces.append(batch.r_t.shape)
        return state._replace(params=state.params + row['step']), {'moved': row['step']}

      def init(key):
        return TrainingState(jnp.zeros(()), (), key)

      return Algorithm(init, update, action, action, action, ())

    keys = jax.random.split(jax.random.key(0), len(values))
    result = train(ENVIRONMENT, algorithm, CONFIG, keys, options={'step': jnp.array(values)})
    # 3 updates in each of the 10 iterations that follow the 8 steps of warm-up.
    np.testing.assert_allclose(result.state.algorithm.params, 30 * np.array(values), rtol=1e-5)
    return len(traces)

  assert run([0.1]) == run([0.1, 0.5, 0.9]) > 0


@pytest.mark.slow
def test_a_trainer_can_be_mapped_over_options_by_hand():
  keys = jax.random.split(jax.random.key(0), 2)

  def run(row, key):
    trainer = make_trainer(ENVIRONMENT, make_algorithm(row), make_config(row))
    return trainer.iteration(trainer.warm_up(trainer.init(key)))[0].algorithm.params

  together = jax.jit(jax.vmap(run))(OPTIONS, keys)
  for k in range(2):
    alone = jax.jit(lambda key, k=k: run(row_of(OPTIONS, k), key))(keys[k])
    assert_close(jax.tree.map(lambda x, k=k: x[k], together), alone)


@pytest.mark.parametrize(
  ('options', 'num_keys', 'message'),
  [
    (
      {'tau': jnp.ones(3)},
      2,
      r"options\['tau'\] must be an array with a row for each of the 2 keys, \[2, ...\]",
    ),
    ({'tau': jnp.ones(())}, 2, r'got shape \(\): repeat its values, or split the key in as many'),
    ({'tau': [0.1, 0.2]}, 2, r"options\['tau'\]\[0\] must be an array .* got shape \(\)"),
    ({'tau': jnp.ones(2)}, None, r'Options need a key \[S\], .* got shape \(\): give jax.random.split'),
    ({'tau': jnp.array([0.5, 1.5])}, 2, r'tau must lie in \[0.0, 1.0\], got 1.5'),
    ({'discount': jnp.array([0.5, -0.5])}, 2, r'discount must be in \[0, 1\], got .*-0.5'),
    ({'reward_scale': jnp.array([1.0, 0.0])}, 2, r'reward_scale must be positive, got .*0.0'),
  ],
)
def test_options_that_do_not_fit_are_refused(options, num_keys, message):
  key = jax.random.key(0) if num_keys is None else jax.random.split(jax.random.key(0), num_keys)
  rest = row_of(OPTIONS, 0)
  with pytest.raises(ValueError, match=message):
    train(
      ENVIRONMENT,
      lambda row: make_algorithm({**rest, **row}),
      lambda row: make_config({**rest, **row}),
      key,
      options=options,
    )


def test_a_function_goes_with_options_only():
  keys = jax.random.split(jax.random.key(0), 2)
  with pytest.raises(TypeError, match='a function for algorithm or config but no options: call it yourself'):
    train(ENVIRONMENT, make_algorithm, CONFIG, keys)
  with pytest.raises(TypeError, match='algorithm must be a function of a row of them, got an Algorithm'):
    train(ENVIRONMENT, make_algorithm(row_of(OPTIONS, 0)), CONFIG, keys, options=OPTIONS)


def test_the_rest_of_the_configuration_is_shared():
  keys = jax.random.split(jax.random.key(0), 2)

  def config(row):
    return dataclasses.replace(CONFIG, num_updates=2 if row['tau'] > 0.5 else 1)

  with pytest.raises(
    ValueError, match=r'only discount and reward_scale may depend on the options, got .* row 1'
  ):
    train(ENVIRONMENT, make_algorithm, config, keys, options=OPTIONS)
  with pytest.raises(ValueError, match=r'num_envs must be an integer of at least 1, got .*Trace'):
    jax.jit(lambda n: AnakinConfig(num_envs=n).steps_per_iteration)(2)
