from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from agents.anakin import environments, rollout
from tests.agents.anakin.counting_environment import counting


def _roll(environment, num_envs, length, action=0.0):
  state = rollout.start(environment, num_envs, jax.random.key(0))
  return rollout.rollout(
    environment,
    lambda observation, key: jnp.full((observation.shape[0], 1), action),
    state,
    jax.random.key(1),
    length,
  )


@pytest.mark.parametrize('terminates', [True, False])
def test_an_episode_keeps_its_final_observation_and_the_next_one_starts_anew(terminates):
  _, steps = _roll(counting(3, terminates=terminates), num_envs=2, length=7)
  before, after = steps.observation, steps.timestep.observation
  assert before[:, 0, 1].tolist() == [0, 1, 2, 0, 1, 2, 0]
  assert after[:, 0, 1].tolist() == [1, 2, 3, 1, 2, 3, 1]
  # Within an episode the number is the same, and after it another.
  np.testing.assert_array_equal(before[:, :, 0], after[:, :, 0])
  assert len(set(before[:, 0, 0].tolist())) == 3
  assert steps.timestep.last[:, 1].tolist() == [False, False, True] * 2 + [False]
  expected = [1, 1, 0, 1, 1, 0, 1] if terminates else [1] * 7
  assert steps.timestep.discount[:, 1].tolist() == expected


def test_returns_and_lengths_are_those_of_the_episode():
  _, steps = _roll(counting(3), num_envs=1, length=5, action=0.5)
  assert steps.episode_return[:, 0].tolist() == [1.5, 4.0, 7.5, 1.5, 4.0]
  assert steps.episode_length[:, 0].tolist() == [1, 2, 3, 1, 2]


def test_environments_differ():
  state = rollout.start(environments.pendulum(), 8, jax.random.key(0))
  assert len(set(state.observation[:, 0].tolist())) == 8


def test_two_short_rollouts_are_one_long_one_where_the_keys_are():
  environment = counting(4)
  state = rollout.start(environment, 2, jax.random.key(0))
  keys = jax.random.split(jax.random.key(1), 6)

  def select_action(observation, key):
    return jax.random.uniform(key, (2, 1))

  seen = []
  for key in keys:
    state, step = rollout.step(environment, select_action, state, key)
    seen.append(step)
  whole, steps = rollout.rollout(
    environment, select_action, rollout.start(environment, 2, jax.random.key(0)), jax.random.key(1), 6
  )
  jax.tree.map(np.testing.assert_array_equal, jax.tree.map(lambda *x: jnp.stack(x), *seen), steps)
  jax.tree.map(np.testing.assert_array_equal, state, whole)
