"""The discrete recipe on tables, whose soft-optimal values and policy are known from soft value iteration."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

import sac_blocks as sb
from sac_blocks import distributions, recipes
from tests.references import soft_value_iteration as tabular

_ALPHA = 0.5
_SIZES = (2, 3)


def make_tables(mask: np.ndarray, joint_mask: np.ndarray, num_critics: int = 2) -> sb.ActorCritic:
  """Networks that look up the state's number; the actor is factored where the masks differ in width."""
  factored = mask.shape != joint_mask.shape

  def actor(params: Any, obs: Any) -> Any:
    logits, legal = params[obs], jnp.asarray(mask)[obs]
    return (
      distributions.FactoredCategorical(logits, _SIZES, legal)
      if factored
      else distributions.Categorical(logits, legal)
    )

  def init_critic(key: Any) -> Any:
    q = jax.random.normal(key, (num_critics, *joint_mask.shape))
    # No transition takes an illegal action, so that this stays and would spoil whatever reads it.
    return jnp.where(joint_mask, q, 1e9)

  return sb.ActorCritic(
    sb.Network(lambda key: 0.1 * jax.random.normal(key, mask.shape), actor),
    sb.Network(init_critic, lambda params, obs: params[:, obs]),
    actions=sb.actions.enumerated(joint_mask.shape[1]),
  )


def all_transitions(mdp: tabular.TabularMDP) -> sb.Transition:
  """Every legal (s, a) with all its successors, weighted so that the critics' loss is an exact mean."""
  s, a, s_t = np.nonzero(mdp.transition * mdp.mask[..., None])
  weights = mdp.transition[s, a, s_t] * len(s)
  return sb.Transition(s, a, mdp.reward[s, a], mdp.discount[s, a], s_t, weights.astype(np.float32))


