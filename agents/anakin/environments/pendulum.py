"""Swinging up a pendulum, the task of gymnasium's Pendulum-v1."""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from dm_env import specs

from agents.anakin.environments import drawing
from agents.anakin.environments.protocol import Environment, PRNGKey, TimeStep

_GRAVITY = 10.0
_SECONDS_PER_STEP = 0.05
_MAX_SPEED = 8.0
_MAX_TORQUE = 2.0


class State(NamedTuple):
  """Angle from upright, counterclockwise, and angular velocity, in radians and radians a second.

  The torque is that of the last step, for pictures.
  """

  angle: jax.Array
  velocity: jax.Array
  torque: jax.Array


def pendulum() -> Environment:
  """Makes the environment; an episode never ends by itself, see `wrappers.time_limit`.

  Observations are the cosine and the sine of the angle from upright and the angular velocity. The action is
  the torque, in [-2, 2]. The reward is minus angle^2 + 0.1 velocity^2 + 0.001 torque^2, before the step.

  Returns:
    The environment.

  Reference: https://gymnasium.farama.org/environments/classic_control/pendulum/.
  """

  def observe(state: State) -> jax.Array:
    return jnp.stack([jnp.cos(state.angle), jnp.sin(state.angle), state.velocity])

  def reset(key: PRNGKey) -> tuple[State, jax.Array]:
    angle, velocity = jax.random.uniform(key, (2,), minval=-1.0, maxval=1.0) * jnp.array([jnp.pi, 1.0])
    state = State(angle, velocity, jnp.zeros_like(angle))
    return state, observe(state)

  def step(state: State, action: jax.Array, key: PRNGKey) -> tuple[State, TimeStep]:
    del key
    torque = jnp.clip(action[0], -_MAX_TORQUE, _MAX_TORQUE)
    angle = (state.angle + jnp.pi) % (2 * jnp.pi) - jnp.pi
    reward = -(angle**2 + 0.1 * state.velocity**2 + 0.001 * torque**2)
    # A rod of length 1 and mass 1.
    acceleration = 1.5 * _GRAVITY * jnp.sin(state.angle) + 3.0 * torque
    velocity = jnp.clip(state.velocity + acceleration * _SECONDS_PER_STEP, -_MAX_SPEED, _MAX_SPEED)
    state = State(state.angle + velocity * _SECONDS_PER_STEP, velocity, torque)
    return state, TimeStep(observe(state), reward, jnp.ones_like(reward), jnp.zeros((), bool))

  return Environment(
    observation_spec=specs.BoundedArray(
      (3,), np.float32, [-1.0, -1.0, -_MAX_SPEED], [1.0, 1.0, _MAX_SPEED], 'observation'
    ),
    action_spec=specs.BoundedArray((1,), np.float32, -_MAX_TORQUE, _MAX_TORQUE, 'torque'),
    reset=reset,
    step=step,
    render=_render,
  )


def _render(state: State) -> np.ndarray:
  angle, torque = float(state.angle), float(state.torque)
  canvas = drawing.Canvas((-1.3, -1.3), (1.3, 1.3), pixels_per_unit=150)
  canvas.rod((0.0, 0.0), (-np.sin(angle), np.cos(angle)), 0.2, (204, 77, 77))
  canvas.disc((0.0, 0.0), 0.05, drawing.BLACK)
  if abs(torque) > 0.01 * _MAX_TORQUE:
    # Half a circle at the most.
    canvas.arrow((0.0, 0.0), 0.3, -np.pi / 2, torque / _MAX_TORQUE * np.pi, 0.04, drawing.BLACK)
  return canvas.image
