from __future__ import annotations

import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from dm_env import specs

from agents.anakin import environments
from agents.anakin.environments.cartpole import State as CartPoleState
from agents.anakin.environments.catch import State as CatchState
from agents.anakin.environments.pendulum import State as PendulumState
from tests.agents.anakin.counting_environment import counting

KEY = jax.random.key(0)


def test_the_pendulum_moves_as_gymnasiums_does():
  theirs = gymnasium.make('Pendulum-v1').unwrapped
  ours = environments.pendulum()
  step = jax.jit(ours.step)
  rng = np.random.default_rng(0)
  for _ in range(20):
    theirs.reset(seed=int(rng.integers(1000)))
    state = PendulumState(*map(jnp.asarray, theirs.state.astype(np.float32)), jnp.zeros(()))
    for _ in range(30):
      action = rng.uniform(-3.0, 3.0, size=1).astype(np.float32)
      observation, reward, terminated, _, _ = theirs.step(action)
      state, timestep = step(state, action, KEY)
      np.testing.assert_allclose(timestep.observation, observation, rtol=1e-3, atol=2e-3)
      np.testing.assert_allclose(timestep.reward, reward, rtol=2e-3, atol=2e-3)
      assert (float(timestep.discount), bool(timestep.last), terminated) == (1.0, False, False)


def test_the_pendulum_starts_anywhere():
  states, _ = jax.vmap(environments.pendulum().reset)(jax.random.split(KEY, 2000))
  assert abs(float(jnp.min(states.angle)) + np.pi) < 0.02
  assert abs(float(jnp.max(states.angle)) - np.pi) < 0.02
  assert 0.99 < float(jnp.max(jnp.abs(states.velocity))) <= 1.0


def test_the_cart_moves_as_gymnasiums_does_until_the_pole_falls():
  theirs = gymnasium.make('CartPole-v1').unwrapped
  ours = environments.cartpole()
  step = jax.jit(ours.step)
  rng = np.random.default_rng(0)
  for _ in range(20):
    observation, _ = theirs.reset(seed=int(rng.integers(1000)))
    state = CartPoleState(*map(jnp.asarray, observation))
    terminated = False
    while not terminated:
      action = int(rng.integers(2))
      observation, reward, terminated, _, _ = theirs.step(action)
      state, timestep = step(state, jnp.asarray(action), KEY)
      np.testing.assert_allclose(timestep.observation, observation, rtol=1e-4, atol=1e-5)
      assert float(timestep.reward) == reward == 1.0
      assert bool(timestep.last) == terminated
      assert float(timestep.discount) == (0.0 if terminated else 1.0)


@pytest.mark.parametrize(
  ('column', 'actions', 'rewards'),
  # A board of 4 rows and 3 columns, with the paddle in the middle of the last row.
  [
    (0, [0, 1, 1], [0, 0, 1]),
    (0, [2, 1, 1], [0, 0, -1]),
    (2, [0, 2, 2], [0, 0, 1]),
    (1, [1, 0, 1], [0, 0, -1]),
  ],
)
def test_catch_rewards_the_last_step(column, actions, rewards):
  environment = environments.catch(rows=4, columns=3)
  state = CatchState(jnp.asarray(0), jnp.asarray(column), jnp.asarray(1))
  timesteps = []
  for action in actions:
    state, timestep = environment.step(state, jnp.asarray(action), KEY)
    timesteps.append(timestep)
  assert [float(t.reward) for t in timesteps] == rewards
  assert [float(t.discount) for t in timesteps] == [1.0, 1.0, 0.0]
  assert [bool(t.last) for t in timesteps] == [False, False, True]
  assert timesteps[0].observation[1, column] == 1.0
  assert timesteps[0].observation[3].sum() == 1.0


def test_a_time_limit_ends_episodes_but_terminates_nothing():
  environment = environments.time_limit(counting(length=100), 3)
  state, _ = environment.reset(KEY)
  seen = []
  for _ in range(3):
    state, timestep = environment.step(state, jnp.zeros(1), KEY)
    seen.append((float(timestep.discount), bool(timestep.last)))
  assert seen == [(1.0, False), (1.0, False), (1.0, True)]


def test_a_termination_at_the_time_limit_is_a_termination():
  environment = environments.time_limit(counting(length=3), 3)
  state, _ = environment.reset(KEY)
  for _ in range(3):
    state, timestep = environment.step(state, jnp.zeros(1), KEY)
  assert (float(timestep.discount), bool(timestep.last)) == (0.0, True)


def test_a_time_limit_of_nothing_is_refused():
  with pytest.raises(ValueError, match='max_steps must be at least 1, got 0'):
    environments.time_limit(counting(3), 0)


def _box(low, high):
  spec = specs.BoundedArray((2,), np.float32, low, high)
  # It hands back the action as the observation.
  return counting(3)._replace(
    action_spec=spec,
    step=lambda state, action, key: (
      state,
      counting(3).step(state, action, key)[1]._replace(observation=action),
    ),
  )


@pytest.mark.parametrize(
  ('action', 'expected'),
  [
    ([-1.0, -1.0], [-2.0, 8.0]),
    ([1.0, 1.0], [4.0, 8.5]),
    ([0.0, 0.0], [1.0, 8.25]),
    ([9.0, -9.0], [4.0, 8.0]),
  ],
)
def test_each_dimension_has_its_own_bounds(action, expected):
  environment = environments.canonical_actions(_box([-2.0, 8.0], [4.0, 8.5]))
  spec = environment.action_spec
  np.testing.assert_array_equal([spec.minimum, spec.maximum], [-1.0, 1.0])
  state, _ = environment.reset(KEY)
  _, timestep = environment.step(state, jnp.asarray(action), KEY)
  np.testing.assert_array_equal(timestep.observation, np.float32(expected))


def test_discrete_actions_are_left_alone():
  environment = counting(3, num_actions=4)
  assert environments.canonical_actions(environment) is environment


def test_actions_without_bounds_are_refused():
  with pytest.raises(ValueError, match='Actions must have finite bounds, got'):
    environments.canonical_actions(_box([-np.inf, 0.0], [1.0, 1.0]))
