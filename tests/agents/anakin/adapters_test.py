from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from agents.anakin import environments, rollout
from agents.anakin.environments import cartpole, pendulum

KEY = jax.random.key(0)


def _roll(environment, length, select_action):
  state = rollout.start(environment, 1, KEY)
  return rollout.rollout(environment, select_action, state, jax.random.key(1), length)[1]


def test_gymnaxs_time_limit_terminates_nothing():
  gymnax = pytest.importorskip('gymnax')
  environment = environments.from_gymnax(gymnax.make('Pendulum-v1')[0])
  steps = _roll(environment, 401, lambda observation, key: jnp.zeros((1, 1)))
  assert np.flatnonzero(steps.timestep.last[:, 0]).tolist() == [199, 399]
  np.testing.assert_array_equal(steps.timestep.discount, 1.0)
  spec = environment.action_spec
  assert (float(spec.minimum), float(spec.maximum), spec.shape) == (-2.0, 2.0, (1,))


def test_gymnaxs_termination_is_one():
  gymnax = pytest.importorskip('gymnax')
  environment = environments.from_gymnax(gymnax.make('CartPole-v1')[0])
  assert environment.action_spec.num_values == 2
  steps = _roll(environment, 30, lambda observation, key: jnp.ones(1, jnp.int32))
  last = int(np.flatnonzero(steps.timestep.last[:, 0])[0])
  assert 5 < last < 15
  assert steps.timestep.discount[: last + 1, 0].tolist() == [1.0] * last + [0.0]
  # The final observation is beyond the bounds, and the next one within the starts.
  assert abs(float(steps.timestep.observation[last, 0, 2])) > 0.2
  assert abs(float(steps.observation[last + 1, 0, 2])) < 0.06


@pytest.mark.parametrize(
  ('name', 'ours', 'action'), [('Pendulum-v1', pendulum, [1.5]), ('CartPole-v1', cartpole, 1)]
)
def test_gymnaxs_tasks_are_ours(name, ours, action):
  gymnax = pytest.importorskip('gymnax')
  environment = environments.from_gymnax(gymnax.make(name)[0])
  assert environment.observation_spec.shape == ours().observation_spec.shape
  _, observation = environment.reset(KEY)
  assert observation.shape == environment.observation_spec.shape
  assert observation.dtype == environment.observation_spec.dtype
  assert type(environment.action_spec) is type(ours().action_spec)


class _Params(NamedTuple):
  max_steps_in_episode: int = 5

  def replace(self, **options):
    raise AssertionError('its limit is left alone')


class _NewGymnax:
  """Stands for releases from 1.0 on, whose steps say what has ended them."""

  default_params = _Params()

  def observation_space(self, params):
    return _Space((1,))

  def action_space(self, params):
    return _Space((1,))

  def reset_env(self, key, params):
    return jnp.zeros(1), jnp.zeros((), jnp.int32)

  def step_env(self, key, state, action, params):
    state += 1
    return jnp.full(1, state, jnp.float32), state, 1.0, action[0] > 0.5, state >= 5, {}


class _Space(NamedTuple):
  shape: tuple[int, ...]
  low: float = -1.0
  high: float = 1.0
  dtype: Any = jnp.float32

  def sample(self, key):
    return jax.random.uniform(key, self.shape)


def test_six_values_are_taken_at_their_word():
  environment = environments.from_gymnax(_NewGymnax())
  steps = _roll(environment, 7, lambda observation, key: jnp.zeros((1, 1)))
  assert steps.timestep.last[:, 0].tolist() == [False] * 4 + [True] + [False] * 2
  np.testing.assert_array_equal(steps.timestep.discount, 1.0)
  steps = _roll(environment, 2, lambda observation, key: jnp.ones((1, 1)))
  assert steps.timestep.last[:, 0].tolist() == [True, True]
  np.testing.assert_array_equal(steps.timestep.discount, 0.0)


class _BraxState(NamedTuple):
  obs: jax.Array
  reward: jax.Array
  done: jax.Array


class _Brax:
  """Stands for a brax environment without wrappers, whose third step falls over if the action is positive."""

  observation_size, action_size = 1, 2

  def reset(self, rng):
    return _BraxState(jnp.zeros(1), jnp.zeros(()), jnp.zeros(()))

  def step(self, state, action):
    obs = state.obs + 1
    return _BraxState(obs, jnp.sum(action), ((obs[0] == 3) & (action[0] > 0)).astype(jnp.float32))


def test_brax_terminates_where_it_is_done_and_not_at_the_limit():
  environment = environments.from_brax(_Brax(), max_steps=5)
  assert (environment.observation_spec.shape, environment.action_spec.shape) == ((1,), (2,))
  fallen = _roll(environment, 4, lambda observation, key: jnp.full((1, 2), 0.5)).timestep
  assert fallen.last[:, 0].tolist() == [False, False, True, False]
  assert fallen.discount[:, 0].tolist() == [1.0, 1.0, 0.0, 1.0]
  assert fallen.reward[:, 0].tolist() == [1.0] * 4
  limited = _roll(environment, 5, lambda observation, key: jnp.full((1, 2), -0.5)).timestep
  assert limited.last[:, 0].tolist() == [False] * 4 + [True]
  np.testing.assert_array_equal(limited.discount, 1.0)


class _UnevenBrax(_Brax):
  """Stands for those whose steps give other types than their resets, of a dict observation."""

  def reset(self, rng):
    obs = {'image': jnp.zeros((2, 2), jnp.uint8), 'state': jnp.zeros(1)}
    return _BraxState(obs, jnp.zeros(()), jnp.zeros((), jnp.int32))

  def step(self, state, action):
    return _BraxState({'image': state.obs['image'] + 1.0, 'state': state.obs['state']}, 1.0, jnp.zeros(()))


def test_what_brax_steps_to_is_like_what_it_starts_with():
  environment = environments.from_brax(_UnevenBrax(), max_steps=3)
  assert environment.observation_spec['image'].shape == (2, 2)
  assert environment.observation_spec['image'].dtype == np.uint8
  steps = _roll(environment, 4, lambda observation, key: jnp.zeros((1, 2)))
  assert steps.timestep.observation['image'].dtype == jnp.uint8
  assert steps.timestep.observation['image'][:, 0, 0, 0].tolist() == [1, 2, 3, 1]
  assert steps.timestep.reward[:, 0].tolist() == [1.0] * 4


def test_braxs_own_environment_falls_and_starts_again():
  pytest.importorskip('brax')
  environment = environments.make('brax:inverted_pendulum')
  assert environment.observation_spec.shape == (4,)
  steps = _roll(environment, 60, lambda observation, key: jnp.ones((1, 1)))
  last = np.flatnonzero(steps.timestep.last[:, 0])
  assert len(last) > 1
  np.testing.assert_array_equal(steps.timestep.discount[last], 0.0)
  # The final observation is beyond the bound of 0.2, and the next one within the starts.
  assert abs(float(steps.timestep.observation[last[0], 0, 1])) > 0.2
  assert abs(float(steps.observation[last[0] + 1, 0, 1])) < 0.02
