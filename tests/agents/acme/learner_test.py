"""The generic learner: donation, what it serves and logs, and resuming bit for bit."""

from __future__ import annotations

import itertools
import os
import pathlib
import pickle
import socket
import subprocess
import sys
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

pytest.importorskip('acme')

from agents import data_parallel
from agents.acme import compat
from agents.acme.learner import BlocksLearner
from sac_blocks import Transition, recipes
from tests.plain_networks import make_plain_networks
from tests.recipes.sac_test import assert_trees_close, make_batch

# A program of its own, since a fresh process shares no compiled code, memory or random state with the saver.
RESUME = """
import pickle, sys
from tests.agents.acme.learner_test import make_learner
with open(sys.argv[1], 'rb') as file:
  state, skip, steps = pickle.load(file)
learner = make_learner(skip=skip)
learner.restore(state)
for _ in range(steps):
  learner.step()
with open(sys.argv[2], 'wb') as file:
  pickle.dump(learner.save(), file)
"""


# One process of two. JAX counts the devices of both once they have found each other.
HOST = """
import pickle, sys
import jax
jax.config.update('jax_cpu_collectives_implementation', 'gloo')
address, number, path = sys.argv[1:]
jax.distributed.initialize(address, num_processes=2, process_id=int(number))
from tests.agents.acme.learner_test import make_host_learner
learner = make_host_learner(slice(int(number), None, 2), jax.devices())
for _ in range(3):
  learner.step()
with open(path, 'wb') as file:
  pickle.dump((learner.save().training_state, learner.get_variables(['policy'])), file)
"""


class RecordingLogger:
  def __init__(self):
    self.rows: list[dict[str, Any]] = []

  def write(self, data: Any) -> None:
    self.rows.append({name: float(value) for name, value in data.items()})

  def close(self) -> None:
    pass


def make_learner(
  skip: int = 0, logger: Any = None, donate: bool | None = None, **options: Any
) -> BlocksLearner:
  options = {'normalize_observations': True, 'actor_update_period': 2, 'updates_per_call': 3, **options}
  algorithm = recipes.sac(make_plain_networks(random=True), **options)
  batches = (make_batch(12, seed=i) for i in itertools.count(skip))
  return BlocksLearner(algorithm, jax.random.PRNGKey(7), batches, logger=logger, donate=donate)


def assert_same_bits(a: Any, b: Any) -> None:
  assert jax.tree.structure(a) == jax.tree.structure(b)
  for x, y in zip(jax.tree.leaves(a), jax.tree.leaves(b), strict=True):
    np.testing.assert_array_equal(x, y)
    assert np.asarray(x).dtype == np.asarray(y).dtype


def assert_same_leaves(a: Any, b: Any) -> None:
  leaves = [
    [
      jax.random.key_data(x) if jnp.issubdtype(x.dtype, jax.dtypes.prng_key) else x
      for x in jax.tree.leaves(t)
    ]
    for t in (a, b)
  ]
  assert_same_bits(*leaves)


@pytest.mark.slow
def test_a_resumed_run_in_a_fresh_process_equals_an_uninterrupted_one_bit_for_bit(tmp_path: pathlib.Path):
  straight = make_learner()
  for _ in range(10):
    straight.step()
  first = make_learner()
  for _ in range(5):
    first.step()
  saved, result = tmp_path / 'saved', tmp_path / 'result'
  saved.write_bytes(pickle.dumps((first.save(), 5, 5)))
  root = pathlib.Path(__file__).parents[3]
  # As in this process, or the bits would differ.
  environment = {**os.environ, 'JAX_DISABLE_MOST_OPTIMIZATIONS': '1'}
  subprocess.run([sys.executable, '-c', RESUME, saved, result], cwd=root, env=environment, check=True)
  resumed = pickle.loads(result.read_bytes())
  expected = straight.save()
  assert_same_bits(resumed.training_state, expected.training_state)
  assert sorted(expected.training_state.params) == [
    'actor',
    'critic',
    'log_alpha',
    'observation_statistics',
    'target_critic',
  ]
  assert resumed.counter['counts']['steps'] == expected.counter['counts']['steps'] == 10


