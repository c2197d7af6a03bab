"""Tests of the values, targets and losses over discrete actions."""

from __future__ import annotations

import functools
import math

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from hypothesis import given
from hypothesis import strategies as st

import sac_blocks as sb
from sac_blocks import distributions
from tests import numerics
from tests.references import soft_actor_critic as reference
from tests.references import soft_value_iteration as tabular

_ALPHA = 0.3
_LOG_TWO = math.log(2.0)
_ONES = np.ones(4, np.float32)

every_way_to_run = pytest.mark.parametrize('run', ['eager', 'jit', 'vmap'])


def _batch(leading=(4,), heads=2, actions=5, seed=0, dtype=np.float32):
  """Returns q, logits and a mask with at least one legal action a row, in the first row all but the last."""
  rng = np.random.default_rng(seed)
  q = 3.0 * rng.normal(size=(heads, *leading, actions))
  logits = rng.normal(size=(*leading, actions))
  always = np.arange(actions) == rng.integers(0, actions, leading)[..., None]
  mask = always | (rng.uniform(size=logits.shape) < 0.5)
  mask[(0,) * len(leading)] = np.arange(actions) < actions - 1
  return q.astype(dtype), logits.astype(dtype), mask


def _everything(q, logits, alpha, mask=None):
  """Returns all that an illegal action could spoil, [...] each; the action taken is the first legal one."""
  legal = logits != -jnp.inf if mask is None else mask
  action = jnp.argmax(legal, axis=-1)
  one = jnp.ones(action.shape, q.dtype)
  loss, entropy = sb.categorical_actor_loss(logits, q, alpha, mask)
  return {
    'value': sb.categorical_soft_value(q, logits, alpha, mask),
    'target': sb.categorical_soft_q_target(one, 0.9 * jnp.any(legal, axis=-1), q, logits, alpha, mask),
    'critic_loss': sb.categorical_twin_critic_loss(q, action, one, mask),
    'actor_loss': loss,
    'entropy': entropy,
  }


def _with_gradients(q, logits, alpha, mask=None):
  """Returns `_everything`, and by the same names the gradients of the sums by q, logits and alpha."""
  values, vjp = jax.vjp(lambda *inputs: _everything(*inputs, mask), q, logits, alpha)
  zeros = jax.tree_util.tree_map(jnp.zeros_like, values)
  gradients = {name: vjp({**zeros, name: jnp.ones_like(value)}) for name, value in values.items()}
  return values, gradients


_everything_jitted = jax.jit(_everything)
_jitted = jax.jit(_with_gradients)
_mapped = jax.jit(jax.vmap(_with_gradients, in_axes=(1, 0, 0, 0)))


def _run(run, q, logits, mask):
  """Returns `_with_gradients` of a batch [B], with an alpha for each example."""
  alpha = np.full(logits.shape[:-1], _ALPHA, q.dtype)
  if run == 'eager':
    # Here the checks of values see them. They are no part of a gradient, which takes long to run eagerly.
    return _everything(q, logits, alpha, mask), _jitted(q, logits, alpha, mask)[1]
  if run == 'jit':
    return _jitted(q, logits, alpha, mask)
  values, gradients = _mapped(q, logits, alpha, mask)
  return values, {name: (jnp.swapaxes(g[0], 0, 1), *g[1:]) for name, g in gradients.items()}


def _assert_same_bits(actual, expected):
  for a, b in zip(*map(jax.tree_util.tree_leaves, (actual, expected)), strict=True):
    assert np.all(np.isfinite(b))
    np.testing.assert_array_equal(a, b)


# Known numbers.


def test_soft_value_is_an_expectation_and_not_a_mean_over_actions():
  # 0.2 * 1 + 0.3 * 2 + 0.5 * 3 + 0.5 * 1.029653. The mean over the three would be 0.938276.
  q, logits = jnp.array([[1.0, 2.0, 3.0]]), jnp.log(jnp.array([0.2, 0.3, 0.5]))
  assert float(sb.categorical_soft_value(q, logits, 0.5)) == pytest.approx(2.814827, abs=1e-6)
  loss, entropy = sb.categorical_actor_loss(logits, q, 0.5)
  assert float(loss) == pytest.approx(-2.814827, abs=1e-6)
  assert float(entropy) == pytest.approx(1.029653, abs=1e-6)


def test_minimum_is_taken_action_by_action():
  # The smaller q are 1 and 0. The smaller of the two heads' expectations would give 1.5 + 0.069315.
  q, logits = jnp.array([[1.0, 2.0], [3.0, 0.0]]), jnp.zeros(2)
  assert float(sb.categorical_soft_value(q, logits, 0.1)) == pytest.approx(0.569315, abs=1e-6)
  assert float(sb.categorical_actor_loss(logits, q, 0.1)[0]) == pytest.approx(-0.569315, abs=1e-6)
  target = sb.categorical_soft_q_target(jnp.array(1.0), 0.9, q, logits, 0.1)
  assert float(target) == pytest.approx(1.512383, abs=1e-6)


