"""A maze in which few actions are legal and an illegal one raises an error.

    0 - 1 - 2   3
        |       |
    4 - 5 - 6 - 7

Episodes start in 0 or 2, at random; they terminate in 3, and are cut after 25 steps. The shortest way, by
1, 5, 6 and 7, takes 5. As rewards are negative, illegal actions, whose values are never learned, look best
to what overlooks the mask.
"""

from __future__ import annotations

import dm_env
import numpy as np
from dm_env import specs

MOVES = ('right', 'down', 'left', 'up')
# What each legal move leads to, from each state; there is none at the goal.
NEXT_STATE = (
  {0: 1},
  {0: 2, 1: 5, 2: 0},
  {2: 1},
  {},
  {0: 5},
  {0: 6, 2: 4, 3: 1},
  {0: 7, 2: 5},
  {2: 6, 3: 3},
)
STARTS, GOAL, MAX_STEPS = (0, 2), 3, 25

# Running costs less. It is legal in the lower corridor only, and in 6 there is nothing else.
PACES = ('walk', 'run')
PACE_REWARDS = (-1.0, -0.5)
LEGAL_PACES = ((0,), (0,), (0,), (), (0, 1), (0, 1), (1,), (0, 1))

# Undiscounted returns of an episode: of the best policy, and the mean of the one that takes all legal
# actions with the same probability and reaches the goal in 45 % of its episodes. The tests of environments
# work them out.
OPTIMAL_RETURN, RANDOM_RETURN = -5.0, -20.39
OPTIMAL_RETURN_MULTI, RANDOM_RETURN_MULTI = -3.5, -17.79


class MaskedMaze(dm_env.Environment):
  """Observes the state as a one-hot vector, and the mask of its legal actions.

  Args:
    seed: of the states in which episodes start.
    paces: whether an action is a vector of move and pace, rather than a move, which costs 1.
  """

  def __init__(self, seed: int, *, paces: bool):
    self._rng = np.random.default_rng(seed)
    self._paces = paces
    self._state = GOAL
    self._steps = 0
    self._reset_next_step = True

  def reset(self) -> dm_env.TimeStep:
    self._reset_next_step = False
    self._state = int(self._rng.choice(STARTS))
    self._steps = 0
    return dm_env.restart(self._observation())

  def step(self, action: np.ndarray) -> dm_env.TimeStep:
    if self._reset_next_step:
      return self.reset()
    action = np.asarray(action).tolist()
    move, pace = action if self._paces else (action, 0)
    if move not in NEXT_STATE[self._state] or (self._paces and pace not in LEGAL_PACES[self._state]):
      raise RuntimeError(f'Action {action} is illegal in state {self._state}.')
    self._state = NEXT_STATE[self._state][move]
    self._steps += 1
    self._reset_next_step = self._state == GOAL or self._steps == MAX_STEPS
    reward, observation = PACE_REWARDS[pace], self._observation()
    if self._state == GOAL:
      return dm_env.termination(reward, observation)
    if self._steps == MAX_STEPS:
      return dm_env.truncation(reward, observation)
    return dm_env.transition(reward, observation)

  def observation_spec(self) -> dict[str, specs.Array]:
    num_values = len(MOVES) + len(PACES) * self._paces
    return {
      'observation': specs.Array((len(NEXT_STATE),), np.float32),
      'action_mask': specs.BoundedArray((num_values,), np.int8, 0, 1),
    }

  def action_spec(self) -> specs.BoundedArray:
    if not self._paces:
      return specs.DiscreteArray(len(MOVES))
    return specs.BoundedArray((2,), np.int32, 0, [len(MOVES) - 1, len(PACES) - 1])

  def _observation(self) -> dict[str, np.ndarray]:
    mask = np.zeros(len(MOVES) + len(PACES), np.int8)
    mask[list(NEXT_STATE[self._state])] = 1
    mask[[len(MOVES) + pace for pace in LEGAL_PACES[self._state]]] = 1
    one_hot = np.eye(len(NEXT_STATE), dtype=np.float32)[self._state]
    return {'observation': one_hot, 'action_mask': mask if self._paces else mask[: len(MOVES)]}


def make_masked(seed: int = 0) -> dm_env.Environment:
  """Returns the maze with one of four moves as the action."""
  return MaskedMaze(seed, paces=False)


def make_masked_multi(seed: int = 0) -> dm_env.Environment:
  """Returns the maze with a vector of move and pace as the action."""
  return MaskedMaze(seed, paces=True)
