"""Training that is spread over devices."""

from __future__ import annotations

import dataclasses
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from agents.anakin import AnakinConfig, Report, Result, Trainer, TrainState, make_trainer, train
from agents.anakin.devices import Devices
from agents.data_parallel import AXIS
from sac_blocks import Algorithm, TrainingState, Transition, recipes
from tests.agents.anakin.counting_environment import counting
from tests.agents.anakin.standing_environment import standing
from tests.plain_networks import make_plain_networks
from tests.recipes.sac_test import SGD, assert_trees_close

CONFIG = AnakinConfig(
  num_steps=64,
  num_envs=4,
  rollout_length=2,
  num_updates=2,
  batch_size=8,
  buffer_size=40,
  learning_starts=13,
  eval_every=32,
  num_eval_episodes=2,
)
KEYS = jax.random.split(jax.random.key(0), 2)
TAUS = np.array([0.1, 0.9], np.float32)


def make_algorithm(tau):
  return recipes.sac(
    make_plain_networks(random=True), tau=tau, normalize_observations=True, axis_name=AXIS, **SGD
  )


class Run(NamedTuple):
  reports: list[Report]
  half_way: object
  result: Result


@pytest.fixture(scope='module')
def run():
  """Two seeds, with an option each, on two devices."""
  reports, states = [], []

  def callback(report):
    # Copied, since the next epoch takes its memory.
    states.append(jax.tree.map(jnp.copy, report.state))
    reports.append(report._replace(state=None))

  result = train(standing(5), make_algorithm, CONFIG, KEYS, [callback], options=TAUS, num_devices=2)
  return Run(reports, states[1], result)


def test_two_devices_take_the_step_of_one_on_the_whole_batch():
  options = {
    **SGD,
    # Clipped, since only averaged gradients have the norm of the whole batch's.
    'critic_optimizer': optax.chain(optax.clip_by_global_norm(0.3), optax.sgd(0.1)),
    'normalize_observations': True,
  }

  def policy(params, observation, key):
    return jnp.tanh(observation[..., :2])

  environment, key = standing(100), jax.random.key(1)
  config = AnakinConfig(
    num_steps=6,
    num_envs=2,
    batch_size=8,
    buffer_size=20,
    learning_starts=4,
    eval_every=6,
    num_eval_episodes=2,
  )
  double = recipes.sac(make_plain_networks(), axis_name=AXIS, **options)
  double = double._replace(policy=policy, random_policy=policy)
  reports = []
  state = train(environment, double, config, key, [reports.append], num_devices=2).state

  single = recipes.sac(make_plain_networks(), **options)
  first = make_trainer(environment, single._replace(random_policy=policy), config).init(key)
  # Each device has one environment, which never moves: four rows of the batch are those of the one, four of
  # the other, whatever is drawn.
  observation = jnp.repeat(first.acting.observation, 4, axis=0)
  action = jnp.tanh(observation[:, :2])
  reward = observation[:, 0] + jnp.mean(action, axis=1)
  batch = Transition(observation, action, reward, jnp.full(8, 0.99), observation)
  expected, metrics = jax.jit(single.update)(first.algorithm, batch)
  assert_trees_close(state.algorithm.params, expected.params)
  assert_trees_close({name: reports[-1].metrics[name] for name in metrics}, dict(metrics))
  assert int(state.num_updates) == 1
  np.testing.assert_array_equal(jax.random.key_data(state.algorithm.key), jax.random.key_data(expected.key))


def test_steps_updates_and_episodes_are_counted_once(run):
  # 13 steps are two iterations of 8; 32 and 64 steps are reached after two and four more ones.
  assert [report.num_steps for report in run.reports] == [0, 32, 64]
  assert [report.num_updates for report in run.reports] == [0, 4, 12]
  assert run.result.state.num_steps.tolist() == [64, 64]
  # Each environment takes 4, 8 and 16 steps, and ends an episode with every fifth.
  assert run.reports[1].metrics['episodes'].tolist() == [4, 4]
  assert run.reports[2].metrics['episodes'].tolist() == [8, 8]
  assert run.reports[2].metrics['episode_length'].tolist() == [5, 5]
  assert run.result.episode_return.shape == (3, 2, 2)


def test_replay_is_split_and_the_rest_stays_equal_to_the_bit(run):
  state = run.result.state
  # 40 steps of 4 environments are 10 rows.
  assert state.replay.rows.reward.shape == (2, 10, 4)
  assert [shard.data.shape for shard in state.replay.rows.reward.addressable_shards] == [(2, 10, 2)] * 2
  assert [shard.data.shape for shard in state.acting.observation.addressable_shards] == [(2, 2, 3)] * 2
  for leaf in jax.tree.leaves(
    (state.algorithm.params, state.algorithm.blocks, state.replay.head, state.num_steps)
  ):
    first, second = (np.asarray(shard.data) for shard in leaf.addressable_shards)
    np.testing.assert_array_equal(first, second)
  statistics = state.algorithm.params['observation_statistics']
  # 12 updates on 8 transitions.
  assert statistics.num_observations.tolist() == [96, 96]


