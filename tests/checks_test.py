"""Tests of the argument checks, through the functions that users call."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import sac_blocks as sb
from tests import numerics


def test_message_gives_every_argument_that_takes_part():
  with numerics.raises_naming(r_t=(4,), discount_t=(4, 1)):
    sb.soft_q_target(jnp.zeros(4), jnp.zeros((4, 1)), jnp.zeros((2, 4)), jnp.zeros(4), 0.1)


def test_message_is_one_paragraph_that_says_what_was_expected():
  with pytest.raises(ValueError, match='target') as error:
    sb.twin_critic_loss(jnp.zeros((2, 4)), jnp.zeros((4, 1)))
  message = str(error.value)
  assert '\n' not in message
  # The shape that the target should have had.
  assert '(4,)' in message or '[4]' in message


@pytest.mark.parametrize('scalar', [0.5, 1, np.float32(0.5), np.array(0.5), jnp.array(0.5)])
def test_scalars_of_any_make_serve_all_examples(scalar):
  value = sb.soft_value(jnp.zeros((2, 4)), jnp.full(4, -2.0), scalar)
  np.testing.assert_allclose(value, np.full(4, 2.0 * float(scalar)), rtol=1e-6)
  assert value.dtype == jnp.float32


@pytest.mark.parametrize('one', [np.ones(1, np.float32), jnp.ones((1, 1)), [0.5]])
def test_an_array_of_one_is_no_scalar(one):
  with pytest.raises((ValueError, TypeError), match='alpha'):
    sb.soft_value(jnp.zeros((2, 4)), jnp.zeros(4), one)


def test_lists_of_numbers_are_not_needed_but_numpy_is_taken():
  loss = sb.twin_critic_loss(np.ones((2, 3)), np.zeros(3))
  assert isinstance(loss, jax.Array)
  assert loss.dtype == jnp.float32
  np.testing.assert_allclose(loss, np.ones(3))


@pytest.mark.parametrize(
  'call',
  [
    lambda alpha: sb.soft_value(jnp.zeros((2, 4)), jnp.zeros(4), alpha),
    lambda alpha: sb.soft_q_target(jnp.zeros(4), jnp.zeros(4), jnp.zeros((2, 4)), jnp.zeros(4), alpha),
    lambda alpha: sb.soft_policy_loss(jnp.zeros(4), jnp.zeros((2, 4)), alpha),
    lambda alpha: sb.tanh_gaussian_actor_loss(
      jnp.zeros((4, 1)),
      jnp.ones((4, 1)),
      lambda a: jnp.stack([a[:, 0]]),
      alpha,
      jax.random.PRNGKey(0),
    ),
  ],
)
def test_a_negative_alpha_is_refused_everywhere_with_the_number(call):
  with pytest.raises(ValueError, match=r'alpha.*-0\.5'):
    call(-0.5)
  # A traced value can't be looked at: it passes.
  jax.jit(call)(0.5)


def test_options_are_keyword_only():
  with pytest.raises(TypeError):
    sb.twin_critic_loss(jnp.zeros((2, 4)), jnp.zeros(4), lambda q, y: q)
  with pytest.raises(TypeError):
    sb.temperature_loss(0.0, jnp.zeros(4), -1.0, 'alpha')


def test_complex_numbers_are_refused():
  with pytest.raises((ValueError, TypeError)):
    sb.soft_value(jnp.zeros((2, 4), jnp.complex64), jnp.zeros(4), 0.1)
