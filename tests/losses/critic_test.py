"""Tests of the critic's targets, errors and loss."""

from __future__ import annotations

import functools

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
import rlax
from hypothesis import given
from hypothesis import strategies as st

import sac_blocks as sb
from tests import numerics
from tests.references import soft_actor_critic as reference

_Q = jnp.array([5.0, 4.0])


def test_one_step_target_of_hand_computed_numbers():
  # 1 + 0.99 * (min(5, 4) + 0.1 * 2). Without entropy 4.96, with its wrong sign 4.762, mean 5.653.
  target = sb.soft_q_target(1.0, 0.99, _Q, -2.0, 0.1)
  assert float(target) == pytest.approx(5.158, abs=1e-6)


@pytest.mark.parametrize(
  ('terminated', 'truncated', 'expected'), [(0, 1, 10.9), (1, 0, 1.0), (1, 1, 1.0), (0, 0, 10.9)]
)
def test_only_termination_cuts_the_target(terminated, truncated, expected):
  del truncated  # A time limit is no argument of the target: the discount knows termination alone.
  target = sb.soft_q_target(1.0, 0.99 * (1 - terminated), jnp.array([10.0]), 0.0, 0.1)
  assert float(target) == pytest.approx(expected, abs=1e-6)


def test_whole_rewards_and_boolean_discounts_give_the_same_numbers():
  r_t, discount_t = np.array([1, 2, -3]), np.array([True, False, True])
  q_t = np.ones((2, 3), np.float32)
  log_prob_t = np.array([-1.0, 0.0, 2.0], np.float32)
  expected = sb.soft_q_target(r_t.astype(np.float32), discount_t.astype(np.float32), q_t, log_prob_t, 0.5)
  for integer in (np.int32, np.int8):
    actual = sb.soft_q_target(r_t.astype(integer), discount_t, q_t, log_prob_t, 0.5)
    assert actual.dtype == jnp.float32
    np.testing.assert_allclose(actual, expected, rtol=1e-6)
  np.testing.assert_allclose(expected, [2.5, 2.0, -3.0], rtol=1e-6)


def test_half_precision_q_leaves_the_discount_exact():
  # bfloat16(0.99) is 0.98828125; a target that is computed in bfloat16 would also round the 99.
  target = sb.soft_q_target(
    jnp.float32(0.0), jnp.float32(0.99), jnp.array([100.0], jnp.bfloat16), jnp.bfloat16(0.0), 0.1
  )
  assert target.dtype == jnp.float32
  assert float(target) == pytest.approx(99.0, rel=1e-6)
  target = sb.soft_q_target(jnp.float32(0.0), 0.99, jnp.array([100.0], jnp.bfloat16), jnp.bfloat16(0.0), 0.1)
  assert float(target) == pytest.approx(99.0, rel=1e-6)


@pytest.mark.parametrize('discount', [0.9, np.float32(0.9), jnp.array(0.9)])
def test_one_discount_may_serve_all_examples(discount):
  target = sb.soft_q_target(jnp.zeros(3), discount, jnp.full((2, 3), 10.0), jnp.zeros(3), 0.1)
  np.testing.assert_allclose(target, [9.0, 9.0, 9.0], rtol=1e-6)


def test_targets_are_stopped():
  """In every argument, for one step and for many."""
  r_t, discount_t, log_prob_t = np.full((3, 4), 0.5, np.float32)
  q_t = np.ones((2, 4), np.float32)
  gradients = jax.grad(lambda *xs: jnp.sum(sb.soft_q_target(*xs)), argnums=range(5))(
    r_t, discount_t, q_t, log_prob_t, 0.2
  )
  gradients += jax.grad(lambda *xs: jnp.sum(sb.n_step_soft_q_target(*xs, 2)), argnums=range(3))(
    r_t, discount_t, q_t[0]
  )
  assert len(gradients) == 8
  for gradient in gradients:
    np.testing.assert_array_equal(gradient, np.zeros_like(gradient))