@pytest.mark.parametrize('donate', [False, True])
def test_saving_copies_and_does_not_disturb(donate: bool):
  saver, other = make_learner(donate=donate), make_learner(donate=donate)
  saver.step()
  other.step()
  saved = saver.save()
  before = pickle.dumps(saved.training_state)
  for _ in range(3):
    saver.step()
    other.step()
  assert pickle.dumps(saved.training_state) == before
  assert_same_bits(saver.save().training_state, other.save().training_state)


@pytest.mark.parametrize('donate', [False, True])
def test_variables_outlive_the_state_that_they_came_from(donate: bool):
  learner = make_learner(donate=donate)
  (first,) = learner.get_variables(['policy'])
  assert sorted(first) == ['actor', 'observation_statistics']
  loc = np.array(first['actor']['loc'])
  for _ in range(4):
    learner.step()
  assert not any(leaf.is_deleted() for leaf in jax.tree.leaves(first))
  np.testing.assert_array_equal(first['actor']['loc'], loc)
  (later, again) = learner.get_variables(['policy', 'policy'])
  assert np.any(np.asarray(later['actor']['loc']) != loc)
  assert later is again


def test_donated_memory_is_reused_and_changes_nothing():
  donor, keeper = make_learner(donate=True), make_learner(donate=False)
  first = jax.tree.leaves(donor._state)
  for _ in range(3):
    donor.step()
    keeper.step()
  assert all(leaf.is_deleted() for leaf in first)
  for a, b in zip(
    jax.tree.leaves(donor.save().training_state), jax.tree.leaves(keeper.save().training_state), strict=True
  ):
    np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6)


def test_variables_follow_finished_updates():
  learner = make_learner()
  learner.step()
  params = learner.save().training_state.params  # Waits for the update.
  (variables,) = learner.get_variables(['policy'])
  np.testing.assert_array_equal(variables['actor']['loc'], params['actor']['loc'])


def test_other_variables_are_refused_by_name():
  with pytest.raises(KeyError, match=r"serves the variables 'policy', got \['critic'\]"):
    make_learner().get_variables(['policy', 'critic'])


def test_every_step_but_the_one_under_way_is_logged_with_its_own_counts():
  logger = RecordingLogger()
  learner = make_learner(logger=logger)
  for _ in range(4):
    learner.step()
  assert [row['learner_steps'] for row in logger.rows] == [1.0, 2.0, 3.0]
  assert logger.rows[0]['learner_walltime'] == 0.0
  assert {'critic_loss', 'actor_loss', 'alpha', 'policy_entropy', 'q_mean'} <= set(logger.rows[0])
  alphas = [row['alpha'] for row in logger.rows]
  assert len(set(alphas)) == 3
  assert np.isfinite(alphas).all()


def test_a_step_takes_one_sample_and_the_conversion_is_part_of_the_update():
  samples = iter([{'raw': np.full(4, 2.0, np.float32)}] * 2)

  def to_batch(sample: Any) -> Transition:
    x = sample['raw']
    obs = jnp.stack([x, x, x], axis=-1)
    return Transition(obs, jnp.zeros((4, 2)), 3.0 * x, 0.0 * x, obs)

  learner = BlocksLearner(
    recipes.sac(make_plain_networks()), jax.random.PRNGKey(0), samples, to_batch=to_batch
  )
  learner.step()
  learner.step()
  with pytest.raises(StopIteration):
    learner.step()


def test_typed_keys_are_accepted_and_saved():
  algorithm = recipes.sac(make_plain_networks(random=True))
  states = []
  for key in (jax.random.key(3), jax.random.PRNGKey(3)):
    learner = BlocksLearner(algorithm, key, iter([make_batch()]))
    learner.step()
    states.append(learner.save().training_state)
  assert_same_bits(*states)


def test_an_optimiser_may_hold_a_typed_key():
  noisy = optax.chain(optax.add_noise(0.1, 0.5, jax.random.key(3)), optax.sgd(0.01))
  algorithm = recipes.sac(make_plain_networks(), actor_optimizer=noisy)
  learner, other = (
    BlocksLearner(algorithm, jax.random.PRNGKey(0), iter([make_batch(seed=i) for i in range(4)]))
    for _ in range(2)
  )
  learner.step()
  saved = learner.save()
  for _ in range(2):
    learner.step()
    other.step()
  other.restore(saved)
  before = other.save().training_state.params
  np.testing.assert_array_equal(before['actor']['loc'], saved.training_state.params['actor']['loc'])


