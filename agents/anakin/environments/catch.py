"""Catching a falling ball, the task of bsuite's catch."""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from dm_env import specs

from agents.anakin.environments import drawing
from agents.anakin.environments.protocol import Environment, PRNGKey, TimeStep


class State(NamedTuple):
  """Row and column of the ball, and column of the paddle, which is in the last row."""

  ball_row: jax.Array
  ball_column: jax.Array
  paddle: jax.Array


def catch(rows: int = 10, columns: int = 5) -> Environment:
  """Makes the environment; each episode terminates when the ball reaches the last row.

  Observations are the board, `[rows, columns]`, with 1 where the ball and the paddle are. Actions are to move
  the paddle left (0), to leave it (1) and to move it right (2). The last step has reward 1 if the ball is
  caught and -1 if not; all others have 0.

  Args:
    rows: of the board; an episode has one step less.
    columns: of the board.

  Returns:
    The environment.

  Reference: I. Osband et al., Behaviour Suite for Reinforcement Learning, arXiv:1908.03568, appendix A.
  """

  def observe(state: State) -> jax.Array:
    board = jnp.zeros((rows, columns))
    return board.at[state.ball_row, state.ball_column].set(1.0).at[rows - 1, state.paddle].set(1.0)

  def reset(key: PRNGKey) -> tuple[State, jax.Array]:
    column = jax.random.randint(key, (), 0, columns)
    state = State(jnp.zeros((), jnp.int32), column, jnp.full((), columns // 2, jnp.int32))
    return state, observe(state)

  def step(state: State, action: jax.Array, key: PRNGKey) -> tuple[State, TimeStep]:
    del key
    paddle = jnp.clip(state.paddle + action.astype(jnp.int32) - 1, 0, columns - 1)
    state = State(state.ball_row + 1, state.ball_column, paddle)
    last = state.ball_row == rows - 1
    reward = jnp.where(last, jnp.where(state.ball_column == paddle, 1.0, -1.0), 0.0)
    return state, TimeStep(observe(state), reward, 1.0 - last.astype(jnp.float32), last)

  def render(state: State) -> np.ndarray:
    # A unit is a cell, and the first row is on top.
    canvas = drawing.Canvas((0.0, 0.0), (columns, rows), pixels_per_unit=40)
    for x in range(columns + 1):
      canvas.rod((x, 0.0), (x, rows), 0.05, drawing.GREY)
    for y in range(rows + 1):
      canvas.rod((0.0, y), (columns, y), 0.05, drawing.GREY)
    paddle, row, column = int(state.paddle), int(state.ball_row), int(state.ball_column)
    canvas.box((paddle + 0.1, 0.1), (paddle + 0.9, 0.4), (70, 110, 190))
    canvas.disc((column + 0.5, rows - row - 0.5), 0.35, (204, 77, 77))
    return canvas.image

  return Environment(
    observation_spec=specs.BoundedArray((rows, columns), np.float32, 0.0, 1.0, 'board'),
    action_spec=specs.DiscreteArray(3, np.int32, 'action'),
    reset=reset,
    step=step,
    render=render,
  )
