"""What stands for Q of several critics: values, gradients, draws and refusals."""

from __future__ import annotations

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import sac_blocks as sb
from sac_blocks import reductions

Q = jnp.array([5.0, 1.0, 9.0, 3.0])


def test_values_worked_out_by_hand():
  assert float(reductions.minimum(Q)) == 1.0
  assert float(reductions.mean(Q)) == 4.5
  # All critics are a subset, too.
  assert float(reductions.random_subset(4)(Q, jax.random.key(0))) == 1.0


def test_a_random_subset_is_drawn_without_replacement_and_each_equally_often():
  draws = jax.vmap(lambda key: reductions.random_subset(2)(Q, key))(jax.random.split(jax.random.key(0), 6000))
  # Of the 6 pairs 3 hold the 1, 2 more the 3, the last is {5, 9}; a critic twice would give 9.
  values, counts = np.unique(np.asarray(draws), return_counts=True)
  np.testing.assert_array_equal(values, [1.0, 3.0, 5.0])
  np.testing.assert_allclose(counts / 6000, [3 / 6, 2 / 6, 1 / 6], atol=0.025)


def test_one_subset_serves_all_examples():
  # Critic i is i at every example, so that a draw for each example would mix values.
  q = jnp.broadcast_to(jnp.arange(5.0)[:, None], (5, 64))
  for seed in range(5):
    assert len(np.unique(reductions.random_subset(2)(q, jax.random.key(seed)))) == 1


@pytest.mark.parametrize(
  ('reduce', 'expected'),
  [
    (reductions.minimum, [0.0, 1.0, 0.0, 0.0]),
    (reductions.mean, [0.25] * 4),
    (reductions.random_subset(4), [0.0, 1.0, 0.0, 0.0]),
  ],
)
def test_gradients_go_to_the_critics_that_count(reduce, expected):
  gradient = jax.jit(jax.grad(lambda q: reduce(q, jax.random.key(0))))(Q)
  np.testing.assert_allclose(gradient, expected)


def test_wrong_use_is_named():
  with pytest.raises(ValueError, match=r'random_subset.* at least 1, got 0'):
    reductions.random_subset(0)
  with pytest.raises(ValueError, match=r'random_subset\(5\) draws 5 critics, but q has 4 .*: \(4,\)'):
    reductions.random_subset(5)(Q, jax.random.key(0))
  with pytest.raises(ValueError, match=r'random_subset\(2\) needs a key'):
    sb.soft_value(Q, jnp.array(0.0), 0.1, reduce=reductions.random_subset(2))
  with pytest.raises(ValueError, match=r"the critics' axis away, q \(4,\) to \(\), got \(4,\)"):
    sb.soft_value(Q, jnp.array(0.0), 0.1, reduce=lambda q, key: q)


def test_primitives_take_a_reduction_of_ones_own():
  largest = lambda q, key: jnp.max(q, axis=0)  # noqa: E731
  assert float(sb.soft_value(Q, jnp.array(-2.0), 0.5, reduce=largest)) == 10.0
  assert float(sb.soft_policy_loss(jnp.array(-2.0), Q, 0.5, reduce=largest)) == -10.0
  target = sb.soft_q_target(jnp.array(1.0), jnp.array(0.5), Q, jnp.array(-2.0), 0.5, reduce=largest)
  assert float(target) == 6.0
  q = jnp.stack([Q, Q[::-1]], axis=-1)
  # For every action by itself: 9 and 9.
  assert float(sb.categorical_soft_value(q, jnp.zeros(2), 0.0, reduce=largest)) == 9.0


def test_shape_checks_obey_the_switch_of_chex():
  column = jnp.zeros((4, 1))
  with pytest.raises(ValueError, match='nothing broadcasts'):
    sb.bellman_target(column[:, 0], 0.9, column)
  chex.disable_asserts()
  try:
    assert sb.bellman_target(column[:, 0], 0.9, column).shape == (4, 4)
  finally:
    chex.enable_asserts()
  with pytest.raises(ValueError, match='nothing broadcasts'):
    sb.bellman_target(column[:, 0], 0.9, column)