@pytest.mark.parametrize('rest', [0.0, -1e4, -1e30, float(np.finfo(np.float32).min)])
@pytest.mark.parametrize('top', [200.0, 1e4, 1e30])
def test_probabilities_that_underflow_leave_everything_finite(top, rest):
  """The logarithm of a softmax would give NaN; sum p (a log p - q) is that of the first action alone."""
  values, gradients = _jitted(np.float32([[1.0, 2.0, 3.0]]), np.float32([top, rest, rest]), np.float32(0.2))
  assert float(values['actor_loss']) == pytest.approx(-1.0, abs=1e-6)
  assert float(values['value']) == pytest.approx(1.0, abs=1e-6)
  assert float(values['entropy']) == pytest.approx(0.0, abs=1e-6)
  np.testing.assert_allclose(gradients['value'][0], [[1.0, 0.0, 0.0]], atol=1e-6)
  for name in ('actor_loss', 'value', 'entropy'):
    _, by_logits, by_alpha = gradients[name]
    np.testing.assert_allclose(by_logits, np.zeros(3), atol=1e-6)
    np.testing.assert_allclose(by_alpha, 0.0, atol=1e-6)


@pytest.mark.parametrize(
  ('third', 'mask'), [(-math.inf, None), (5.0, [True, True, False]), (-math.inf, [True, True, False])]
)
def test_entropy_of_two_legal_actions_of_three(third, mask):
  mask = None if mask is None else np.array(mask)
  slope = np.array([0.19661, -0.19661, 0.0])
  values, gradients = _jitted(
    np.float32([[0.0, 0.0, 100.0]]), np.float32([1.0, 2.0, third]), np.float32(1.0), mask
  )
  assert float(values['entropy']) == pytest.approx(0.582203, abs=1e-6)
  for name, sign in {'value': 1.0, 'actor_loss': -1.0}.items():
    assert float(values[name]) == pytest.approx(sign * 0.582203, abs=1e-6)
    by_logits = gradients[name][1]
    np.testing.assert_allclose(by_logits, sign * slope, atol=1e-5)
    assert by_logits[2] == 0.0


def test_an_illegal_action_with_the_largest_q_stays_out_of_the_value():
  # 0.5 * 1 + 0.5 * 2 + 0.2 log 2.
  q, mask = jnp.array([[1.0, 2.0, 100.0]]), jnp.array([True, True, False])
  value = sb.categorical_soft_value(q, jnp.array([0.0, 0.0, 7.0]), 0.2, mask)
  assert float(value) == pytest.approx(1.638629, abs=1e-6)


@pytest.mark.parametrize('scale', [1.0, 2.0])
def test_value_of_the_soft_optimal_policy(scale):
  """pi* = softmax(q / alpha), which stays when rewards and temperature double."""
  q, alpha = scale * jnp.array([[1.0, 2.0, 3.0]]), 0.5 * scale
  logits = q[0] / alpha
  np.testing.assert_allclose(
    distributions.Categorical(logits).probs, [0.015876, 0.117310, 0.866813], atol=1e-6
  )
  assert float(sb.categorical_soft_value(q, logits, alpha)) == pytest.approx(3.071466 * scale, abs=1e-5)


@pytest.mark.parametrize(
  ('terminated', 'truncated', 'expected'), [(0, 1, 10.9), (1, 0, 1.0), (1, 1, 1.0), (0, 0, 10.9)]
)
def test_only_termination_cuts_the_target(terminated, truncated, expected):
  del truncated  # A time limit is no argument of the target: the discount knows termination alone.
  target = sb.categorical_soft_q_target(
    1.0, 0.99 * (1 - terminated), jnp.full((2, 3), 10.0), jnp.zeros(3), 0.0
  )
  assert float(target) == pytest.approx(expected, abs=1e-6)


def test_half_precision_networks_leave_the_discount_exact():
  # bfloat16(0.99) is 0.98828125; a target that is computed in bfloat16 would also round the 99.
  target = sb.categorical_soft_q_target(
    jnp.float32(0.0), 0.99, jnp.full((1, 1), 100.0, jnp.bfloat16), jnp.zeros(1, jnp.bfloat16), 0.1
  )
  assert target.dtype == jnp.float32
  assert float(target) == pytest.approx(99.0, rel=1e-6)


def test_critic_loss_adds_half_squares_at_the_action_taken():
  q_tm1 = jnp.array([[[9.0, 5.0], [1.0, 9.0]], [[9.0, 4.0], [4.0, 9.0]]])
  loss = sb.categorical_twin_critic_loss(q_tm1, jnp.array([1, 0]), jnp.array([6.0, 2.0]))
  np.testing.assert_allclose(loss, [0.5 + 2.0, 0.5 + 2.0], rtol=1e-6)


def test_huber_replaces_the_square():
  q_tm1 = jnp.array([[9.0, 5.0], [9.0, 0.5]])
  loss = sb.categorical_twin_critic_loss(q_tm1, jnp.array(1), jnp.array(0.0), pointwise_loss=optax.huber_loss)
  assert float(loss) == pytest.approx(4.5 + 0.125, rel=1e-6)
  # A loss that isn't symmetric tells predictions and targets apart.
  loss = sb.categorical_twin_critic_loss(
    q_tm1, jnp.array(1), jnp.array(2.0), pointwise_loss=lambda prediction, _: prediction
  )
  assert float(loss) == pytest.approx(5.5, rel=1e-6)