@pytest.mark.slow
def test_a_run_goes_on_from_a_state_of_one_device(run):
  state = jax.device_put(run.half_way, jax.devices()[0])
  result = train(standing(5), make_algorithm, CONFIG, KEYS, state=state, options=TAUS, num_devices=2)
  assert_trees_close(result.state.algorithm.params, run.result.state.algorithm.params)
  np.testing.assert_allclose(result.episode_return, run.result.episode_return[2:], rtol=1e-5)


@pytest.mark.slow
def test_a_seed_is_the_same_alone_and_beside_others(run):
  alone = train(standing(5), make_algorithm(0.9), CONFIG, KEYS[1], num_devices=2)
  together = jax.tree.map(lambda x: x[1], run.result.state.algorithm.params)
  assert_trees_close(alone.state.algorithm.params, together, 1e-4)


@pytest.mark.parametrize(
  ('episodes', 'expected'),
  [((3, 1), {'episodes': 4, 'episode_return': 3.0, 'episode_length': 6.0}), ((0, 0), {})],
)
def test_an_episode_counts_the_same_on_any_device(episodes, expected):
  def iteration(state):
    def mine(*values):
      return jnp.array(values)[jax.lax.axis_index(AXIS)]

    state = state._replace(num_steps=state.num_steps + 4, num_updates=state.num_updates + 3)
    metrics = {
      'loss': mine(1.0, 3.0),
      'num_steps': state.num_steps,
      'num_updates': state.num_updates,
      'episodes': mine(*episodes),
      'episode_return': mine(2.0, 6.0),
      'episode_length': mine(5.0, 9.0),
    }
    return state, metrics

  trainer = Devices(2, seeds=False).join(Trainer(None, None, iteration, None))
  state = TrainState((), (), (), jax.random.key(0), jnp.array(10), jnp.array(6))
  state, metrics = jax.vmap(trainer.iteration, in_axes=None, axis_name=AXIS, axis_size=2)(state)
  # Four steps on each of two devices.
  assert state.num_steps.tolist() == metrics['num_steps'].tolist() == [18, 18]
  assert state.num_updates.tolist() == metrics['num_updates'].tolist() == [9, 9]
  assert len(set(map(bytes, np.asarray(jax.random.key_data(state.key))))) == 1
  expected = {'loss': 2.0, **dict.fromkeys(('episodes', 'episode_return', 'episode_length'), 0), **expected}
  assert {name: metrics[name].tolist() for name in expected} == {name: [x, x] for name, x in expected.items()}


def make_stub(update):
  """An algorithm that acts at random, with a number as its params."""

  def policy(params, observation, key):
    return jax.random.uniform(key, (*observation.shape[:-1], 1), minval=-1.0)

  return Algorithm(
    lambda key: TrainingState(jnp.zeros(()), (), key), update, policy, policy, policy, policy_components=()
  )


def test_each_device_acts_and_samples_by_a_key_of_its_own():
  def update(state, batch):
    # The steps of the episodes, which are in the same rows of replay on all devices.
    step = batch.obs_tm1[:, 1]
    return state, {'apart': jnp.mean(jnp.abs(step - jax.lax.pmean(step, AXIS)))}

  number, reports = len(jax.devices()), []
  config = dataclasses.replace(CONFIG, num_envs=number, batch_size=8 * number, buffer_size=40 * number)
  state = train(
    counting(1000), make_stub(update), config, jax.random.key(0), [reports.append], num_devices=None
  ).state
  assert reports[-1].metrics['apart'] > 0.1
  actions = np.asarray(state.replay.rows.action)[: int(state.replay.size), :, 0]
  assert np.all(np.abs(actions[:, 0] - actions[:, 1]) > 1e-6)


def test_devices_that_learn_apart_are_noticed():
  def update(state, batch):
    return state._replace(params=state.params + jnp.mean(batch.r_t)), {}

  with pytest.raises(ValueError, match=r"each device has its own params: .*with axis_name='devices'"):
    train(counting(5), make_stub(update), CONFIG, jax.random.key(0), num_devices=2)


@pytest.mark.parametrize(
  ('changes', 'num_devices', 'message'),
  [
    ({'num_envs': 3}, 2, r'num_envs must be a multiple of the 2 devices \(num_devices=2\), got 3'),
    ({'batch_size': 7}, 2, r'batch_size must be a multiple of the 2 devices \(num_devices=2\), got 7'),
    (
      {},
      len(jax.devices()) + 1,
      r'num_devices must be at most \d+, the number of cpu devices, got \d+: change',
    ),
    ({'priority_exponent': 0.6}, 2, r'priority_exponent must be None on several devices .* got 0.6'),
    ({}, 0, 'num_devices must be an integer of at least 1, or None for all devices, got 0'),
    ({}, 2.0, 'num_devices must be an integer of at least 1, or None for all devices, got 2.0'),
  ],
)
def test_what_cannot_be_split_is_refused(changes, num_devices, message):
  config = dataclasses.replace(CONFIG, **changes)
  with pytest.raises(ValueError, match=message):
    train(standing(5), make_algorithm(0.1), config, jax.random.key(0), num_devices=num_devices)
