"""Tests of the soft value iteration that others are compared with."""

from __future__ import annotations

import math

import numpy as np
import pytest

from tests.references import soft_value_iteration as tabular

_ALPHA = 0.3

every_mdp = pytest.mark.parametrize('seed', range(3))


def _solve(seed, alpha=_ALPHA):
  mdp = tabular.random_mdp(seed)
  return mdp, tabular.soft_value_iteration(*mdp[:3], alpha, mdp.mask)


def _random_policies(mask, rng, number, centre=None):
  """Yields policies over the legal actions, spread over the simplex or close around `centre`."""
  for _ in range(number):
    weights = (
      rng.exponential(size=mask.shape) if centre is None else rng.uniform(0.9, 1.1, mask.shape) * centre
    )
    policy = np.where(mask, weights, 0.0)
    total = policy.sum(axis=1, keepdims=True)
    yield policy / np.where(total > 0.0, total, 1.0)


@every_mdp
def test_random_mdp_has_what_its_users_rely_on(seed):
  transition, reward, discount, mask = tabular.random_mdp(seed)
  assert transition.shape == (6, 4, 6)
  assert reward.shape == discount.shape == mask.shape == (6, 4)
  np.testing.assert_allclose(transition.sum(axis=-1), 1.0)
  legal = mask.sum(axis=1)
  assert legal[0] == 1
  assert legal[-1] == 0
  assert np.all((legal[1:-1] >= 2) & (legal[1:-1] < 4))
  # Whatever leads to the terminal state does so for certain and isn't bootstrapped from.
  ends = transition[:, :, -1] > 0.0
  assert np.all(transition[ends][:, -1] == 1.0)
  np.testing.assert_array_equal(discount == 0.0, ends)
  assert np.any(ends[:-1] & mask[:-1])
  assert reward[~mask].min() > reward[mask].max()


def test_solution_of_one_state_is_known():
  # V = a log(e^(Q1/a) + e^(Q2/a) + e^(Q3/a)); an illegal fourth action, and no future.
  solution = tabular.soft_value_iteration(
    np.ones((1, 4, 1)), [[1.0, 2.0, 3.0, 100.0]], 0.0, 0.5, [[True, True, True, False]]
  )
  np.testing.assert_allclose(solution.policy, [[0.015876, 0.117310, 0.866813, 0.0]], atol=1e-6)
  np.testing.assert_allclose(solution.v, [3.071466], atol=1e-6)
  # With two equal actions for ever, V = (a log 2) / (1 - g).
  solution = tabular.soft_value_iteration(np.ones((1, 2, 1)), np.zeros((1, 2)), 0.9, 0.5, np.ones((1, 2)))
  np.testing.assert_allclose(solution.v, [0.5 * math.log(2.0) / 0.1], rtol=1e-11)


@every_mdp
def test_value_is_that_of_its_own_policy(seed):
  mdp, solution = _solve(seed)
  np.testing.assert_allclose(solution.policy.sum(axis=1), mdp.mask.any(axis=1), rtol=1e-12)
  assert np.all(solution.policy[~mdp.mask] == 0.0)
  assert np.all(solution.policy[mdp.mask] > 0.0)
  evaluated = tabular.soft_policy_evaluation(*mdp[:3], _ALPHA, solution.policy)
  np.testing.assert_allclose(solution.v, evaluated, rtol=1e-11, atol=1e-11)
  assert solution.v[-1] == 0.0
  expected = np.where(mdp.mask, mdp.reward + mdp.discount * (mdp.transition @ evaluated), 0.0)
  np.testing.assert_allclose(solution.q, expected, rtol=1e-11, atol=1e-11)


@every_mdp
def test_no_other_policy_has_a_higher_value_anywhere(seed):
  mdp, solution = _solve(seed)
  rng = np.random.default_rng(seed)
  far = _random_policies(mdp.mask, rng, 100)
  near = _random_policies(mdp.mask, rng, 100, solution.policy)
  for policy in (*far, *near):
    other = tabular.soft_policy_evaluation(*mdp[:3], _ALPHA, policy)
    assert np.all(other <= solution.v + 1e-12)
    assert np.any(other < solution.v - 1e-6)


def test_little_temperature_finds_the_best_of_all_deterministic_policies():
  mdp, solution = _solve(0, alpha=1e-3)
  best = np.full(6, -np.inf)
  choices = [np.flatnonzero(row) for row in mdp.mask[:-1]]
  for index in np.ndindex(*map(len, choices)):
    policy = np.zeros((6, 4))
    for state, (legal, choice) in enumerate(zip(choices, index, strict=True)):
      policy[state, legal[choice]] = 1.0
    best = np.maximum(best, tabular.soft_policy_evaluation(*mdp[:3], 0.0, policy))
  # The entropies of at most log 3 a step, for ever, are worth at most 1e-3 log 3 / (1 - 0.9).
  assert np.all(solution.v >= best - 1e-12)
  assert np.all(solution.v <= best + 1e-3 * math.log(3.0) / 0.1)
