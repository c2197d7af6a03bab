"""Tests of the policy's losses."""

from __future__ import annotations

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import sac_blocks as sb
from tests import numerics
from tests.references import soft_actor_critic as reference

_KEY = jax.random.PRNGKey(0)
_WEIGHTS = np.array([[1.0, -2.0], [0.5, 1.0]], np.float32)


def _critic(action):
  """Two critics that differ by far more than a finite difference moves them; the first is smaller."""
  return jnp.stack([jnp.dot(action, _WEIGHTS[0]), 10.0 + jnp.dot(action, _WEIGHTS[1])])


def _loss(loc, scale, key, alpha=0.2):
  return sb.tanh_gaussian_actor_loss(loc, scale, _critic, alpha, key)


_jitted_loss = jax.jit(_loss)
_jitted_gradient = jax.jit(
  jax.grad(lambda loc, scale, *rest: jnp.sum(_loss(loc, scale, *rest)[0]), argnums=(0, 1))
)


def _policy(leading=(3,), seed=0):
  rng = np.random.default_rng(seed)
  loc = rng.normal(size=(*leading, 2)).astype(np.float32)
  return loc, rng.uniform(0.3, 1.0, (*leading, 2)).astype(np.float32)


def test_policy_loss_takes_the_smallest_q():
  # 0.1 * -2 - min(5, 4). The first head alone gives -5.2, the mean -4.7.
  loss = sb.soft_policy_loss(-2.0, jnp.array([5.0, 4.0]), 0.1)
  assert float(loss) == pytest.approx(-4.2, rel=1e-6)


def test_policy_loss_is_minus_the_soft_value():
  rng = np.random.default_rng(0)
  q, log_prob = rng.normal(size=(3, 4)).astype(np.float32), rng.normal(size=4).astype(np.float32)
  np.testing.assert_allclose(
    sb.soft_policy_loss(log_prob, q, 0.3), -sb.soft_value(q, log_prob, 0.3), rtol=1e-6
  )


def test_policy_loss_gradient_agrees_with_finite_differences():
  log_prob, q = np.array([-2.0, 0.5]), np.array([[5.0, 1.0], [4.0, 2.0]])
  with numerics.enable_x64():
    by_log_prob, by_q = jax.grad(lambda *xs: jnp.sum(sb.soft_policy_loss(*xs, 0.3)), argnums=(0, 1))(
      jnp.asarray(log_prob), jnp.asarray(q)
    )
    np.testing.assert_allclose(
      by_log_prob,
      numerics.finite_differences(
        lambda x: sb.soft_policy_loss(jnp.asarray(x), jnp.asarray(q), 0.3), log_prob
      ),
      atol=1e-8,
    )
    np.testing.assert_allclose(
      by_q,
      numerics.finite_differences(
        lambda x: sb.soft_policy_loss(jnp.asarray(log_prob), jnp.asarray(x), 0.3), q
      ),
      atol=1e-8,
    )


@given(seed=st.integers(0, 2**31), order=st.permutations(range(4)))
def test_order_of_heads_does_not_matter(seed, order):
  rng = np.random.default_rng(seed)
  q, log_prob = rng.normal(size=(4, 3)).astype(np.float32), rng.normal(size=3).astype(np.float32)
  np.testing.assert_array_equal(
    sb.soft_policy_loss(log_prob, q[np.asarray(order)], 0.2),
    sb.soft_policy_loss(log_prob, q, 0.2),
  )


@pytest.mark.parametrize('leading', [(), (2,), (3, 4)])
def test_actor_loss_is_the_policy_loss_at_its_own_action(leading):
  loc, scale = _policy(leading)
  loss, aux = _jitted_loss(loc, scale, _KEY)
  assert loss.shape == aux.log_prob.shape == leading
  assert aux.action.shape == (*leading, 2)
  assert loss.dtype == aux.action.dtype == aux.log_prob.dtype == jnp.float32
  np.testing.assert_allclose(
    loss,
    reference.soft_policy_loss(aux.log_prob, _critic(aux.action), 0.2),
    rtol=1e-5,
    atol=1e-5,
  )
  np.testing.assert_allclose(
    aux.log_prob,
    reference.tanh_gaussian_log_density(np.arctanh(np.float64(aux.action)), loc, scale),
    rtol=1e-4,
    atol=1e-4,
  )


def test_one_example_of_one_action_keeps_its_axes():
  def loss(loc, scale):
    return sb.tanh_gaussian_actor_loss(loc, scale, lambda a: a[None, ..., 0], 0.2, _KEY)

  one = np.ones((1, 1), np.float32)
  output, aux = jax.eval_shape(loss, one, one)
  assert output.shape == aux.log_prob.shape == (1,)
  assert aux.action.shape == (1, 1)


def test_actor_gradient_agrees_with_finite_differences():
  """With the noise held, both the density and the critic move with loc and scale."""
  loc, scale = (np.float64(x) for x in _policy(seed=2))
  with numerics.enable_x64():
    by_loc, by_scale = _jitted_gradient(loc, scale, _KEY)
    loss = functools.partial(_jitted_loss, key=_KEY)
    np.testing.assert_allclose(
      by_loc, numerics.finite_differences(lambda x: loss(x, scale)[0], loc), rtol=1e-6, atol=1e-8
    )
    np.testing.assert_allclose(
      by_scale, numerics.finite_differences(lambda x: loss(loc, x)[0], scale), rtol=1e-6, atol=1e-8
    )