def train(
  networks: sb.ActorCritic, draw: Callable[[Any], sb.Transition], steps: int = 3000, **options: Any
) -> Any:
  """Returns the params after training on `draw(key)` at every step, and the metrics of the last."""

  def optimizer(learning_rate: float) -> optax.GradientTransformation:
    # Second moments that forget the early, large gradients, or the last steps would be too short.
    return optax.adam(optax.exponential_decay(learning_rate, steps // 10, 0.5), b2=0.99)

  defaults = {
    'critic_optimizer': optimizer(0.2),
    'actor_optimizer': optimizer(0.2),
    # Slower than the values that it changes.
    'temperature_optimizer': optimizer(0.02),
    'initial_alpha': _ALPHA,
    'tau': 0.3,
  }
  algorithm = recipes.sac_discrete(networks, **{**defaults, **options})

  def body(state: Any, key: Any) -> Any:
    state, metrics = algorithm.update(state, draw(key))
    return state, metrics

  @jax.jit
  def run(key: Any) -> Any:
    return jax.lax.scan(body, algorithm.init(key), jax.random.split(key, steps))

  state, metrics = run(jax.random.key(0))
  return state.params, jax.tree.map(lambda x: float(x[-1]), metrics)


def assert_solved(
  networks: sb.ActorCritic, params: Any, mdp: tabular.TabularMDP, alpha: float, tolerance: float = 1e-3
) -> None:
  """Compares Q of every critic, the policy and V with those of soft value iteration."""
  expected = tabular.soft_value_iteration(*mdp[:3], alpha, mdp.mask)
  policy = networks.actor.apply(params['actor'], np.arange(len(mdp.mask)))
  for q in params['critic']:
    np.testing.assert_allclose(q[mdp.mask], expected.q[mdp.mask], rtol=0, atol=tolerance)
  np.testing.assert_allclose(policy.probs, expected.policy, rtol=0, atol=tolerance)
  value = sb.categorical_soft_value(params['critic'], policy.logits, alpha)
  np.testing.assert_allclose(value, expected.v, rtol=0, atol=tolerance)
  np.testing.assert_array_equal(params['critic'][:, ~mdp.mask], np.float32(1e9))
  np.testing.assert_allclose(np.exp(params['log_alpha']), alpha, rtol=1e-6)


@pytest.mark.parametrize(
  ('num_critics', 'options'),
  [
    (2, {}),
    (2, {'reduce': sb.reductions.mean}),
    (1, {'tau': 1.0, 'target_update_period': 20}),
  ],
  ids=['minimum', 'mean', 'one_critic_with_hard_copies'],
)
def test_finds_the_soft_optimal_values_and_policy(num_critics: int, options: dict[str, Any]):
  mdp = tabular.random_mdp(0)
  networks = make_tables(mdp.mask, mdp.mask, num_critics)
  batch = all_transitions(mdp)
  params, _ = train(networks, lambda key: batch, learn_temperature=False, **options)
  assert_solved(networks, params, mdp, _ALPHA)


def test_huber_critics_find_them_where_nothing_is_random():
  """With random successors its least loss lies elsewhere than at the mean of the targets."""
  mdp = tabular.random_mdp(1)
  mdp = mdp._replace(transition=np.eye(6)[np.argmax(mdp.transition, axis=-1)])
  networks = make_tables(mdp.mask, mdp.mask)
  batch = all_transitions(mdp)
  params, _ = train(networks, lambda key: batch, learn_temperature=False, pointwise_loss=optax.huber_loss)
  assert_solved(networks, params, mdp, _ALPHA)


@pytest.mark.parametrize('target', [{'target_entropy_ratio': 0.6}, {'target_entropy': 0.3}])
def test_learned_temperature_meets_the_target_entropy_and_solves_its_own_problem(target: dict[str, float]):
  mdp = tabular.random_mdp(2)
  networks = make_tables(mdp.mask, mdp.mask)
  batch = all_transitions(mdp)
  params, metrics = train(networks, lambda key: batch, initial_alpha=1.0, **target)
  alpha = float(np.exp(params['log_alpha']))
  assert_solved(networks, params, mdp, alpha)
  # Of the states as often as they stand in the batch.
  legal = mdp.mask[batch.obs_tm1].sum(axis=1)
  wanted = np.mean(target.get('target_entropy', 0.6 * np.log(legal)))
  solution = tabular.soft_value_iteration(*mdp[:3], alpha, mdp.mask)
  p = np.where(mdp.mask, solution.policy, 1.0)
  entropy = np.mean(-np.sum(p * np.log(p), axis=1)[batch.obs_tm1])
  np.testing.assert_allclose(entropy, wanted, rtol=0, atol=1e-3)
  np.testing.assert_allclose(metrics['policy_entropy'], wanted, rtol=0, atol=1e-3)


def random_factored_mdp(seed: int, coupling: float) -> tuple[tabular.TabularMDP, np.ndarray]:
  """Makes an MDP of two choices at once; returns the mask of the single choices, too.

  Without coupling the reward is a sum over the choices and the first alone decides what comes next. Then Q
  is a sum as well, and the soft-optimal policy, its exponential, a product.
  """
  rng = np.random.default_rng(seed)
  first = np.array([[1, 0], [1, 1], [1, 1], [1, 1], [0, 1], [0, 0]], bool)
  second = np.array([[0, 1, 0], [1, 1, 0], [1, 1, 1], [0, 1, 1], [1, 1, 1], [0, 0, 0]], bool)
  states = len(first)

  def by_first(x: np.ndarray) -> np.ndarray:
    # The last factor varies fastest.
    return np.repeat(x, _SIZES[1], axis=1)

  def by_second(x: np.ndarray) -> np.ndarray:
    return np.tile(x, (1, _SIZES[0]))

  transition = np.zeros((states, 2, states))
  transition[:, :, :-1] = rng.dirichlet(np.ones(states - 1), size=(states, 2))
  discount = np.full((states, 2), 0.9)
  for state, action in ((1, 1), (3, 0)):
    transition[state, action], discount[state, action] = np.eye(states)[-1], 0.0
  mask = by_first(first) & by_second(second)
  reward = by_first(rng.normal(size=(states, 2))) + by_second(rng.normal(size=(states, 3)))
  reward = np.where(mask, reward + coupling * rng.normal(size=mask.shape), 10.0)
  mdp = tabular.TabularMDP(by_first(transition), reward, by_first(discount), mask)
  return mdp, np.concatenate([first, second], axis=1)


def factored_batch(mdp: tabular.TabularMDP) -> sb.Transition:
  batch = all_transitions(mdp)
  return batch._replace(a_tm1=np.stack(np.unravel_index(batch.a_tm1, _SIZES), axis=-1))


def test_factored_policy_is_soft_optimal_where_the_optimum_is_a_product():
  mdp, mask = random_factored_mdp(0, coupling=0.0)
  networks = make_tables(mask, mdp.mask)
  batch = factored_batch(mdp)
  params, _ = train(networks, lambda key: batch, learn_temperature=False)
  assert_solved(networks, params, mdp, _ALPHA)


def test_factored_policy_is_elsewhere_the_best_answer_of_each_factor_to_the_others():
  """And the critics hold its exact soft values, of each joint action by itself."""
  mdp, mask = random_factored_mdp(1, coupling=2.0)
  networks = make_tables(mask, mdp.mask)
  batch = factored_batch(mdp)
  params, _ = train(networks, lambda key: batch, learn_temperature=False)
  law = networks.actor.apply(params['actor'], np.arange(len(mask)))
  first, second = (np.asarray(factor.probs, np.float64) for factor in law.factors)
  policy = (first[:, :, None] * second[:, None, :]).reshape(mdp.mask.shape)
  value = tabular.soft_policy_evaluation(*mdp[:3], _ALPHA, policy)
  q = mdp.reward + mdp.discount * (mdp.transition @ value)
  for learned in params['critic']:
    np.testing.assert_allclose(learned[mdp.mask], q[mdp.mask], rtol=0, atol=1e-3)
  q = np.where(mdp.mask, q, 0.0).reshape(-1, *_SIZES)
  for own, answer, legal in (
    (first, np.einsum('sij,sj->si', q, second), mask[:, :2]),
    (second, np.einsum('sij,si->sj', q, first), mask[:, 2:]),
  ):
    best = np.where(legal, np.exp((answer - answer.max(axis=1, keepdims=True)) / _ALPHA), 0.0)
    best /= np.maximum(best.sum(axis=1, keepdims=True), 1e-300)
    np.testing.assert_allclose(own, best, rtol=0, atol=1e-3)
  # Not the optimum over all policies, which is no product here.
  optimum = tabular.soft_value_iteration(*mdp[:3], _ALPHA, mdp.mask)
  assert np.max(np.abs(policy - optimum.policy)) > 0.1
  assert np.all(value <= optimum.v + 1e-9)


def test_random_minibatches_lead_near_the_soft_optimum():
  """As replay gives them: 64 transitions a step, drawn from all that were made, each with one successor."""
  mdp = tabular.random_mdp(0)
  networks = make_tables(mdp.mask, mdp.mask)
  s, a = map(jnp.asarray, np.nonzero(mdp.mask))
  log_p = jnp.log(jnp.asarray(mdp.transition, jnp.float32))
  reward, discount = jnp.asarray(mdp.reward), jnp.asarray(mdp.discount)
  steps, size = 3000, 64

  def draw(key: Any) -> sb.Transition:
    pair_key, successor_key = jax.random.split(key)
    pair = jax.random.randint(pair_key, (size,), 0, len(s))
    obs, action = s[pair], a[pair]
    successor = jax.random.categorical(successor_key, log_p[obs, action])
    return sb.Transition(obs, action, reward[obs, action], discount[obs, action], successor)

  params, _ = train(networks, draw, steps, learn_temperature=False)
  # Over the second half, in which the learning rate falls towards nothing, critics average n targets of each
  # pair. Their mean errs by spread / sqrt(n), and bootstrapping makes that 1 / (1 - 0.9) times as much where
  # all errors have one sign.
  v = tabular.soft_value_iteration(*mdp[:3], _ALPHA, mdp.mask).v
  spread = mdp.discount * np.sqrt(mdp.transition @ v**2 - (mdp.transition @ v) ** 2)
  tolerance = 10 * np.max(spread[mdp.mask]) / np.sqrt(steps / 2 * size / len(s))
  assert tolerance < 0.1
  assert_solved(networks, params, mdp, _ALPHA, tolerance)
