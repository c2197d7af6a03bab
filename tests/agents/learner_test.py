"""The generic learner: donation, what it serves and logs, and resuming bit for bit."""

from __future__ import annotations

import itertools
import pathlib
import pickle
import subprocess
import sys
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

pytest.importorskip('acme')

from agents import acme_compat
from agents.learner import BlocksLearner
from sac_blocks import Transition, recipes
from tests.plain_networks import make_plain_networks
from tests.recipes.sac_test import make_batch

# A program of its own, since a fresh process shares no compiled code, memory or random state with the saver.
RESUME = """
import pickle, sys
from tests.agents.learner_test import make_learner
with open(sys.argv[1], 'rb') as file:
  state, skip, steps = pickle.load(file)
learner = make_learner(skip=skip)
learner.restore(state)
for _ in range(steps):
  learner.step()
with open(sys.argv[2], 'wb') as file:
  pickle.dump(learner.save(), file)
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
  root = pathlib.Path(__file__).parents[2]
  subprocess.run([sys.executable, '-c', RESUME, saved, result], cwd=root, check=True)
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


def test_a_foreign_state_is_refused():
  state = make_learner().save()
  with pytest.raises(ValueError, match='another algorithm or other options'):
    make_learner(normalize_observations=False).restore(state)
  wide = jax.tree.map(lambda x: x, state.training_state)
  wide.params['actor']['loc'] = np.zeros((5, 2), np.float32)
  with pytest.raises(ValueError, match=r"\['actor'\]\['loc'\] has shape \(5, 2\)"):
    make_learner().restore(state._replace(training_state=wide))


def test_a_parent_counter_is_kept():
  parent = acme_compat.Counter(time_delta=0.0)
  child = acme_compat.Counter(parent, prefix='learner', time_delta=0.0)
  learner = BlocksLearner(
    recipes.sac(make_plain_networks()), jax.random.PRNGKey(0), iter([make_batch()] * 3), counter=child
  )
  for _ in range(3):
    learner.step()
  assert parent.get_counts()['learner_steps'] == 3
