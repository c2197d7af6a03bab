"""Sums of objectives: value, gradient, what they report, and refusals."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
import optax
import pytest

from sac_blocks import Objective, blocks, objectives

SQUARE = Objective(
  lambda params, batch, key, info: (params['w'] ** 2, {'square': params['w'] ** 2}), ('square',)
)
READER = Objective(lambda params, batch, key, info: (params['w'] * info['slope'], {}))


def test_a_step_descends_the_weighted_sum():
  total = objectives.weighted_sum([SQUARE, READER], weights=[0.5, 2.0])
  assert total.metrics == ('square',)
  step = blocks.gradient_step('w', total, optax.sgd(0.1))
  params = {'w': jnp.array(3.0)}
  # 3 - 0.1 (0.5 * 2 * 3 + 2 * 4)
  new, _, info = step.update(params, step.init(params), None, None, {'slope': 4.0})
  np.testing.assert_allclose(new['w'], 1.9, rtol=1e-6)
  np.testing.assert_allclose(info['w_loss'], 0.5 * 9.0 + 2.0 * 12.0)
  np.testing.assert_allclose(info['square'], 9.0)
  with pytest.raises(KeyError, match=r"gradient_step\('w'\) reads 'slope'"):
    step.update(params, step.init(params), None, None, {})


def test_wrong_sums_are_named():
  with pytest.raises(ValueError, match='at least one objective, got none'):
    objectives.weighted_sum([])
  with pytest.raises(ValueError, match='2 objectives and 1 weights'):
    objectives.weighted_sum([SQUARE, READER], weights=[1.0])
  twice = objectives.weighted_sum([SQUARE, SQUARE])
  with pytest.raises(ValueError, match=r"two objectives report \['square'\]"):
    twice.loss({'w': jnp.array(1.0)}, None, None, {})