def test_one_example_of_one_action_keeps_its_axes():
  q, logits, action = jnp.full((1, 1, 1), 2.0), jnp.zeros((1, 1)), jnp.zeros(1, jnp.int32)
  np.testing.assert_array_equal(sb.categorical_soft_value(q, logits, 0.5), [2.0])
  np.testing.assert_array_equal(sb.q_at_action(q, action), [[2.0]])
  np.testing.assert_array_equal(sb.categorical_twin_critic_loss(q, action, jnp.zeros(1)), [2.0])
  loss, entropy = sb.categorical_actor_loss(logits, q, 0.5)
  np.testing.assert_array_equal(loss, [-2.0])
  np.testing.assert_array_equal(entropy, [0.0])


# Gradients.


def test_soft_value_gradients_agree_with_finite_differences():
  q, logits, mask = _batch(dtype=np.float64)
  with numerics.enable_x64():
    inputs = [q, logits, np.float64(_ALPHA)]
    value = jax.jit(lambda *xs: sb.categorical_soft_value(*xs, mask))
    gradients = jax.jit(jax.grad(lambda *xs: jnp.sum(value(*xs)), argnums=(0, 1, 2)))(*inputs)
    for position, gradient in enumerate(gradients):

      def function(x, position=position):
        changed = list(inputs)
        changed[position] = x
        return value(*changed)

      expected = numerics.finite_differences(function, inputs[position])
      np.testing.assert_allclose(gradient, expected, rtol=1e-7, atol=1e-8)
      assert np.any(gradient != 0.0)


@pytest.mark.parametrize('masked', [False, True])
def test_actor_gradient_agrees_with_finite_differences(masked):
  q, logits, mask = _batch(seed=1, dtype=np.float64)
  mask = mask if masked else None
  with numerics.enable_x64():
    loss = jax.jit(lambda x: sb.categorical_actor_loss(x, q, _ALPHA, mask)[0])
    gradient = jax.jit(jax.grad(lambda x: jnp.sum(loss(x))))(logits)
    np.testing.assert_allclose(gradient, numerics.finite_differences(loss, logits), rtol=1e-7, atol=1e-8)
    assert np.any(gradient != 0.0)


@pytest.mark.parametrize('pointwise_loss', [optax.l2_loss, optax.huber_loss])
def test_critic_gradient_agrees_with_finite_differences(pointwise_loss):
  q_tm1, _, mask = _batch(seed=2, dtype=np.float64)
  action, target = np.argmax(mask, axis=-1), np.linspace(-3.0, 3.0, 4)
  with numerics.enable_x64():

    @jax.jit
    def loss(q_tm1):
      return sb.categorical_twin_critic_loss(q_tm1, action, target, mask, pointwise_loss=pointwise_loss)

    gradient = jax.jit(jax.grad(lambda q: jnp.sum(loss(q))))(q_tm1)
    np.testing.assert_allclose(gradient, numerics.finite_differences(loss, q_tm1), rtol=1e-7, atol=1e-8)


def test_critic_gradient_reaches_the_action_taken_and_nothing_else():
  """Nor does a head's gradient depend on the number of heads."""
  q_tm1, _, mask = _batch(heads=3)
  action = np.argmax(mask, axis=-1)
  gradient = jax.grad(
    lambda q, y: jnp.sum(sb.categorical_twin_critic_loss(q, action, y, mask)), argnums=(0, 1)
  )
  by_q, by_target = jax.jit(gradient)(q_tm1, np.full(4, 0.5, np.float32))
  taken = np.arange(5) == action[:, None]
  np.testing.assert_allclose(by_q, np.where(taken, q_tm1 - 0.5, 0.0), rtol=1e-6)
  np.testing.assert_array_equal(by_q[:, ~taken], np.zeros((3, 16)))
  np.testing.assert_array_equal(by_target, np.zeros(4))


def test_targets_are_stopped_in_every_argument():
  q_t, logits_t, mask_t = _batch()
  r_t, discount_t = np.full((2, 4), 0.5, np.float32)
  gradients = jax.grad(lambda *xs: jnp.sum(sb.categorical_soft_q_target(*xs, mask_t)), argnums=range(5))
  for gradient in jax.jit(gradients)(r_t, discount_t, q_t, logits_t, _ALPHA):
    np.testing.assert_array_equal(gradient, np.zeros_like(gradient))


def test_actor_loss_differentiates_by_the_logits_alone():
  q, logits, mask = _batch()
  gradient = jax.grad(lambda *xs: jnp.sum(sb.categorical_actor_loss(*xs, mask)[0]), argnums=(0, 1, 2))
  by_logits, by_q, by_alpha = jax.jit(gradient)(logits, q, _ALPHA)
  assert np.all(by_logits[0, :4] != 0.0)
  np.testing.assert_array_equal(by_q, np.zeros_like(q))
  assert by_alpha == 0.0