def test_actor_follows_the_critic_through_the_action():
  # Without entropy and noise the gradient is -dQ/da * (1 - a^2), of the smaller critic.
  loc, scale = _policy()
  gradient = _jitted_gradient(loc, np.full_like(scale, 1e-6), _KEY, 0.0)[0]
  np.testing.assert_allclose(gradient, -_WEIGHTS[:1] * (1 - np.tanh(loc) ** 2), rtol=1e-4, atol=1e-5)


def test_alpha_weighs_the_entropy():
  loc, scale = _policy()
  plain, aux = _jitted_loss(loc, scale, _KEY, 0.0)
  weighted, _ = _jitted_loss(loc, scale, _KEY, 0.5)
  np.testing.assert_allclose(weighted - plain, 0.5 * aux.log_prob, rtol=1e-4, atol=1e-5)


def test_key_decides_the_noise():
  loc, scale = _policy()
  first = _jitted_loss(loc, scale, _KEY)[1].action
  np.testing.assert_array_equal(first, _jitted_loss(loc, scale, jax.random.PRNGKey(0))[1].action)
  np.testing.assert_array_equal(first, _jitted_loss(loc, scale, jax.random.key(0))[1].action)
  assert np.all(first != _jitted_loss(loc, scale, jax.random.PRNGKey(1))[1].action)
  # Nor is the noise shared between examples or dimensions.
  zero = np.zeros_like(loc)
  assert len(np.unique(_jitted_loss(zero, scale[:1].repeat(3, 0), _KEY)[1].action)) == zero.size


def test_jit_equals_eager():
  loc, scale = _policy()
  for actual, expected in zip(
    jax.tree_util.tree_leaves(_jitted_loss(loc, scale, _KEY)),
    jax.tree_util.tree_leaves(_loss(loc, scale, _KEY)),
    strict=True,
  ):
    np.testing.assert_allclose(actual, expected, rtol=1e-5, atol=1e-6)


def test_vmap_over_keys_equals_a_loop():
  loc, scale = _policy((4, 3))
  keys = jax.random.split(_KEY, 4)
  mapped, aux = jax.jit(jax.vmap(_loss))(loc, scale, keys)
  for index in range(4):
    expected, expected_aux = _jitted_loss(loc[index], scale[index], keys[index])
    np.testing.assert_allclose(mapped[index], expected, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(aux.action[index], expected_aux.action, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(aux.log_prob[index], expected_aux.log_prob, rtol=1e-5, atol=1e-5)


def test_half_precision_networks_get_a_float32_loss():
  def loss(loc, scale):
    return sb.tanh_gaussian_actor_loss(
      loc, scale, lambda action: _critic(action).astype(jnp.bfloat16), 0.1, _KEY
    )

  parameters = jax.ShapeDtypeStruct((3, 2), jnp.bfloat16)
  for output in jax.tree_util.tree_leaves(jax.eval_shape(loss, parameters, parameters)):
    assert output.dtype == jnp.float32


def test_extreme_policies_have_finite_loss_and_gradient():
  loc = np.array([[0.0, 1e3], [-1e3, 50.0], [9.1, 0.0]], np.float32)
  scale = np.exp(np.array([[-20.0, 2.0], [2.0, -20.0], [10.0, -5.0]], np.float32))
  loss, aux = _jitted_loss(loc, scale, _KEY)
  assert np.all(np.isfinite(loss))
  assert np.all(np.isfinite(aux.log_prob))
  for gradient in _jitted_gradient(loc, scale, _KEY):
    assert np.all(np.isfinite(gradient))


def _loss_shapes(critic):
  """Traces the loss of [4, 3] actions, so that checks run and nothing is compiled."""
  parameters = jax.ShapeDtypeStruct((4, 3), jnp.float32)
  return jax.eval_shape(
    lambda loc, scale: sb.tanh_gaussian_actor_loss(loc, scale, critic, 0.1, _KEY), parameters, parameters
  )


@pytest.mark.parametrize(
  ('critic', 'shape'),
  [
    (lambda action: action[:, 0], '(4,)'),  # No ensemble axis.
    (lambda action: action[:, :2], '(4, 2)'),  # Heads last.
    (lambda action: action[None, :, :1], '(1, 4, 1)'),  # A kept trailing axis.
  ],
)
def test_a_critic_of_another_shape_is_refused(critic, shape):
  with pytest.raises(ValueError, match=r'critic') as error:
    _loss_shapes(critic)
  assert shape in str(error.value)


def test_loc_and_scale_of_different_shapes_are_refused():
  with numerics.raises_naming(loc=(4, 2), scale=(4, 1)):
    sb.tanh_gaussian_actor_loss(jnp.zeros((4, 2)), jnp.ones((4, 1)), _critic, 0.1, jax.random.PRNGKey(0))
