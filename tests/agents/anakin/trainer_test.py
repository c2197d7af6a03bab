from __future__ import annotations

import types

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from dm_env import specs

from agents import sac, sac_discrete
from agents.anakin import AnakinConfig, environments, make_trainer, train
from tests.agents.anakin.counting_environment import counting
from tests.agents.anakin.programs import large_instructions

SMALL = {
  'num_steps': 400,
  'num_envs': 4,
  'rollout_length': 2,
  'num_updates': 3,
  'batch_size': 8,
  'buffer_size': 200,
  'learning_starts': 60,
  'eval_every': 100,
  'num_eval_episodes': 3,
}


def make_algorithm(environment, **options):
  spec = types.SimpleNamespace(observations=environment.observation_spec, actions=environment.action_spec)
  if isinstance(environment.action_spec, specs.DiscreteArray):
    networks = sac_discrete.make_networks(spec, hidden_sizes=(16,))
    return sac_discrete.make_algorithm(sac_discrete.SACDiscreteConfig(**options), networks)
  networks = sac.make_networks(spec, hidden_sizes=(16,))
  return sac.make_algorithm(sac.SACConfig(**options), networks)


@pytest.fixture(scope='module')
def pendulum():
  environment = environments.canonical_actions(environments.time_limit(environments.pendulum(), 10))
  return environment, make_algorithm(environment, batch_size=8)


def assert_same(a, b, **tolerance):
  def data(x):
    return jax.random.key_data(x) if jnp.issubdtype(x.dtype, jax.dtypes.prng_key) else x

  def compare(x, y):
    if tolerance:
      np.testing.assert_allclose(data(x), data(y), **tolerance)
    else:
      np.testing.assert_array_equal(data(x), data(y))

  jax.tree.map(compare, a, b)


def test_each_update_of_many_a_call_is_of_a_whole_batch(pendulum):
  environment, _ = pendulum
  algorithm = make_algorithm(environment, batch_size=8, num_sgd_steps_per_step=4)
  sizes = []

  def counted(state, batch):
    sizes.append(batch.r_t.shape)
    return algorithm.update(state, batch)

  config = AnakinConfig(**{**SMALL, 'num_updates': 8})
  trainer = make_trainer(environment, algorithm._replace(update=counted), config)
  state, _ = jax.jit(trainer.iteration)(jax.jit(trainer.warm_up)(trainer.init(jax.random.key(0))))
  assert set(sizes) == {(4 * config.batch_size,)}
  assert int(state.num_updates) == 8
  # The critics' Adam has counted as many.
  counts = [x for x in jax.tree.leaves(state.algorithm.blocks) if x.dtype == jnp.int32 and x.shape == ()]
  assert {int(x) for x in counts} == {8}
  with pytest.raises(ValueError, match='num_updates=6 must be a multiple of the updates_per_call=4'):
    make_trainer(environment, algorithm, AnakinConfig(**{**SMALL, 'num_updates': 6}))


def test_steps_and_updates_are_those_of_the_configuration(pendulum):
  environment, algorithm = pendulum
  updates = []

  def counted(state, batch):
    assert batch.r_t.shape == (8,)
    jax.debug.callback(lambda: updates.append(1))
    return algorithm.update(state, batch)

  trainer = make_trainer(environment, algorithm._replace(update=counted), AnakinConfig(**SMALL))
  state = jax.jit(trainer.warm_up)(trainer.init(jax.random.key(0)))
  # 60 steps are seven and a half iterations of 8.
  assert (int(state.num_steps), int(state.num_updates), int(state.replay.size)) == (64, 0, 16)
  assert not updates
  iteration = jax.jit(trainer.iteration)
  for i in range(1, 4):
    state, metrics = iteration(state)
    jax.effects_barrier()
    assert int(state.num_steps) == int(metrics['num_steps']) == 64 + 8 * i
    assert int(state.num_updates) == int(metrics['num_updates']) == 3 * i == len(updates)


def test_the_warm_up_is_random_first_and_follows_the_policy_then(pendulum):
  environment, algorithm = pendulum
  algorithm = algorithm._replace(
    random_policy=lambda params, obs, key: jnp.full((*obs.shape[:-1], 1), 0.25),
    policy=lambda params, obs, key: jnp.full((*obs.shape[:-1], 1), -0.75),
  )
  trainer = make_trainer(environment, algorithm, AnakinConfig(**SMALL, random_steps=24))
  state = trainer.warm_up(trainer.init(jax.random.key(0)))
  assert state.replay.rows.action[:16, :, 0].tolist() == [[0.25] * 4] * 6 + [[-0.75] * 4] * 10


def test_a_warm_up_always_has_room_for_a_window(pendulum):
  environment, algorithm = pendulum
  options = {**SMALL, 'learning_starts': 0, 'n_step': 3}
  trainer = make_trainer(environment, algorithm, AnakinConfig(**options))
  state = trainer.warm_up(trainer.init(jax.random.key(0)))
  assert int(state.replay.size) == 4