def test_each_loss_updates_its_own_parameters_alone():
  """Losses of a whole agent: everything but what a loss is for gets exactly no gradient."""
  obs = np.linspace(-1.0, 1.0, 4, dtype=np.float32)[:, None]
  action, mask = np.array([0, 1, 2, 0]), np.array([[1, 1, 1], [0, 1, 1], [1, 0, 1], [1, 1, 0]], bool)
  params = {
    'critic': jnp.array([[1.0, 2.0, 0.5], [0.3, -1.0, 1.0]]),
    'target_critic': jnp.array([[0.5, 3.0, 1.0], [1.0, 1.0, -2.0]]),
    'actor': jnp.array([0.3, -0.2, 0.9]),
    'log_alpha': jnp.array(-1.0),
  }

  def losses(params):
    alpha = jnp.exp(params['log_alpha'])
    logits = params['actor'][None] * obs
    q, q_t = (params[name][:, None] * obs[None] + 1.0 for name in ('critic', 'target_critic'))
    target = sb.categorical_soft_q_target(jnp.ones(4), 0.9, q_t, logits, alpha, mask)
    actor, entropy = sb.categorical_actor_loss(logits, q, alpha, mask)
    goal = sb.discrete_target_entropy(mask)
    return {
      'critic': jnp.mean(sb.categorical_twin_critic_loss(q, action, target, mask)),
      'actor': jnp.mean(actor),
      'log_alpha': jnp.mean(sb.temperature_loss(params['log_alpha'], entropy, goal)),
    }

  for own, gradients in jax.jit(jax.jacrev(losses))(params).items():
    for name, gradient in gradients.items():
      if name == own:
        assert np.all(gradient != 0.0), name
      else:
        np.testing.assert_array_equal(gradient, np.zeros_like(gradient), err_msg=f'{own} by {name}')


def test_actor_gradient_vanishes_exactly_at_the_soft_optimal_policy():
  q, other_logits, mask = _batch((20,), dtype=np.float64)
  with numerics.enable_x64():
    # A shift of all logits of a row leaves their policy as it is.
    best_logits = q.min(axis=0) / _ALPHA + np.linspace(-5.0, 5.0, 20)[:, None]

    @jax.jit
    def loss(logits):
      return sb.categorical_actor_loss(logits, q, _ALPHA, mask)[0]

    gradient = jax.jit(jax.grad(lambda logits: jnp.sum(loss(logits))))
    np.testing.assert_allclose(gradient(best_logits), np.zeros((20, 5)), atol=1e-13)
    rows = mask.sum(axis=-1) > 1
    assert np.all(np.abs(gradient(other_logits)).max(axis=-1)[rows] > 1e-3)
    assert np.all(np.asarray(loss(other_logits) - loss(best_logits))[rows] > 1e-6)


# Masks.


@every_way_to_run
def test_whatever_stands_at_illegal_actions_changes_no_bit(run):
  """Each row of the batch has something else there."""
  q, logits, mask = _batch()
  expected = _run(run, np.where(mask, q, 0.0), np.where(mask, logits, 0.0), mask)
  for anything in ([1e30, -1e30, math.inf, -math.inf], [math.nan, math.nan, -math.inf, math.inf]):
    fill = np.float32(anything)[:, None]
    actual = _run(run, np.where(mask, q, fill), np.where(mask, logits, fill), mask)
    _assert_same_bits(actual, expected)
  for by_q, by_logits, _ in actual[1].values():
    assert np.all(by_q[:, ~mask] == 0.0)
    assert np.all(by_logits[~mask] == 0.0)
  assert np.all(actual[1]['value'][0].sum(axis=0)[mask] > 0.0)


@pytest.mark.parametrize('anything', [0.0, math.inf, -math.inf, math.nan])
def test_logits_of_minus_infinity_are_a_mask(anything):
  q, logits, mask = _batch()
  hidden = np.where(mask, logits, -np.inf), np.where(mask, q, np.float32(anything))
  without = _jitted(hidden[1], hidden[0], np.full(4, _ALPHA, np.float32))
  masked = _run('jit', np.where(mask, q, 0.0), np.where(mask, logits, 0.0), mask)
  # Two programs, which a compiler may round differently.
  for actual, expected in zip(*map(jax.tree.leaves, (without, masked)), strict=True):
    np.testing.assert_allclose(actual, expected, rtol=1e-6, atol=1e-7)


def test_an_action_needs_both_the_mask_and_a_logit_above_minus_infinity():
  q, logits = jnp.array([[1.0, 2.0, 4.0, 8.0]]), jnp.array([0.0, -jnp.inf, 0.0, 0.0])
  value = sb.categorical_soft_value(q, logits, 0.0, jnp.array([True, True, True, False]))
  assert float(value) == pytest.approx(2.5)


@pytest.mark.parametrize('actions', [1, 5])
def test_a_single_legal_action_has_its_q_and_no_entropy_exactly(actions):
  q, logits, _ = _batch(actions=actions)
  legal = np.arange(4) % actions
  mask = np.arange(actions) == legal[:, None]
  values, gradients = _run('jit', q, 3.0 * logits, mask)
  smallest = q.min(axis=0)[np.arange(4), legal]
  np.testing.assert_array_equal(values['value'], smallest)
  np.testing.assert_array_equal(values['actor_loss'], -smallest)
  np.testing.assert_array_equal(values['entropy'], np.zeros(4))
  for _, by_logits, by_alpha in gradients.values():
    np.testing.assert_array_equal(by_logits, np.zeros_like(logits))
    np.testing.assert_array_equal(by_alpha, np.zeros(4))


