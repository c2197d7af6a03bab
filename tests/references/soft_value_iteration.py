"""Soft value iteration for small tables in float64 NumPy, one number at a time.

Haarnoja et al., "Reinforcement Learning with Deep Energy-Based Policies", https://arxiv.org/abs/1702.08165,
theorems 1 to 3: the soft Bellman backup, repeated, leads to the soft-optimal value and its policy.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np


class TabularMDP(NamedTuple):
  """A Markov decision process of S states and A actions.

  Attributes:
    transition: `[S, A, S]`, probabilities of the next state.
    reward: `[S, A]`.
    discount: scalar or `[S, A]`, gamma included, 0 where the action ends the episode.
    mask: bool `[S, A]`, the legal actions; a state without any has value 0.
  """

  transition: np.ndarray
  reward: np.ndarray
  discount: np.ndarray
  mask: np.ndarray


class SoftSolution(NamedTuple):
  """The soft-optimal values and policy.

  Attributes:
    q: `[S, A]`, 0 for illegal actions.
    v: `[S]`, in units of reward, the entropies to come included.
    policy: `[S, A]`, probabilities, 0 for illegal actions; a row of zeros where no action is legal.
  """

  q: np.ndarray
  v: np.ndarray
  policy: np.ndarray


def soft_value_iteration(
  transition, reward, discount, alpha, mask, *, tolerance=1e-13, max_sweeps=10_000
) -> SoftSolution:
  """Repeats Q = R + discount P V and V = alpha log sum exp(Q / alpha) until neither changes."""
  transition, reward = np.asarray(transition, np.float64), np.asarray(reward, np.float64)
  num_states, num_actions = reward.shape
  discount = np.broadcast_to(np.asarray(discount, np.float64), reward.shape)
  q, v = np.zeros((num_states, num_actions)), np.zeros(num_states)
  policy = np.zeros((num_states, num_actions))
  for _ in range(max_sweeps):
    change = 0.0
    for state in range(num_states):
      legal = [action for action in range(num_actions) if mask[state][action]]
      for action in legal:
        expected = 0.0
        for successor in range(num_states):
          expected += float(transition[state, action, successor]) * float(v[successor])
        q[state, action] = float(reward[state, action]) + float(discount[state, action]) * expected
      if not legal:
        continue
      largest = max(float(q[state, action]) for action in legal)
      total = sum(math.exp((float(q[state, action]) - largest) / alpha) for action in legal)
      value = largest + alpha * math.log(total)
      change = max(change, abs(value - float(v[state])))
      v[state] = value
      for action in legal:
        policy[state, action] = math.exp((float(q[state, action]) - value) / alpha)
    if change < tolerance:
      return SoftSolution(q, v, policy)
  raise RuntimeError(f'no fixed point to {tolerance} within {max_sweeps} sweeps, last change {change}')


def soft_policy_evaluation(transition, reward, discount, alpha, policy) -> np.ndarray:
  """Returns the soft value `[S]` of any policy, by solving its linear Bellman equation.

  A row of `policy` that is all zeros belongs to a state without legal actions, of value 0.
  """
  policy = np.asarray(policy, np.float64)
  num_states, num_actions = policy.shape
  discount = np.broadcast_to(np.asarray(discount, np.float64), policy.shape)
  gain, successors = np.zeros(num_states), np.zeros((num_states, num_states))
  for state in range(num_states):
    for action in range(num_actions):
      probability = float(policy[state, action])
      if probability == 0.0:
        continue
      gain[state] += probability * (float(reward[state, action]) - alpha * math.log(probability))
      for successor in range(num_states):
        weight = probability * float(discount[state, action])
        successors[state, successor] += weight * float(transition[state, action, successor])
  return np.linalg.solve(np.eye(num_states) - successors, gain)


def random_mdp(seed: int, num_states: int = 6, num_actions: int = 4) -> TabularMDP:
  """Makes an MDP with masks whose illegal actions would pay best.

  The last state is terminal: it has no legal action and is reached only by actions whose discount is 0.
  State 0 has one legal action, all others that aren't terminal at least two, but not all of them.

  Args:
    seed: of all that is random.
    num_states: S, at least 3.
    num_actions: A, at least 3.
  """
  rng = np.random.default_rng(seed)
  terminal = num_states - 1
  mask = np.zeros((num_states, num_actions), bool)
  for state in range(terminal):
    legal = 1 if state == 0 else int(rng.integers(2, num_actions))
    mask[state, rng.choice(num_actions, size=legal, replace=False)] = True
  transition = np.zeros((num_states, num_actions, num_states))
  transition[:, :, :terminal] = rng.dirichlet(np.ones(terminal), size=(num_states, num_actions))
  discount = np.full((num_states, num_actions), 0.9)
  # One legal action of every second state ends the episode, as do all of the terminal state's.
  for state in range(1, terminal, 2):
    ending = rng.choice(np.flatnonzero(mask[state]))
    transition[state, ending] = np.eye(num_states)[terminal]
    discount[state, ending] = 0.0
  transition[terminal] = np.eye(num_states)[terminal]
  discount[terminal] = 0.0
  reward = np.where(mask, rng.normal(size=mask.shape), 10.0)
  return TabularMDP(transition, reward, discount, mask)
