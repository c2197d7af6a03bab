"""A task that is seen as an image."""

from __future__ import annotations

import dm_env
import numpy as np
from dm_env import specs

ROWS, COLUMNS = 10, 5


class Catch(dm_env.Environment):
  """A ball falls, and the paddle in the last row has to be below it: the return is 1 or -1.

  Observes bytes `[10, 5]`, 255 where ball and paddle are; actions move the paddle left, not, and right.

  Args:
    seed: of the columns in which balls start.
  """

  def __init__(self, seed: int):
    self._rng = np.random.default_rng(seed)
    self._row = ROWS
    self._ball = self._paddle = COLUMNS // 2

  def reset(self) -> dm_env.TimeStep:
    self._row, self._ball, self._paddle = 0, int(self._rng.integers(COLUMNS)), COLUMNS // 2
    return dm_env.restart(self._observation())

  def step(self, action: np.ndarray) -> dm_env.TimeStep:
    if self._row >= ROWS - 1:
      return self.reset()
    self._row += 1
    self._paddle = int(np.clip(self._paddle + int(action) - 1, 0, COLUMNS - 1))
    if self._row < ROWS - 1:
      return dm_env.transition(0.0, self._observation())
    return dm_env.termination(1.0 if self._paddle == self._ball else -1.0, self._observation())

  def observation_spec(self) -> specs.Array:
    return specs.Array((ROWS, COLUMNS), np.uint8)

  def action_spec(self) -> specs.DiscreteArray:
    return specs.DiscreteArray(3)

  def _observation(self) -> np.ndarray:
    image = np.zeros((ROWS, COLUMNS), np.uint8)
    image[self._row, self._ball] = image[ROWS - 1, self._paddle] = 255
    return image


def make_catch(seed: int = 0) -> dm_env.Environment:
  """Returns the task."""
  return Catch(seed)