@pytest.mark.slow
def test_a_seed_is_the_same_alone_and_beside_others(pendulum):
  environment, algorithm = pendulum
  config = AnakinConfig(**SMALL)
  keys = jax.random.split(jax.random.key(3), 3)
  together = train(environment, algorithm, config, keys)
  assert together.episode_return.shape == (5, 3, 3)
  alone = train(environment, algorithm, config, keys[1])
  np.testing.assert_allclose(together.episode_return[:, 1], alone.episode_return, rtol=1e-3)
  assert_same(
    jax.tree.map(lambda x: x[1], together.state.algorithm.params),
    alone.state.algorithm.params,
    rtol=1e-3,
    atol=1e-4,
  )


@pytest.mark.slow
def test_a_run_that_goes_on_equals_one_that_never_stopped(pendulum):
  environment, algorithm = pendulum
  key = jax.random.key(1)
  straight = train(environment, algorithm, AnakinConfig(**SMALL), key)
  first = train(environment, algorithm, AnakinConfig(**{**SMALL, 'num_steps': 200}), key)
  second = train(environment, algorithm, AnakinConfig(**SMALL), key, state=first.state)
  assert_same(second.state, straight.state)
  np.testing.assert_array_equal(
    np.concatenate([first.episode_return, second.episode_return]), straight.episode_return
  )


@pytest.mark.slow
def test_evaluations_leave_training_as_it_is(pendulum):
  environment, algorithm = pendulum
  results = [
    train(environment, algorithm, AnakinConfig(**{**SMALL, 'eval_every': every}), jax.random.key(1))
    for every in (100, 400)
  ]
  assert results[0].num_steps.tolist() == [0, 104, 200, 304, 400]
  assert results[1].num_steps.tolist() == [0, 400]
  assert_same(results[0].state, results[1].state)


def test_callbacks_are_given_reports_and_may_stop(pendulum):
  environment, algorithm = pendulum
  reports = []

  def callback(report):
    reports.append(report._replace(state=None))
    return report.num_steps >= 200

  result = train(environment, algorithm, AnakinConfig(**SMALL), jax.random.key(1), [callback])
  assert result.num_steps.tolist() == [0, 104, 200]
  assert [report.num_updates for report in reports] == [0, 15, 51]
  assert reports[0].metrics == {}
  assert reports[1].metrics['critic_loss'] > 0.0
  assert reports[2].metrics['episode_length'] == 10.0
  assert reports[0].evaluation.episode_length.tolist() == [10, 10, 10]


def test_reports_between_evaluations_have_none(pendulum):
  environment, algorithm = pendulum
  reports = []
  config = AnakinConfig(**{**SMALL, 'num_steps': 168, 'eval_every': 100}, report_every=32)
  result = train(
    environment, algorithm, config, jax.random.key(1), [lambda report: reports.append(report[:5])]
  )
  assert [steps for steps, *_ in reports] == [0, 96, 104, 128, 160, 168]
  assert [steps for steps, *_, evaluation, _ in reports if evaluation is not None] == [0, 104, 168]
  # Nothing has been learned at the first report.
  assert reports[0][-1] == {}
  assert result.metrics_num_steps.tolist() == [96, 104, 128, 160, 168]
  for name in ('critic_loss', 'alpha', 'episodes'):
    assert result.metrics[name].tolist() == [float(metrics[name]) for *_, metrics in reports[1:]]


def test_a_result_has_the_metrics_of_each_seed(pendulum):
  environment, algorithm = pendulum
  config = AnakinConfig(**{**SMALL, 'num_steps': 168, 'eval_every': 100})
  result = train(environment, algorithm, config, jax.random.split(jax.random.key(1), 2))
  assert result.metrics_num_steps.tolist() == result.num_steps[1:].tolist() == [104, 168]
  assert {values.shape for values in result.metrics.values()} == {(2, 2)}
  # Counts belong to the state; a mean of them would mean nothing.
  assert not {'num_steps', 'num_updates'} & set(result.metrics)


def test_training_that_ends_with_its_warm_up_is_evaluated(pendulum):
  environment, algorithm = pendulum
  config = AnakinConfig(**{**SMALL, 'num_steps': 60})
  result = train(environment, algorithm, config, jax.random.key(1))
  assert result.num_steps.tolist() == [0, 64]
  assert result.episode_return.shape == (2, 3)
  assert result.metrics == {}
  assert result.metrics_num_steps.tolist() == []