def test_full_window_has_the_discount_to_the_third_power():
  r_t, discount_t = jnp.array([1.0, 2.0, 3.0]), jnp.full(3, 0.9)
  without = sb.n_step_soft_q_target(r_t, discount_t, jnp.zeros(3), 3)
  assert float(without[0]) == pytest.approx(5.23, abs=1e-6)
  with_value = sb.n_step_soft_q_target(r_t, discount_t, jnp.array([7.0, 8.0, 1.0]), 3)
  assert float(with_value[0] - without[0]) == pytest.approx(0.729, abs=1e-6)


def test_window_cut_by_a_time_limit_keeps_its_bootstrap():
  target = sb.n_step_soft_q_target(jnp.array([1.0, 2.0]), jnp.full(2, 0.9), jnp.array([7.0, 10.0]), 3)
  np.testing.assert_allclose(target, [2.8 + 0.81 * 10.0, 2.0 + 0.9 * 10.0], rtol=1e-6)


def test_window_cut_by_termination_has_no_bootstrap():
  target = sb.n_step_soft_q_target(
    jnp.array([1.0, 2.0, 50.0]), jnp.array([0.9, 0.0, 0.9]), jnp.array([7.0, 10.0, 30.0]), 3
  )
  np.testing.assert_allclose(target, [2.8, 2.0, 50.0 + 27.0], rtol=1e-6)


def test_one_step_window_is_the_one_step_target():
  rng = np.random.default_rng(0)
  r_t, discount_t, log_prob_t = rng.uniform(0.0, 1.0, (3, 6, 4)).astype(np.float32)
  q_t = rng.normal(size=(2, 6, 4)).astype(np.float32)
  np.testing.assert_allclose(
    sb.n_step_soft_q_target(r_t, discount_t, sb.soft_value(q_t, log_prob_t, 0.3), 1),
    sb.soft_q_target(r_t, discount_t, q_t, log_prob_t, 0.3),
    rtol=1e-6,
  )


