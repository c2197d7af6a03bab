"""Tests of the temperature's loss and of the target entropy."""

from __future__ import annotations

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import sac_blocks as sb
from tests import numerics


def _gradient(alpha, entropy, target_entropy, **options):
  return float(
    jax.grad(lambda x: sb.temperature_loss(x, entropy, target_entropy, **options))(
      jnp.log(jnp.float32(alpha))
    )
  )


def test_too_little_entropy_raises_the_temperature():
  gradient = _gradient(1.0, -1.5, -1.0)
  assert gradient == pytest.approx(-0.5, rel=1e-6)
  # One step of gradient descent with learning rate 0.1 from log_alpha = 0.
  assert -0.1 * gradient == pytest.approx(0.05, rel=1e-6)


def test_too_much_entropy_lowers_the_temperature():
  assert _gradient(1.0, -0.5, -1.0) == pytest.approx(0.5, rel=1e-6)


def test_parameterizations_differ_by_the_factor_alpha():
  assert _gradient(2.0, 0.5, -1.0) == pytest.approx(3.0, rel=1e-6)
  assert _gradient(2.0, 0.5, -1.0, parameterization='alpha') == pytest.approx(3.0, rel=1e-6)
  assert _gradient(2.0, 0.5, -1.0, parameterization='log_alpha') == pytest.approx(1.5, rel=1e-6)


def test_parameterizations_agree_at_alpha_one():
  assert _gradient(1.0, 0.5, -1.0, parameterization='log_alpha') == pytest.approx(
    _gradient(1.0, 0.5, -1.0, parameterization='alpha'), rel=1e-6
  )


def test_loss_of_hand_computed_numbers():
  entropy = jnp.array([0.5, -1.0, -2.0])
  log_alpha = jnp.log(2.0)
  np.testing.assert_allclose(sb.temperature_loss(log_alpha, entropy, -1.0), [3.0, 0.0, -2.0], rtol=1e-6)
  np.testing.assert_allclose(
    sb.temperature_loss(log_alpha, entropy, -1.0, parameterization='log_alpha'),
    np.array([1.5, 0.0, -1.0]) * math.log(2.0),
    rtol=1e-6,
  )


@pytest.mark.parametrize('parameterization', ['alpha', 'log_alpha'])
def test_gradient_agrees_with_finite_differences(parameterization):
  entropy, target = np.array([0.5, -3.0, 1.0]), np.array([-1.0, -1.0, 2.0])
  with numerics.enable_x64():

    def loss(x):
      return sb.temperature_loss(
        jnp.asarray(x), jnp.asarray(entropy), jnp.asarray(target), parameterization=parameterization
      )

    gradient = jax.grad(lambda x: jnp.sum(loss(x)))(jnp.asarray(-0.7))
    np.testing.assert_allclose(gradient, numerics.finite_differences(loss, -0.7), rtol=1e-8)


@pytest.mark.parametrize('parameterization', ['alpha', 'log_alpha'])
def test_policy_and_target_get_no_gradient(parameterization):
  def loss(entropy, target_entropy):
    return jnp.sum(
      sb.temperature_loss(jnp.float32(0.3), entropy, target_entropy, parameterization=parameterization)
    )

  gradients = jax.grad(loss, argnums=(0, 1))(jnp.array([0.5, -1.0]), jnp.array([-1.0, 3.0]))
  np.testing.assert_array_equal(gradients[0], np.zeros(2))
  np.testing.assert_array_equal(gradients[1], np.zeros(2))


def test_half_precision_entropies_leave_log_alpha_in_float32():
  loss, gradient = jax.value_and_grad(
    lambda x: jnp.mean(sb.temperature_loss(x, jnp.array([0.5, 1.5], jnp.bfloat16), -1.0))
  )(jnp.float32(0.1))
  assert loss.dtype == jnp.float32
  assert gradient.dtype == jnp.float32
  assert float(gradient) == pytest.approx(2.0 * math.exp(0.1), rel=1e-6)


def test_an_unknown_parameterization_is_refused():
  with pytest.raises(ValueError, match=r'log_alpha') as error:
    sb.temperature_loss(0.0, 0.5, -1.0, parameterization='softplus')
  assert 'softplus' in str(error.value)


@given(
  log_alpha=st.floats(-5.0, 3.0, width=32, allow_subnormal=False),
  excess=st.floats(0.125, 10.0, width=32),
  target=st.floats(-20.0, 5.0, width=32, allow_subnormal=False),
)
@pytest.mark.parametrize('parameterization', ['alpha', 'log_alpha'])
def test_descent_raises_alpha_exactly_where_entropy_is_short(parameterization, log_alpha, excess, target):
  alpha = math.exp(log_alpha)
  above = _gradient(alpha, target + excess, target, parameterization=parameterization)
  below = _gradient(alpha, target - excess, target, parameterization=parameterization)
  assert above > 0.0 > below


@pytest.mark.parametrize(('dimensions', 'expected'), [(1, -1.0), (3, -3.0), (17, -17.0)])
def test_target_entropy_is_minus_the_action_size(dimensions, expected):
  target = sb.continuous_target_entropy(dimensions)
  assert isinstance(target, float)
  assert target == expected


def test_target_entropy_scales():
  assert sb.continuous_target_entropy(6, 0.5) == pytest.approx(-3.0)
  assert sb.continuous_target_entropy(6, scale=0.5) == pytest.approx(-3.0)


@pytest.mark.parametrize('dimensions', [0, -2])
def test_actions_of_no_size_are_refused(dimensions):
  with pytest.raises(ValueError, match=f'num_dimensions.*{dimensions}'):
    sb.continuous_target_entropy(dimensions)