@every_way_to_run
def test_rows_without_legal_actions_are_zero_among_ordinary_ones(run):
  q, logits, full = _batch()
  empty, others = np.array([1, 3]), np.array([0, 2])
  mask = full & np.isin(np.arange(4), others)[:, None]
  expected_values, expected_gradients = _run(run, q, logits, full)
  for anything in ([0.0, math.inf], [-math.inf, math.nan]):
    fill = np.repeat(np.float32(anything), 2)[:, None]
    values, gradients = _run(run, np.where(mask, q, fill), np.where(mask, logits, fill), mask)
    for name, value in values.items():
      by_q, by_logits, by_alpha = gradients[name]
      np.testing.assert_array_equal(value[empty], np.full(2, 1.0 if name == 'target' else 0.0))
      np.testing.assert_array_equal(by_q[:, empty], np.zeros((2, 2, 5)))
      np.testing.assert_array_equal(by_logits[empty], np.zeros((2, 5)))
      np.testing.assert_array_equal(by_alpha[empty], np.zeros(2))
      expected = expected_gradients[name]
      _assert_same_bits(
        (value[others], by_q[:, others], by_logits[others], by_alpha[others]),
        (expected_values[name][others], expected[0][:, others], expected[1][others], expected[2][others]),
      )


def test_logits_that_are_all_minus_infinity_make_a_row_without_legal_actions():
  q, logits, _ = _batch()
  logits[2] = -np.inf
  values, gradients = _jitted(q, logits, np.full(4, _ALPHA, np.float32))
  for name in ('value', 'actor_loss', 'entropy'):
    assert values[name][2] == 0.0
    assert np.all(np.asarray(values[name])[[0, 1, 3]] != 0.0)
  for by_q, by_logits, by_alpha in gradients.values():
    assert np.all(np.isfinite(by_q))
    np.testing.assert_array_equal(by_logits[2], np.zeros(5))
    assert by_alpha[2] == 0.0


def test_a_target_may_not_bootstrap_from_a_state_without_legal_actions():
  q_t, logits_t, mask_t = _batch()
  mask_t[1] = False
  r_t = np.ones(4, np.float32)
  ending, going_on = np.array([0.9, 0.0, 0.9, 0.9], np.float32), np.full(4, 0.9, np.float32)
  target = sb.categorical_soft_q_target(r_t, ending, q_t, logits_t, _ALPHA, mask_t)
  np.testing.assert_allclose(
    target, reference.categorical_soft_q_target(r_t, ending, q_t, logits_t, _ALPHA, mask_t), rtol=1e-5
  )
  assert target[1] == 1.0
  hidden = np.where(mask_t, logits_t, -np.inf)
  for discount_t in (going_on, 0.9):
    with pytest.raises(ValueError, match='discount_t'):
      sb.categorical_soft_q_target(r_t, discount_t, q_t, logits_t, _ALPHA, mask_t)
    with pytest.raises(ValueError, match='discount_t'):
      sb.categorical_soft_q_target(r_t, discount_t, q_t, hidden, _ALPHA)
  # A discount of 0 for all examples refuses nothing.
  np.testing.assert_array_equal(sb.categorical_soft_q_target(r_t, 0.0, q_t, logits_t, _ALPHA, mask_t), r_t)
  # What is traced can't be looked at.
  target = jax.jit(sb.categorical_soft_q_target)(r_t, going_on, q_t, logits_t, _ALPHA, mask_t)
  assert target[1] == 1.0


@pytest.mark.parametrize(
  ('dtype', 'legal'), [(np.uint8, 1), (np.uint8, 255), (np.int8, 1), (np.int8, -1), (np.int32, 2)]
)
def test_masks_may_be_whole_numbers_where_nonzero_is_legal(dtype, legal):
  q, logits, mask = _batch()
  whole = np.where(mask, dtype(legal), dtype(0))
  action, target = np.argmax(mask, axis=-1), np.ones(4, np.float32)

  def outputs(mask):
    return (
      sb.categorical_soft_value(q, logits, _ALPHA, mask),
      sb.categorical_soft_q_target(target, 0.9, q, logits, _ALPHA, mask),
      sb.categorical_twin_critic_loss(q, action, target, mask),
      *sb.categorical_actor_loss(logits, q, _ALPHA, mask),
      sb.discrete_target_entropy(mask),
    )

  for given_mask in (whole, jnp.asarray(whole)):
    _assert_same_bits(outputs(given_mask), outputs(mask))


@pytest.mark.parametrize('dtype', [np.float32, np.float64, jnp.bfloat16])
@pytest.mark.parametrize(
  ('name', 'function'),
  [
    ('mask', lambda q, logits, mask: sb.categorical_soft_value(q, logits, _ALPHA, mask)),
    ('mask_t', lambda q, logits, mask: sb.categorical_soft_q_target(_ONES, 0.9, q, logits, _ALPHA, mask)),
    ('mask_tm1', lambda q, _, mask: sb.categorical_twin_critic_loss(q, _ONES.astype(int), _ONES, mask)),
    ('mask', lambda q, logits, mask: sb.categorical_actor_loss(logits, q, _ALPHA, mask)),
    ('num_actions', lambda _q, _logits, mask: sb.discrete_target_entropy(mask)),
  ],
  ids=['value', 'target', 'critic_loss', 'actor_loss', 'target_entropy'],
)
def test_floating_masks_are_refused(name, function, dtype):
  """An additive mask, 0 or -inf, would mean the opposite."""
  q, logits, mask = _batch()
  with pytest.raises(TypeError, match=rf'\b{name}\b.*float'):
    function(q, logits, mask.astype(dtype))


