"""Tests of the soft value."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import sac_blocks as sb
from tests import numerics

# XLA flushes subnormal numbers to zero, NumPy does not.
_NUMBERS = st.floats(-100.0, 100.0, width=32, allow_subnormal=False)


def _arrays(*shape: int):
  size = int(np.prod(shape))
  return st.lists(_NUMBERS, min_size=size, max_size=size).map(
    lambda xs: np.asarray(xs, np.float32).reshape(shape)
  )


def test_value_of_hand_computed_numbers():
  # min(5, 4) - 0.1 * -2
  assert float(sb.soft_value(jnp.array([5.0, 4.0]), -2.0, 0.1)) == pytest.approx(4.2)


def test_minimum_is_taken_example_by_example():
  q = jnp.array([[1.0, 9.0], [3.0, 2.0], [2.0, 4.0]])
  value = sb.soft_value(q, jnp.array([0.0, 1.0]), 0.5)
  np.testing.assert_allclose(value, [1.0, 1.5], rtol=1e-6)


def test_minimum_is_over_heads_when_batch_equals_ensemble():
  q = jnp.array([[1.0, 5.0], [4.0, 2.0]])
  np.testing.assert_allclose(sb.soft_value(q, jnp.zeros(2), 1.0), [1.0, 2.0], rtol=1e-6)


def test_alpha_may_differ_between_examples():
  value = sb.soft_value(jnp.ones((2, 2)), jnp.array([-1.0, -1.0]), jnp.array([0.5, 2.0]))
  np.testing.assert_allclose(value, [1.5, 3.0], rtol=1e-6)


@pytest.mark.parametrize('shape', [(1,), (3,), (4, 1), (2, 4)])
def test_alpha_of_another_shape_is_refused(shape):
  with numerics.raises_naming(alpha=shape):
    sb.soft_value(jnp.zeros((2, 4)), jnp.zeros(4), jnp.ones(shape))


@pytest.mark.parametrize('alpha', [-0.1, np.float32(-1.0), float('nan')])
def test_a_negative_alpha_is_refused(alpha):
  with pytest.raises(ValueError, match='alpha'):
    sb.soft_value(jnp.zeros((2, 4)), jnp.zeros(4), alpha)


def test_gradients_pass_through_everything():
  q = np.array([[5.0, 1.0], [4.0, 2.0]])
  log_prob = np.array([-2.0, 0.5])
  with numerics.enable_x64():
    inputs = jnp.asarray(q), jnp.asarray(log_prob), jnp.asarray(0.3)
    gradients = jax.grad(lambda *xs: jnp.sum(sb.soft_value(*xs)), argnums=(0, 1, 2))(*inputs)
    for position, gradient in enumerate(gradients):

      def function(x, position=position):
        changed = list(inputs)
        changed[position] = jnp.asarray(x)
        return sb.soft_value(*changed)

      np.testing.assert_allclose(gradient, numerics.finite_differences(function, inputs[position]), atol=1e-8)
  np.testing.assert_allclose(gradients[0], [[0.0, 1.0], [1.0, 0.0]])
  np.testing.assert_allclose(gradients[1], [-0.3, -0.3])
  np.testing.assert_allclose(gradients[2], 1.5)


@given(q=_arrays(4, 3), log_prob=_arrays(3), order=st.permutations(range(4)))
def test_order_of_heads_does_not_matter(q, log_prob, order):
  actual = sb.soft_value(q[np.asarray(order)], log_prob, 0.3)
  np.testing.assert_array_equal(actual, sb.soft_value(q, log_prob, 0.3))


@given(q=_arrays(2, 3), log_prob=_arrays(3))
def test_without_entropy_it_is_the_smallest_q(q, log_prob):
  np.testing.assert_array_equal(sb.soft_value(q, log_prob, 0.0), q.min(axis=0))
  np.testing.assert_allclose(sb.soft_value(q, log_prob, 1e-8), q.min(axis=0), atol=1e-5)


@given(q=_arrays(2, 3), log_prob=_arrays(3), alpha=st.floats(0.0, 10.0, width=32, allow_subnormal=False))
def test_doubling_q_and_alpha_doubles_the_value(q, log_prob, alpha):
  np.testing.assert_allclose(
    sb.soft_value(2 * q, log_prob, 2 * alpha), 2 * sb.soft_value(q, log_prob, alpha), rtol=1e-6
  )


@pytest.mark.parametrize(
  'critic',
  [
    lambda x: 1.7 * jnp.stack([jnp.sin(x), jnp.sin(1.1 * x)]) + 0.3,
    lambda x: 3.7 * jnp.stack([jnp.sin(x), jnp.sin(1.1 * x)]) + 0.3 * jnp.cos(x)[None],
  ],
)
def test_compilation_loses_no_gradient_through_the_minimum(critic):
  """With `jnp.min`, critics that end in elementwise arithmetic lose it where XLA rounds them twice."""
  actions = jnp.asarray(np.random.default_rng(0).normal(size=(500, 3)), jnp.float32)

  def loss(actions):
    return jnp.sum(sb.soft_policy_loss(-actions, critic(actions), 0.2))

  expected = jax.grad(loss)(actions)
  np.testing.assert_allclose(jax.jit(jax.grad(loss))(actions), expected, rtol=1e-4, atol=1e-5)


def test_the_minimum_is_not_hidden_by_other_heads():
  q = jnp.array([[jnp.inf, 1.0, jnp.nan], [2.0, -jnp.inf, 0.0]])
  np.testing.assert_array_equal(sb.soft_value(q, jnp.zeros(3), 0.0), [2.0, -np.inf, np.nan])
