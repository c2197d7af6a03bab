"""Balancing a pole on a cart, the task of gymnasium's CartPole-v1."""

from __future__ import annotations

import math
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from dm_env import specs

from agents.anakin.environments import drawing
from agents.anakin.environments.protocol import Environment, PRNGKey, TimeStep

_GRAVITY = 9.8
_CART_MASS, _POLE_MASS = 1.0, 0.1
_HALF_LENGTH = 0.5
_FORCE = 10.0
_SECONDS_PER_STEP = 0.02
_MAX_POSITION = 2.4
_MAX_ANGLE = math.radians(12.0)


class State(NamedTuple):
  """Position and velocity of the cart, angle from upright (clockwise) and angular velocity of the pole."""

  position: jax.Array
  velocity: jax.Array
  angle: jax.Array
  angular_velocity: jax.Array


def cartpole() -> Environment:
  """Makes the environment; an episode ends by itself only where the pole falls, see `wrappers.time_limit`.

  Observations are the four numbers of the state. Action 0 pushes to the left and 1 to the right. Each step
  has reward 1, the one in which the pole falls or the cart leaves the track included.

  Returns:
    The environment.

  Reference: A. Barto, R. Sutton and C. Anderson, Neuronlike adaptive elements that can solve difficult
  learning control problems, 1983; https://gymnasium.farama.org/environments/classic_control/cart_pole/.
  """

  def reset(key: PRNGKey) -> tuple[State, jax.Array]:
    observation = jax.random.uniform(key, (4,), minval=-0.05, maxval=0.05)
    return State(*observation), observation

  def step(state: State, action: jax.Array, key: PRNGKey) -> tuple[State, TimeStep]:
    del key
    mass = _CART_MASS + _POLE_MASS
    force = jnp.where(action == 1, _FORCE, -_FORCE)
    sine, cosine = jnp.sin(state.angle), jnp.cos(state.angle)
    push = (force + _POLE_MASS * _HALF_LENGTH * state.angular_velocity**2 * sine) / mass
    angular_acceleration = (_GRAVITY * sine - cosine * push) / (
      _HALF_LENGTH * (4.0 / 3.0 - _POLE_MASS * cosine**2 / mass)
    )
    acceleration = push - _POLE_MASS * _HALF_LENGTH * angular_acceleration * cosine / mass
    state = State(
      state.position + _SECONDS_PER_STEP * state.velocity,
      state.velocity + _SECONDS_PER_STEP * acceleration,
      state.angle + _SECONDS_PER_STEP * state.angular_velocity,
      state.angular_velocity + _SECONDS_PER_STEP * angular_acceleration,
    )
    fallen = (jnp.abs(state.position) > _MAX_POSITION) | (jnp.abs(state.angle) > _MAX_ANGLE)
    discount = 1.0 - fallen.astype(jnp.float32)
    return state, TimeStep(jnp.stack(state), jnp.ones_like(discount), discount, fallen)

  return Environment(
    observation_spec=specs.Array((4,), np.float32, 'observation'),
    action_spec=specs.DiscreteArray(2, np.int32, 'action'),
    reset=reset,
    step=step,
    render=_render,
  )


def _render(state: State) -> np.ndarray:
  position, angle = float(state.position), float(state.angle)
  canvas = drawing.Canvas((-3.0, -0.6), (3.0, 1.6), pixels_per_unit=100)
  canvas.rod((-_MAX_POSITION, 0.0), (_MAX_POSITION, 0.0), 0.03, drawing.GREY)
  for end in (-_MAX_POSITION, _MAX_POSITION):
    canvas.rod((end, -0.15), (end, 0.15), 0.03, drawing.GREY)
  canvas.box((position - 0.3, -0.15), (position + 0.3, 0.15), drawing.BLACK)
  length = 2 * _HALF_LENGTH
  tip = (position + length * np.sin(angle), length * np.cos(angle))
  canvas.rod((position, 0.0), tip, 0.1, (202, 152, 101))
  canvas.disc((position, 0.0), 0.05, (129, 132, 203))
  return canvas.image