def make_host_learner(rows: slice, devices: Any) -> BlocksLearner:
  axis_name = None if devices is None else data_parallel.AXIS
  algorithm = recipes.sac(
    make_plain_networks(), normalize_observations=True, updates_per_call=3, axis_name=axis_name
  )
  batches = (jax.tree.map(lambda x: x[rows], make_batch(12, seed=i)) for i in itertools.count())
  return BlocksLearner(algorithm, jax.random.PRNGKey(7), batches, devices=devices)


@pytest.mark.slow
def test_learners_of_two_processes_are_one(tmp_path: pathlib.Path):
  with socket.socket() as free:
    free.bind(('localhost', 0))
    address = f'localhost:{free.getsockname()[1]}'
  processes = [
    subprocess.Popen(
      [sys.executable, '-c', HOST, address, str(i), tmp_path / str(i)],
      cwd=pathlib.Path(__file__).parents[3],
      env={**os.environ, 'XLA_FLAGS': '--xla_force_host_platform_device_count=1'},
    )
    for i in range(2)
  ]
  try:
    assert [process.wait(timeout=600) for process in processes] == [0, 0]
  finally:
    for process in processes:
      process.kill()
  alone = make_host_learner(slice(None), None)
  for _ in range(3):
    alone.step()
  expected = alone.save().training_state
  states = [pickle.loads((tmp_path / str(i)).read_bytes()) for i in range(2)]
  for state, (variables,) in states:
    assert_trees_close(state.params, expected.params, 1e-4)
    assert_same_bits(state, states[0][0])
    assert sorted(variables) == ['actor', 'observation_statistics']


@pytest.mark.parametrize(('before', 'after', 'donate'), [(1, 2, True), (2, 1, False)])
def test_a_run_goes_on_with_other_devices(before: int, after: int, donate: bool):
  # With a typed key in the state, but the same noise on all devices.
  noisy = optax.chain(optax.add_noise(0.1, 0.5, jax.random.key(3)), optax.sgd(0.01))

  def start(num_devices: int, skip: int = 0) -> BlocksLearner:
    axis_name = None if num_devices == 1 else data_parallel.AXIS
    algorithm = recipes.sac(
      make_plain_networks(),
      critic_optimizer=noisy,
      normalize_observations=True,
      updates_per_call=3,
      axis_name=axis_name,
    )
    devices = None if num_devices == 1 else jax.devices()[:num_devices]
    batches = (make_batch(12, seed=i) for i in itertools.count(skip))
    return BlocksLearner(algorithm, jax.random.PRNGKey(7), batches, devices=devices, donate=donate)

  first, second, straight = start(before), start(after, skip=2), start(1)
  for _ in range(2):
    first.step()
    straight.step()
  saved = first.save()
  second.restore(saved)
  assert_same_leaves(second.save().training_state, saved.training_state)
  (variables,) = second.get_variables(['policy'])
  assert_same_leaves(variables['actor'], saved.training_state.params['actor'])
  for _ in range(2):
    second.step()
    straight.step()
  again, expected = second.save().training_state, straight.save().training_state
  assert_trees_close(again.params, expected.params, 1e-4)
  np.testing.assert_array_equal(again.key, expected.key)
  (variables,) = second.get_variables(['policy'])
  assert_same_leaves(variables['actor'], again.params['actor'])
  assert all(leaf.devices() == {jax.devices()[0]} for leaf in jax.tree.leaves(variables))


def test_a_foreign_state_is_refused():
  state = make_learner().save()
  with pytest.raises(ValueError, match=r"other options: got \.params\['observation_statistics'\]\.\w+ where"):
    make_learner(normalize_observations=False).restore(state)
  wide = jax.tree.map(lambda x: x, state.training_state)
  wide.params['actor']['loc'] = np.zeros((5, 2), np.float32)
  with pytest.raises(ValueError, match=r"\['actor'\]\['loc'\] has shape \(5, 2\)"):
    make_learner().restore(state._replace(training_state=wide))


def test_a_parent_counter_is_kept():
  parent = compat.Counter(time_delta=0.0)
  child = compat.Counter(parent, prefix='learner', time_delta=0.0)
  learner = BlocksLearner(
    recipes.sac(make_plain_networks()), jax.random.PRNGKey(0), iter([make_batch()] * 3), counter=child
  )
  for _ in range(3):
    learner.step()
  assert parent.get_counts()['learner_steps'] == 3
