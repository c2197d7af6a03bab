"""The temperature's objective: one number, one for each state, one for each part of an action."""

from __future__ import annotations

import math
from typing import Any

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from sac_blocks import objectives

ENTROPY = jnp.array([-1.5, -0.5, 0.0])


def gradient(target: Any, log_alpha: Any, entropy: Any, **options: Any) -> Any:
  objective = objectives.temperature_objective(target, **options)
  return jax.grad(lambda x: objective.loss({'log_alpha': x}, None, None, {'entropy': entropy})[0])(log_alpha)


@pytest.mark.parametrize(
  ('parameterization', 'expected'), [('alpha', 2.0 * (1.0 / 3.0)), ('log_alpha', 1.0 / 3.0)]
)
def test_the_gradient_is_the_mean_of_entropy_minus_target(parameterization: Any, expected: float):
  # Entropies of -2/3 on the average, and a target of -1.
  actual = gradient(-1.0, jnp.log(2.0), ENTROPY, parameterization=parameterization)
  np.testing.assert_allclose(actual, expected, rtol=1e-6)


def test_a_target_may_depend_on_what_was_computed_before():
  objective = objectives.temperature_objective(lambda info: 2.0 * info['entropy'])
  loss, aux = objective.loss({'log_alpha': jnp.float32(0.0)}, None, None, {'entropy': ENTROPY})
  np.testing.assert_allclose(loss, 2.0 / 3.0, rtol=1e-6)
  np.testing.assert_allclose(aux['target_entropy'], -4.0 / 3.0, rtol=1e-6)
  assert objective.metrics == ('alpha', 'target_entropy')


def test_each_part_has_its_own_gradient():
  log_alpha = {'discrete': jnp.log(2.0), 'continuous': jnp.log(3.0)}
  entropy = {'discrete': jnp.array([0.5, 0.7]), 'continuous': jnp.array([-3.0, -1.0])}
  target = {'discrete': 0.4, 'continuous': lambda info: jnp.full(2, -1.0)}
  actual = gradient(target, log_alpha, entropy)
  chex.assert_trees_all_close(actual, {'discrete': 2.0 * 0.2, 'continuous': 3.0 * -1.0}, rtol=1e-5)
  objective = objectives.temperature_objective(target)
  _, aux = objective.loss({'log_alpha': log_alpha}, None, None, {'entropy': entropy})
  assert sorted(aux) == sorted(objective.metrics)
  np.testing.assert_allclose(aux['alpha_continuous'], 3.0, rtol=1e-6)
  np.testing.assert_allclose(aux['target_entropy_continuous'], -1.0)


@pytest.mark.parametrize(
  ('log_alpha', 'entropy', 'target'),
  [
    (jnp.float32(0.0), {'discrete': ENTROPY, 'continuous': ENTROPY}, -1.0),
    ({'discrete': jnp.float32(0.0)}, {'discrete': ENTROPY}, 0.5),
    (jnp.float32(0.0), ENTROPY, {'discrete': 0.5}),
  ],
)
def test_parts_that_differ_are_refused(log_alpha: Any, entropy: Any, target: Any):
  with pytest.raises(ValueError, match='log_alpha, entropy and target_entropy must have the same parts'):
    gradient(target, log_alpha, entropy)


def test_the_fixed_point_is_the_target():
  assert float(gradient(math.log(2.0), jnp.float32(0.3), jnp.full(4, math.log(2.0)))) == 0.0