@pytest.mark.parametrize('anything', [None, math.inf, math.nan])
def test_illegal_actions_taken_are_refused_where_they_can_be_seen_and_count_nothing_else(anything):
  q_tm1, _, mask = _batch()
  action, target = np.argmax(mask, axis=-1), np.full(4, 0.5, np.float32)
  loss = functools.partial(sb.categorical_twin_critic_loss, target=target)
  expected = np.array(loss(q_tm1, action, mask_tm1=mask))
  # The last action of the first row is illegal.
  action[0], expected[0] = 4, 0.0
  with pytest.raises(ValueError, match=r'a_tm1'):
    loss(q_tm1, action, mask_tm1=mask)
  if anything is not None:
    q_tm1[:, 0, 4] = anything

  def traced(q_tm1, action):
    losses = loss(q_tm1, action, mask_tm1=mask)
    return jnp.sum(losses), losses

  (_, actual), gradient = jax.jit(jax.value_and_grad(traced, has_aux=True))(q_tm1, action)
  np.testing.assert_allclose(actual, expected, rtol=1e-6)
  assert actual[0] == 0.0
  np.testing.assert_array_equal(gradient[:, 0], np.zeros((2, 5)))
  assert np.all(np.isfinite(gradient))
  assert np.all(np.abs(gradient[:, 1:]).max(axis=-1) > 0.0)


def test_any_action_will_do_where_none_is_legal():
  q_tm1, _, mask = _batch()
  mask[0] = False
  for action in range(5):
    taken = np.argmax(mask, axis=-1)
    taken[0] = action
    loss = sb.categorical_twin_critic_loss(q_tm1, taken, np.ones(4, np.float32), mask)
    assert loss[0] == 0.0
    assert np.all(loss[1:] > 0.0)


@given(seed=st.integers(0, 2**31), kept=st.permutations(range(5)).map(lambda order: sorted(order[:3])))
def test_masked_actions_are_as_good_as_deleted(seed, kept):
  q, logits, _ = _batch(seed=seed)
  mask = np.broadcast_to(np.isin(np.arange(5), kept), logits.shape)
  alpha = np.full(4, _ALPHA, np.float32)
  values, gradients = _jitted(q, logits, alpha, mask)
  short_values, short_gradients = _jitted(q[..., kept], logits[:, kept], alpha)
  for name, value in values.items():
    np.testing.assert_allclose(value, short_values[name], rtol=1e-5, atol=1e-5)
    for position in (0, 1):
      actual = np.asarray(gradients[name][position])
      np.testing.assert_allclose(actual[..., kept], short_gradients[name][position], rtol=1e-4, atol=1e-5)


@given(seed=st.integers(0, 2**31), order=st.permutations(range(5)))
def test_order_of_actions_does_not_matter(seed, order):
  q, logits, mask = _batch(seed=seed)
  order = np.asarray(order)
  # One action for both, since the first legal one of `_everything` changes with the order.
  action, target = np.argmax(mask, axis=-1), np.ones(4, np.float32)
  moved = np.argsort(order)[action]
  np.testing.assert_allclose(
    sb.categorical_twin_critic_loss(q[..., order], moved, target, mask[:, order]),
    sb.categorical_twin_critic_loss(q, action, target, mask),
    rtol=1e-6,
  )
  values, gradients = _run('jit', q, logits, mask)
  moved_values, moved_gradients = _run('jit', q[..., order], logits[:, order], mask[:, order])
  for name in ('value', 'target', 'actor_loss', 'entropy'):
    np.testing.assert_allclose(moved_values[name], values[name], rtol=1e-5, atol=1e-5)
    for position in (0, 1):
      expected = np.asarray(gradients[name][position])[..., order]
      np.testing.assert_allclose(moved_gradients[name][position], expected, rtol=1e-4, atol=1e-5)


@given(seed=st.integers(0, 2**31), order=st.permutations(range(3)))
def test_order_of_heads_does_not_matter(seed, order):
  q, logits, mask = _batch(heads=3, seed=seed)
  alpha = np.float32(_ALPHA)
  values = _everything_jitted(q, logits, alpha, mask)
  moved = _everything_jitted(q[np.asarray(order)], logits, alpha, mask)
  for name, value in values.items():
    np.testing.assert_allclose(moved[name], value, rtol=1e-6, err_msg=name)


@given(seed=st.integers(0, 2**31), shift=st.floats(-50.0, 50.0, width=32, allow_subnormal=False))
def test_logits_matter_up_to_a_constant(seed, shift):
  q, logits, mask = _batch(seed=seed)
  values, _ = _run('jit', q, logits, mask)
  shifted, _ = _run('jit', q, logits + np.float32(shift), mask)
  for name, value in values.items():
    np.testing.assert_allclose(shifted[name], value, rtol=1e-4, atol=1e-4, err_msg=name)


def test_a_legal_logit_that_is_not_a_number_is_not_hidden():
  q, logits, mask = _batch()
  logits[0, 0] = np.nan
  values, _ = _run('jit', q, logits, mask)
  for name in ('value', 'target', 'actor_loss', 'entropy'):
    np.testing.assert_array_equal(np.isnan(values[name]), [True, False, False, False], err_msg=name)


# Refusals that shapes don't tell; those of shapes are in the contract.