def test_only_the_first_episode_of_each_environment_is_evaluated():
  environment = counting(4)
  algorithm = make_algorithm(environment)
  zeros = algorithm._replace(evaluation_policy=lambda params, obs, key: jnp.zeros((*obs.shape[:-1], 1)))
  config = AnakinConfig(**SMALL)
  evaluation = make_trainer(environment, zeros, config).evaluate(
    algorithm.init(jax.random.key(0)).params, jax.random.key(1)
  )
  assert evaluation.episode_return.tolist() == [10.0] * 3
  assert evaluation.episode_length.tolist() == [4] * 3
  cut = make_trainer(environment, zeros, AnakinConfig(**SMALL, max_eval_steps=3)).evaluate(
    algorithm.init(jax.random.key(0)).params, jax.random.key(1)
  )
  assert cut.episode_return.tolist() == [6.0] * 3


def test_the_program_does_not_grow_with_the_number_of_updates(pendulum):
  environment, algorithm = pendulum
  sizes = []
  for num_updates in (64, 4096):
    trainer = make_trainer(environment, algorithm, AnakinConfig(**{**SMALL, 'num_updates': num_updates}))
    state = jax.eval_shape(trainer.init, jax.random.key(0))
    sizes.append(jax.jit(trainer.iteration).lower(state).as_text().count('\n'))
  # But for constants that happen to be equal and are shared.
  assert abs(sizes[0] - sizes[1]) < 5


@pytest.mark.parametrize('several_seeds', [False, True])
@pytest.mark.parametrize(
  ('priority_exponent', 'changes'),
  # At one update an iteration nothing else would keep the write apart from the draw.
  [
    (None, {'num_envs': 1, 'rollout_length': 1, 'num_updates': 1}),
    (None, {'n_step': 2}),
    (0.6, {'n_step': 2}),
  ],
)
def test_replay_is_changed_in_place(pendulum, priority_exponent, changes, several_seeds):
  options = {**SMALL, 'buffer_size': 20_000, 'priority_exponent': priority_exponent, **changes}
  trainer = make_trainer(*pendulum, AnakinConfig(**options))

  def iterations(state, number):
    return jax.lax.fori_loop(0, number, lambda _, state: trainer.iteration(state)[0], state)

  init, key = trainer.init, jax.random.key(0)
  if several_seeds:
    init, iterations, key = jax.vmap(init), jax.vmap(iterations, in_axes=(0, None)), jax.random.split(key, 2)
  state = jax.eval_shape(init, key)
  compiled = jax.jit(iterations, donate_argnums=0).lower(state, 3).compile()
  # Nothing that would write a whole array, such as a copy or a select.
  in_place = {'parameter', 'get-tuple-element', 'bitcast', 'dynamic-update-slice', 'scatter', 'fusion'}
  found = set(large_instructions(compiled, 20_000))
  assert found <= in_place
  assert found & {'dynamic-update-slice', 'scatter'}
  stored = sum(x.size * x.dtype.itemsize for x in jax.tree.leaves((state.replay, state.priorities)))
  memory = compiled.memory_analysis()
  assert memory.alias_size_in_bytes > stored
  assert memory.temp_size_in_bytes < stored / 20


def test_replay_that_does_not_fit_is_refused(pendulum):
  environment, algorithm = pendulum
  config = AnakinConfig(**{**SMALL, 'buffer_size': 10**9}, max_replay_bytes=1e9)
  with pytest.raises(
    ValueError, match=r'Replay would take 37,000.0 MB, more than max_replay_bytes=1e\+09: lower'
  ):
    make_trainer(environment, algorithm, config)


@pytest.mark.parametrize(
  ('options', 'message'),
  [
    ({'num_envs': 0}, 'num_envs must be an integer of at least 1, got 0'),
    ({'random_steps': 2000}, 'random_steps must be at most learning_starts, got 2000'),
    ({'buffer_size': 3, 'num_envs': 4}, 'buffer_size must be room for rollouts of 1 steps and windows of 1'),
    ({'buffer_size': 8, 'num_envs': 4, 'n_step': 3}, 'windows of 3 in each environment, got 8'),
  ],
)
def test_wrong_options_are_named(options, message):
  with pytest.raises(ValueError, match=message):
    AnakinConfig(**options)


def test_a_raw_key_is_refused(pendulum):
  with pytest.raises(TypeError, match=r'a key of jax\.random\.key, got dtype uint32'):
    train(*pendulum, AnakinConfig(**SMALL), jax.random.PRNGKey(0))


@pytest.mark.slow
def test_discrete_actions_learn_catch():
  environment = environments.catch()
  algorithm = make_algorithm(environment, batch_size=64)
  config = AnakinConfig(
    num_steps=6000,
    num_envs=4,
    num_updates=4,
    batch_size=64,
    buffer_size=6000,
    learning_starts=400,
    eval_every=3000,
  )
  result = train(environment, algorithm, config, jax.random.split(jax.random.key(0), 2))
  np.testing.assert_array_equal(result.episode_return[-1], 1.0)