@pytest.mark.parametrize('n', [1, 3, 7, 20])
def test_n_step_target_agrees_with_rlax_and_the_reference(n):
  rng = np.random.default_rng(n)
  r_t, v_t = rng.normal(size=(2, 7, 3)).astype(np.float32)
  discount_t = (0.95 * rng.integers(0, 2, (7, 3))).astype(np.float32)
  actual = sb.n_step_soft_q_target(r_t, discount_t, v_t, n)
  assert actual.dtype == jnp.float32
  np.testing.assert_allclose(
    actual, reference.n_step_soft_q_target(r_t, discount_t, v_t, n), rtol=1e-5, atol=1e-5
  )
  oracle = jax.vmap(functools.partial(rlax.n_step_bootstrapped_returns, n=n), in_axes=1, out_axes=1)
  np.testing.assert_allclose(actual, oracle(r_t, discount_t, v_t), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize('n', [0, -1])
def test_an_empty_window_is_refused(n):
  with pytest.raises(ValueError, match=r'\bn\b.*-?\d'):
    sb.n_step_soft_q_target(jnp.zeros(3), jnp.zeros(3), jnp.zeros(3), n)


def test_n_step_data_without_a_time_axis_is_refused():
  with pytest.raises(ValueError, match=r'r_t|v_t'):
    sb.n_step_soft_q_target(jnp.array(1.0), jnp.array(0.9), jnp.array(2.0), 1)


def test_soft_values_one_step_too_long_are_refused():
  with numerics.raises_naming(r_t=(3,), v_t=(4,)):
    sb.n_step_soft_q_target(jnp.zeros(3), jnp.zeros(3), jnp.zeros(4), 2)


def test_td_error_of_hand_computed_numbers():
  error = sb.soft_td_error(jnp.array([[5.0, 1.0], [4.0, 2.0]]), jnp.array([6.0, 0.0]))
  np.testing.assert_allclose(error, [[1.0, -1.0], [2.0, -2.0]], rtol=1e-6)


def test_td_error_falls_by_what_q_rises():
  gradient = jax.grad(lambda q: jnp.sum(sb.soft_td_error(q, jnp.zeros(3))))(jnp.ones((2, 3)))
  np.testing.assert_array_equal(gradient, -np.ones((2, 3)))


def test_critic_loss_adds_half_squares_over_heads():
  loss = sb.twin_critic_loss(jnp.array([[5.0], [4.0], [9.0]]), jnp.array([6.0]))
  np.testing.assert_allclose(loss, [0.5 + 2.0 + 4.5], rtol=1e-6)


def test_no_loss_where_q_is_the_target_and_batch_equals_ensemble():
  # Rows are heads: both see the targets 1 and 2. Heads against examples would give 0.5.
  q_tm1 = jnp.array([[1.0, 2.0], [1.0, 2.0]])
  np.testing.assert_array_equal(sb.twin_critic_loss(q_tm1, jnp.array([1.0, 2.0])), [0.0, 0.0])


def test_a_kept_trailing_axis_in_the_target_is_refused():
  # Broadcast, [1, 2, 3] against [[1], [2], [3]] would give a mean square of 4/3 instead of 0.
  with numerics.raises_naming(q_tm1=(1, 3), target=(3, 1)):
    sb.twin_critic_loss(jnp.array([[1.0, 2.0, 3.0]]), jnp.array([[1.0], [2.0], [3.0]]))


def test_gradient_of_a_head_does_not_depend_on_their_number():
  def gradient(heads):
    q_tm1 = jnp.full((heads, 3), 5.0)
    return jax.grad(lambda q: jnp.sum(sb.twin_critic_loss(q, jnp.zeros(3))))(q_tm1)

  for heads in (1, 5):
    np.testing.assert_allclose(gradient(heads), np.full((heads, 3), 5.0), rtol=1e-6)


@pytest.mark.parametrize('pointwise_loss', [None, optax.huber_loss, optax.l2_loss])
def test_critic_gradient_agrees_with_finite_differences(pointwise_loss):
  options = {} if pointwise_loss is None else {'pointwise_loss': pointwise_loss}
  loss = functools.partial(sb.twin_critic_loss, **options)
  rng = np.random.default_rng(1)
  q_tm1, target = 3 * rng.normal(size=(2, 3)), 3 * rng.normal(size=3)
  with numerics.enable_x64():
    gradient = jax.grad(lambda q: jnp.sum(loss(q, target)))(jnp.asarray(q_tm1))
    expected = numerics.finite_differences(jax.jit(lambda q: loss(q, target)), q_tm1)
  np.testing.assert_allclose(gradient, expected, rtol=1e-7, atol=1e-8)


def test_huber_replaces_the_square():
  loss = sb.twin_critic_loss(jnp.array([[5.0], [0.5]]), jnp.array([0.0]), pointwise_loss=optax.huber_loss)
  np.testing.assert_allclose(loss, [4.5 + 0.125], rtol=1e-6)


def test_pointwise_loss_sees_predictions_first():
  # A loss that isn't symmetric tells the two apart.
  loss = sb.twin_critic_loss(
    jnp.array([[5.0]]), jnp.array([2.0]), pointwise_loss=lambda prediction, _: prediction
  )
  np.testing.assert_allclose(loss, [5.0], rtol=1e-6)


def test_critic_loss_leaves_policy_target_critic_and_temperature_alone():
  """Everything behind the target gets exactly no gradient; the critic itself gets one."""
  params = {
    'critic': jnp.array([1.0, 2.0]),
    'target_critic': jnp.array([0.5, 3.0]),
    'actor': jnp.array(0.3),
    'log_alpha': jnp.array(-1.0),
  }
  obs = jnp.array([1.0, -1.0, 2.0])

  def objective(params):
    a_t = jnp.tanh(params['actor'] * obs)
    q_t = params['target_critic'][:, None] * a_t[None]
    log_prob_t = params['actor'] * obs
    target = sb.soft_q_target(jnp.ones(3), jnp.full(3, 0.9), q_t, log_prob_t, jnp.exp(params['log_alpha']))
    return jnp.mean(sb.twin_critic_loss(params['critic'][:, None] * obs[None], target))

  gradients = jax.grad(objective)(params)
  assert np.all(np.asarray(gradients.pop('critic')) != 0.0)
  for name, gradient in gradients.items():
    np.testing.assert_array_equal(gradient, jnp.zeros_like(params[name]), err_msg=name)


_SHIFTS = st.floats(-50.0, 50.0, width=32, allow_subnormal=False)


@given(seed=st.integers(0, 2**31), shift=_SHIFTS)
def test_a_reward_shift_moves_the_target_by_itself(seed, shift):
  rng = np.random.default_rng(seed)
  r_t, discount_t, log_prob_t = rng.uniform(-1.0, 1.0, (3, 4)).astype(np.float32)
  q_t = rng.normal(size=(2, 4)).astype(np.float32)
  before = sb.soft_q_target(r_t, discount_t, q_t, log_prob_t, 0.2)
  after = sb.soft_q_target(r_t + np.float32(shift), discount_t, q_t, log_prob_t, 0.2)
  np.testing.assert_allclose(after - before, np.full(4, shift), atol=1e-4)


@given(seed=st.integers(0, 2**31), shift=_SHIFTS)
def test_rewards_and_values_shifted_together_shift_the_n_step_target(seed, shift):
  # With r + c (1 - g) and v + c, the fixed point moves by c: so does every target, for any n.
  rng = np.random.default_rng(seed)
  r_t, v_t = rng.normal(size=(2, 5)).astype(np.float32)
  discount_t = np.full(5, 0.9, np.float32)
  before = sb.n_step_soft_q_target(r_t, discount_t, v_t, 3)
  shifted = r_t + np.float32(shift) * (1 - discount_t)
  after = sb.n_step_soft_q_target(shifted, discount_t, v_t + np.float32(shift), 3)
  np.testing.assert_allclose(after - before, np.full(5, shift), atol=1e-4)


@given(seed=st.integers(0, 2**31), order=st.permutations(range(3)))
def test_order_of_heads_does_not_matter(seed, order):
  rng = np.random.default_rng(seed)
  q = rng.normal(size=(3, 4)).astype(np.float32)
  x = rng.normal(size=4).astype(np.float32)
  order = np.asarray(order)
  np.testing.assert_allclose(
    sb.twin_critic_loss(q[order], x), sb.twin_critic_loss(q, x), rtol=1e-5, atol=1e-6
  )
  np.testing.assert_array_equal(sb.soft_td_error(q[order], x), sb.soft_td_error(q, x)[order])
  np.testing.assert_array_equal(
    sb.soft_q_target(x, 0.9, q[order], x, 0.1), sb.soft_q_target(x, 0.9, q, x, 0.1)
  )


@given(seed=st.integers(0, 2**31), alpha=st.floats(0.0, 5.0, width=32, allow_subnormal=False))
def test_doubling_rewards_values_and_alpha_doubles_the_target(seed, alpha):
  rng = np.random.default_rng(seed)
  r_t, discount_t, log_prob_t = rng.uniform(-1.0, 1.0, (3, 4)).astype(np.float32)
  q_t = rng.normal(size=(2, 4)).astype(np.float32)
  np.testing.assert_allclose(
    sb.soft_q_target(2 * r_t, discount_t, 2 * q_t, log_prob_t, 2 * alpha),
    2 * sb.soft_q_target(r_t, discount_t, q_t, log_prob_t, alpha),
    rtol=1e-5,
    atol=1e-6,
  )


def test_no_gradient_reaches_the_target():
  q, target = jnp.array([[1.0, 2.0], [3.0, 5.0]]), jnp.array([0.5, 4.0])
  for function in (sb.twin_critic_loss, sb.soft_td_error):
    gradient = jax.grad(lambda y, function=function: jnp.sum(function(q, y)))(target)
    np.testing.assert_array_equal(gradient, [0.0, 0.0])