@pytest.mark.parametrize('alpha', [-0.1, np.float32(-1.0), float('nan')])
def test_a_negative_alpha_is_refused(alpha):
  q, logits, _ = _batch()
  for function in (
    lambda: sb.categorical_soft_value(q, logits, alpha),
    lambda: sb.categorical_soft_q_target(jnp.ones(4), 0.9, q, logits, alpha),
    lambda: sb.categorical_actor_loss(logits, q, alpha),
  ):
    with pytest.raises(ValueError, match='alpha'):
      function()


@pytest.mark.parametrize('shape', [(), (1,), (4, 1), (4, 4)])
@pytest.mark.parametrize('masked', [False, True])
def test_a_target_that_would_broadcast_is_refused(masked, shape):
  q_tm1, _, mask = _batch()
  with numerics.raises_naming(target=shape):
    sb.categorical_twin_critic_loss(
      q_tm1, np.argmax(mask, axis=-1), np.ones(shape, np.float32), mask if masked else None
    )


@pytest.mark.parametrize('action', [-1, 5, 300])
def test_actions_out_of_range_are_refused(action):
  q = _batch()[0]
  actions = np.array([0, action, 4, 2])
  with pytest.raises(ValueError, match=rf'\baction\b.*{action}\b'):
    sb.q_at_action(q, actions)
  with pytest.raises(ValueError, match=rf'\ba_tm1\b.*{action}\b'):
    sb.categorical_twin_critic_loss(q, actions, jnp.zeros(4))


def test_traced_actions_out_of_range_show_as_nan():
  """They can't be refused, and must not read another action's value."""
  taken = jax.jit(sb.q_at_action)(np.zeros((2, 4, 5), np.float32), np.array([0, -1, 5, 4]))
  np.testing.assert_array_equal(np.isnan(taken), np.tile([False, True, True, False], (2, 1)))


@pytest.mark.parametrize('dtype', [np.float32, jnp.bfloat16, np.bool_])
def test_actions_that_are_not_integers_are_refused(dtype):
  q, action = _batch()[0], jnp.array([0, 1, 1, 0], dtype)
  with pytest.raises(TypeError, match=r'\baction\b'):
    sb.q_at_action(q, action)
  with pytest.raises(TypeError, match=r'\ba_tm1\b'):
    sb.categorical_twin_critic_loss(q, action, jnp.zeros(4))


@pytest.mark.parametrize('dtype', [np.int8, np.uint8, np.int64])
def test_actions_may_be_integers_of_any_width(dtype):
  # There are more actions than an int8 or uint8 counts.
  q = np.arange(2 * 3 * 300, dtype=np.float32).reshape(2, 3, 300)
  action = np.array([0, 100, 127], dtype)
  expected = np.array([[0, 300 + 100, 600 + 127], [900, 1200 + 100, 1500 + 127]])
  for given_action in (action, jnp.asarray(action)):
    np.testing.assert_array_equal(sb.q_at_action(q, given_action), expected)
    np.testing.assert_array_equal(jax.jit(sb.q_at_action)(q, given_action), expected)
    loss = sb.categorical_twin_critic_loss(q, given_action, expected[0].astype(np.float32), q[0] >= 0.0)
    np.testing.assert_array_equal(loss, np.full(3, 0.5 * 900.0**2))


# The target entropy.


@pytest.mark.parametrize(
  ('ratio', 'largest'),
  [(0.98, 0.5831), (0.89, 0.6927), (0.7, 0.8107), (0.5, 0.89), (0.2, 0.9689), (0.1, 0.987)],
)
def test_target_entropy_is_a_share_of_the_largest_entropy(ratio, largest):
  """Of two actions, one may have the probability `largest` and no more."""
  target = sb.discrete_target_entropy(2, ratio)
  assert isinstance(target, float)
  assert target == pytest.approx(ratio * _LOG_TWO, rel=1e-6)
  entropy = distributions.Categorical(jnp.log(jnp.array([largest, 1.0 - largest]))).entropy()
  assert float(entropy) == pytest.approx(target, abs=5e-4)


def test_default_ratio_is_98_percent():
  assert sb.discrete_target_entropy(4) == pytest.approx(1.358568, abs=1e-6)
  np.testing.assert_allclose(sb.discrete_target_entropy(jnp.ones(4, bool)), 1.358568, atol=1e-6)


def test_target_entropy_follows_the_legal_actions():
  mask = np.array([[1, 1, 1, 1], [0, 1, 0, 1], [0, 0, 1, 0], [0, 0, 0, 0]], bool)
  expected = reference.discrete_target_entropy(mask)
  np.testing.assert_allclose(expected, [1.358568, 0.679284, 0.0, 0.0], atol=1e-6)
  for function in (sb.discrete_target_entropy, jax.jit(sb.discrete_target_entropy)):
    target = function(jnp.asarray(mask))
    assert target.dtype == jnp.float32
    np.testing.assert_allclose(target, expected, rtol=1e-6)
    # Exactly, or a temperature would drift where there is nothing to choose.
    np.testing.assert_array_equal(target[2:], [0.0, 0.0])
  np.testing.assert_allclose(jax.vmap(sb.discrete_target_entropy)(mask), expected, rtol=1e-6)
  stacked = sb.discrete_target_entropy(np.stack([mask, ~mask]))
  np.testing.assert_allclose(stacked, reference.discrete_target_entropy(np.stack([mask, ~mask])), rtol=1e-6)


def test_target_entropy_of_one_action_is_exactly_zero():
  assert sb.discrete_target_entropy(1) == 0.0


def test_the_ratio_may_be_traced():
  mask = np.array([[1, 1, 1], [0, 1, 0]], bool)
  for argument in (mask, 3):
    target = jax.jit(lambda ratio, argument=argument: sb.discrete_target_entropy(argument, ratio))(0.5)
    np.testing.assert_allclose(target, reference.discrete_target_entropy(argument, 0.5), rtol=1e-6)
  slope = jax.grad(lambda ratio: jnp.sum(sb.discrete_target_entropy(mask, ratio)))(0.5)
  assert float(slope) == pytest.approx(math.log(3.0), rel=1e-6)


@pytest.mark.parametrize('ratio', [-0.1, 1.1, float('nan')])
def test_a_ratio_that_is_no_share_is_refused(ratio):
  for argument in (4, jnp.ones(4, bool)):
    with pytest.raises(ValueError, match=r'ratio'):
      sb.discrete_target_entropy(argument, ratio)


@pytest.mark.parametrize('shape', [(1,), (4, 1), (3,)])
def test_a_ratio_that_would_broadcast_is_refused(shape):
  for argument in (4, np.ones((4, 3), bool)):
    with numerics.raises_naming(ratio=shape):
      sb.discrete_target_entropy(argument, np.full(shape, 0.5, np.float32))


@pytest.mark.parametrize('number', [0, -2])
def test_no_actions_at_all_are_refused(number):
  with pytest.raises(ValueError, match=f'num_actions.*{number}'):
    sb.discrete_target_entropy(number)


def test_the_number_of_actions_may_come_from_a_spec():
  for number in (np.int32(4), np.int64(4)):
    assert sb.discrete_target_entropy(number) == pytest.approx(1.358568, abs=1e-6)


def test_target_entropy_of_factored_actions_adds_up_over_the_factors():
  sizes = (3, 2, 4)
  mask = np.array(
    [[1, 1, 1, 1, 1, 1, 1, 1, 1], [1, 0, 1, 1, 0, 0, 1, 1, 1], [0, 1, 0, 1, 0, 0, 0, 1, 0]], bool
  )
  joint = distributions.FactoredCategorical(jnp.zeros((3, 9)), sizes, jnp.asarray(mask)).mask
  target = sb.discrete_target_entropy(joint, 0.7)
  expected = 0.7 * np.array([math.log(3) + math.log(2) + math.log(4), math.log(2) + math.log(3), 0.0])
  np.testing.assert_allclose(target, expected, rtol=1e-6)
  assert sb.discrete_target_entropy(3 * 2 * 4, 0.7) == pytest.approx(expected[0], rel=1e-6)


def test_states_without_a_choice_leave_the_temperature_alone():
  q, logits, _ = _batch()
  mask = np.array([[0, 0, 1, 0, 0], [0, 0, 0, 0, 0], [1, 0, 1, 0, 1], [1, 1, 1, 1, 1]], bool)
  entropy = sb.categorical_actor_loss(logits, q, _ALPHA, mask)[1]
  target = sb.discrete_target_entropy(mask)
  for parameterization in ('alpha', 'log_alpha'):

    def loss(log_alpha, parameterization=parameterization):
      return sb.temperature_loss(log_alpha, entropy, target, parameterization=parameterization)

    slopes = jax.jacrev(loss)(0.5)
    np.testing.assert_array_equal(slopes[:2], np.zeros(2))
    assert np.all(slopes[2:] != 0.0)


# The whole of it, against soft value iteration.


@pytest.mark.parametrize('seed', range(2))
def test_repeated_targets_lead_to_the_soft_optimal_values(seed):
  """Targets of all transitions, with the policy softmax(q / alpha), find the values of a random MDP."""
  mdp = tabular.random_mdp(seed)
  expected = tabular.soft_value_iteration(*mdp[:3], _ALPHA, mdp.mask)
  states, actions = mdp.mask.shape
  shape = (states, actions, states)
  with numerics.enable_x64():
    reward, discount = (jnp.broadcast_to(x[..., None], shape) for x in (mdp.reward, mdp.discount))
    mask_t = jnp.broadcast_to(mdp.mask, (*shape, actions))

    @jax.jit
    def sweep(q):
      q_t = jnp.broadcast_to(q, (*shape, actions))
      target = sb.categorical_soft_q_target(reward, discount, q_t[None], q_t / _ALPHA, _ALPHA, mask_t)
      return jnp.sum(mdp.transition * target, axis=-1)

    q = jax.lax.fori_loop(0, 300, lambda _, q: sweep(q), jnp.zeros((states, actions)))
    np.testing.assert_allclose(q[mdp.mask], expected.q[mdp.mask], rtol=1e-10, atol=1e-10)
    v = sb.categorical_soft_value(q[None], q / _ALPHA, _ALPHA, mdp.mask)
    np.testing.assert_allclose(v, expected.v, rtol=1e-10, atol=1e-10)
    np.testing.assert_allclose(
      distributions.Categorical(q / _ALPHA, mdp.mask).probs, expected.policy, rtol=1e-9, atol=1e-10
    )
