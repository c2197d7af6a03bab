"""Tests of the values, targets and losses over hybrid actions."""

from __future__ import annotations

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import sac_blocks as sb
from tests import numerics
from tests.losses import contract_test as contract
from tests.references import hybrid_soft_actor_critic as reference

_ALPHAS = (0.3, 0.2)
_NAMES = ('value', 'target', 'actor_loss', 'discrete_entropy', 'continuous_entropy')

every_way_to_run = pytest.mark.parametrize('run', ['eager', 'jit', 'vmap'])


def _batch(leading=(4,), heads=2, branches=5, seed=0, dtype=np.float32):
  """Returns q, logits, log-probs and a mask with a legal branch in each row, in the first one all but one."""
  rng = np.random.default_rng(seed)
  q = 3.0 * rng.normal(size=(heads, *leading, branches))
  logits, log_prob = rng.normal(size=(2, *leading, branches))
  always = np.arange(branches) == rng.integers(0, branches, leading)[..., None]
  mask = always | (rng.uniform(size=logits.shape) < 0.5)
  mask[(0,) * len(leading)] = np.arange(branches) < branches - 1
  return q.astype(dtype), logits.astype(dtype), log_prob.astype(dtype), mask


def _everything(q, logits, log_prob, alpha_discrete, alpha_continuous, mask=None):
  """Returns all that an illegal branch could spoil, [...] each."""
  legal = logits != -jnp.inf if mask is None else mask
  alphas = alpha_discrete, alpha_continuous
  one = jnp.ones(alpha_discrete.shape, q.dtype)
  discount = 0.9 * jnp.any(legal, axis=-1)
  loss, entropies = sb.hybrid_actor_loss(logits, log_prob, q, *alphas, mask)
  return {
    'value': sb.hybrid_soft_value(q, logits, log_prob, *alphas, mask),
    'target': sb.hybrid_soft_q_target(one, discount, q, logits, log_prob, *alphas, mask),
    'actor_loss': loss,
    'discrete_entropy': entropies.discrete,
    'continuous_entropy': entropies.continuous,
  }


def _with_gradients(*inputs):
  """Returns `_everything`, and by the same names the gradients of the sums by all inputs but the mask."""
  *reals, mask = inputs
  values, vjp = jax.vjp(lambda *reals: _everything(*reals, mask), *reals)
  zeros = jax.tree_util.tree_map(jnp.zeros_like, values)
  gradients = {name: vjp({**zeros, name: jnp.ones_like(value)}) for name, value in values.items()}
  return values, gradients


_jitted = jax.jit(_with_gradients)
_mapped = jax.jit(jax.vmap(_with_gradients, in_axes=(1, 0, 0, 0, 0, 0)))


def _run(run, q, logits, log_prob, mask):
  """Returns `_with_gradients` of a batch [B], with temperatures for each example."""
  alphas = (np.full(logits.shape[:-1], alpha, q.dtype) for alpha in _ALPHAS)
  inputs = (q, logits, log_prob, *alphas, mask)
  if run == 'eager':
    return _with_gradients(*map(jnp.asarray, inputs))
  if run == 'jit':
    return _jitted(*inputs)
  values, gradients = _mapped(*inputs)
  return values, {name: (jnp.swapaxes(g[0], 0, 1), *g[1:]) for name, g in gradients.items()}


def _assert_same_bits(actual, expected):
  for a, b in zip(*map(jax.tree_util.tree_leaves, (actual, expected)), strict=True):
    assert np.all(np.isfinite(b))
    np.testing.assert_array_equal(a, b)


# Known numbers.


def test_continuous_entropy_is_weighted_by_the_choice():
  # 0.25 * 1 + 0.75 * 2; the mean over the branches would be 1.5, and the joint entropy is 2.312335.
  logits, log_prob = jnp.log(jnp.array([0.25, 0.75])), jnp.array([-1.0, -2.0])
  _, entropies = sb.hybrid_actor_loss(logits, log_prob, jnp.zeros((1, 2)), 1.0, 1.0)
  assert isinstance(entropies, sb.HybridEntropies)
  assert float(entropies.discrete) == pytest.approx(0.562335, abs=1e-6)
  assert float(entropies.continuous) == pytest.approx(1.75, abs=1e-6)


def test_each_part_has_its_own_temperature_and_the_minimum_is_taken_branch_by_branch():
  # The smaller q are 1 and 0: 0.5 (1 + 0.5 * 1) + 0.5 (0 + 0.5 * 2) + 0.1 log 2.
  q, log_prob = jnp.array([[1.0, 2.0], [3.0, 0.0]]), jnp.array([-1.0, -2.0])
  assert float(sb.hybrid_soft_value(q, jnp.zeros(2), log_prob, 0.1, 0.5)) == pytest.approx(1.319315, abs=1e-6)
  target = sb.hybrid_soft_q_target(jnp.array(1.0), 0.9, q, jnp.zeros(2), log_prob, 0.1, 0.5)
  assert float(target) == pytest.approx(2.187383, abs=1e-6)
  loss, _ = sb.hybrid_actor_loss(jnp.zeros(2), log_prob, q, 0.1, 0.5)
  assert float(loss) == pytest.approx(-1.319315, abs=1e-6)


def test_an_illegal_branch_with_the_largest_q_stays_out():
  # 0.5 (1 + 0.5) + 0.5 (2 + 1) + 0.2 log 2.
  q, log_prob = jnp.array([[1.0, 2.0, 100.0]]), jnp.array([-1.0, -2.0, -300.0])
  value = sb.hybrid_soft_value(q, jnp.zeros(3), log_prob, 0.2, 0.5, jnp.array([1, 1, 0]))
  assert float(value) == pytest.approx(2.388629, abs=1e-6)


@pytest.mark.parametrize('rest', [0.0, -1e4, -1e30])
def test_probabilities_that_underflow_leave_value_and_gradients_finite(rest):
  logits, q, log_prob = jnp.array([200.0, rest, rest]), jnp.array([[1.0, 2.0, 3.0]]), jnp.full(3, -4.0)
  value, gradients = jax.value_and_grad(sb.hybrid_soft_value, argnums=range(5))(q, logits, log_prob, 0.2, 0.5)
  assert float(value) == pytest.approx(3.0, abs=1e-6)
  expected = [[1.0, 0.0, 0.0]], np.zeros(3), [-0.5, 0.0, 0.0], 0.0, 4.0
  for actual, gradient in zip(gradients, expected, strict=True):
    np.testing.assert_allclose(actual, gradient, atol=1e-6)


# What the two parts are alone.


@pytest.mark.parametrize('masked', [False, True])
def test_without_a_continuous_temperature_the_formulas_are_the_categorical_ones(masked):
  q, logits, log_prob, mask = _batch()
  mask = mask if masked else None
  r_t = np.ones(4, np.float32)
  loss, entropies = sb.hybrid_actor_loss(logits, log_prob, q, 0.3, 0.0, mask)
  actual = (
    sb.hybrid_soft_value(q, logits, log_prob, 0.3, 0.0, mask),
    sb.hybrid_soft_q_target(r_t, 0.9, q, logits, log_prob, 0.3, 0.0, mask),
    (loss, entropies.discrete),
  )
  expected = (
    sb.categorical_soft_value(q, logits, 0.3, mask),
    sb.categorical_soft_q_target(r_t, 0.9, q, logits, 0.3, mask),
    sb.categorical_actor_loss(logits, q, 0.3, mask),
  )
  _assert_same_bits(actual, expected)


def test_with_a_single_branch_the_formulas_are_the_continuous_ones():
  q, logits, log_prob, _ = _batch(branches=1)
  r_t, alpha = np.ones(4, np.float32), jnp.float32(0.2)
  # The choice has no entropy, so its temperature has no effect.
  loss, entropies = sb.hybrid_actor_loss(logits, log_prob, q, 7.0, alpha)
  actual = (
    sb.hybrid_soft_value(q, logits, log_prob, 7.0, alpha),
    sb.hybrid_soft_q_target(r_t, 0.9, q, logits, log_prob, 7.0, alpha),
    loss,
    entropies,
  )
  q, log_prob = q[..., 0], log_prob[..., 0]
  expected = (
    sb.soft_value(q, log_prob, alpha),
    sb.soft_q_target(r_t, 0.9, q, log_prob, alpha),
    sb.soft_policy_loss(log_prob, q, alpha),
    (np.zeros(4), -log_prob),
  )
  _assert_same_bits(actual, expected)


# Gradients.


def test_soft_value_gradients_agree_with_finite_differences():
  *reals, mask = _batch(dtype=np.float64)
  with numerics.enable_x64():
    inputs = [*reals, *map(np.float64, _ALPHAS)]
    value = jax.jit(lambda *xs: sb.hybrid_soft_value(*xs, mask))
    gradients = jax.jit(jax.grad(lambda *xs: jnp.sum(value(*xs)), argnums=range(5)))(*inputs)
    for position, gradient in enumerate(gradients):

      def function(x, position=position):
        return value(*inputs[:position], x, *inputs[position + 1 :])

      expected = numerics.finite_differences(function, inputs[position])
      np.testing.assert_allclose(gradient, expected, rtol=1e-7, atol=1e-8)
      assert np.any(gradient != 0.0)


def test_actor_gradients_agree_with_finite_differences_and_leave_the_temperatures_alone():
  q, logits, log_prob, mask = _batch(seed=1, dtype=np.float64)
  with numerics.enable_x64():
    inputs = [logits, log_prob, q, *map(np.float64, _ALPHAS)]
    loss = jax.jit(lambda *xs: sb.hybrid_actor_loss(*xs, mask)[0])
    gradients = jax.jit(jax.grad(lambda *xs: jnp.sum(loss(*xs)), argnums=range(5)))(*inputs)
    for position in range(3):

      def function(x, position=position):
        return loss(*inputs[:position], x, *inputs[position + 1 :])

      expected = numerics.finite_differences(function, inputs[position])
      np.testing.assert_allclose(gradients[position], expected, rtol=1e-7, atol=1e-8)
      assert np.any(gradients[position] != 0.0)
    assert gradients[3] == gradients[4] == 0.0


def test_the_policy_gradient_reaches_a_gaussian_through_the_action_and_its_log_prob():
  """Of the branch's own parameters, in proportion to its probability; in float64 against differences."""
  logits, epsilon = np.array([0.3, -0.4, 0.8]), np.array([[0.5], [-1.0], [0.2]])

  with numerics.enable_x64():

    @jax.jit
    def loss(loc):
      u = loc + 0.7 * epsilon
      log_prob = jnp.sum(-0.5 * epsilon**2 - jnp.log1p(-(jnp.tanh(u) ** 2)), axis=-1)
      q = -((jnp.tanh(u)[..., 0] - jnp.array([0.1, 0.5, -0.3])) ** 2)
      return sb.hybrid_actor_loss(logits, log_prob, jnp.stack([q, q + 0.1]), 0.3, 0.2)[0]

    loc = np.array([[0.4], [0.1], [-0.2]])
    gradient = jax.jit(jax.grad(loss))(loc)
    np.testing.assert_allclose(gradient, numerics.finite_differences(loss, loc), rtol=1e-7)
    assert np.all(np.abs(gradient) > 1e-3)


@pytest.mark.parametrize('critic', ['polynomials', 'waves', 'squares', 'products'])
def test_compiled_gradients_are_those_of_eager_execution(critic):
  """Critics and log-probs that fuse with the loss are computed twice, and may be rounded in two ways."""
  rng = np.random.default_rng(0)
  x, logits, slope = rng.normal(size=(3, 500, 3)).astype(np.float32)

  def loss(x):
    if critic == 'polynomials':
      q = jnp.stack([0.3 + 1.7 * x - 2.3 * x**2, 0.31 + 1.6 * x - 2.2 * x**2])
    elif critic == 'waves':
      q = 3.7 * jnp.stack([jnp.sin(x), jnp.sin(1.1 * x)]) + 0.3 * jnp.cos(x)[None]
    elif critic == 'squares':
      q = -0.7 * (jnp.stack([x, 1.1 * x]) + 0.3) ** 2 + 0.1 * x[None]
    else:
      z = jnp.einsum('bki,ni->nbk', jnp.stack([x, x**2], axis=-1), jnp.array([[1.3, 0.2], [1.2, 0.3]]))
      q = jnp.tanh(z) + z + jnp.array([0.1, 0.11])[:, None, None]
    return jnp.sum(sb.hybrid_actor_loss(logits, slope * jnp.cos(x), q, *_ALPHAS)[0])

  expected = jax.grad(loss)(x)
  np.testing.assert_allclose(jax.jit(jax.grad(loss))(x), expected, rtol=1e-4, atol=1e-5)
  assert np.all(np.isfinite(expected))


def test_targets_are_stopped_in_every_argument():
  *reals, mask_t = _batch()
  r_t, discount_t = np.full((2, 4), 0.5, np.float32)
  gradients = jax.grad(lambda *xs: jnp.sum(sb.hybrid_soft_q_target(*xs, mask_t)), argnums=range(7))
  for gradient in jax.jit(gradients)(r_t, discount_t, *reals, *_ALPHAS):
    np.testing.assert_array_equal(gradient, np.zeros_like(gradient))


# Masks.


@every_way_to_run
def test_whatever_stands_at_illegal_branches_changes_no_bit(run):
  """Each row of the batch has something else there; gradients by the temperatures are finite, too."""
  q, logits, log_prob, mask = _batch()
  clean = (np.where(mask, x, np.float32(0.0)) for x in (q, logits, log_prob))
  expected = _run(run, *clean, mask)
  for anything in ([1e30, -1e30, math.inf, -math.inf], [math.nan, math.nan, -math.inf, math.inf]):
    fill = np.float32(anything)[:, None]
    actual = _run(run, *(np.where(mask, x, fill) for x in (q, logits, log_prob)), mask)
    _assert_same_bits(actual, expected)
  for by_q, by_logits, by_log_prob, *_ in actual[1].values():
    assert np.all(by_q[:, ~mask] == 0.0)
    assert np.all(by_logits[~mask] == 0.0)
    assert np.all(by_log_prob[~mask] == 0.0)
  assert np.all(actual[1]['value'][2][mask] < 0.0)
  # And a logit of minus infinity is a mask by itself.
  hidden = np.where(mask, logits, -np.inf)
  _assert_same_bits(_run(run, q, hidden, log_prob, np.ones_like(mask)), expected)


@every_way_to_run
def test_rows_without_legal_branches_are_zero_among_ordinary_ones(run):
  *reals, mask = _batch()
  expected_values, expected_gradients = _run(run, *reals, mask)
  mask = mask & np.array([True, False, True, False])[:, None]
  fill = np.float32([0.0, math.inf, 0.0, math.nan])[:, None]
  values, gradients = _run(run, *(np.where(mask, x, fill) for x in reals), mask)
  for name in _NAMES:
    np.testing.assert_array_equal(values[name][1::2], np.full(2, 1.0 if name == 'target' else 0.0))
    np.testing.assert_array_equal(values[name][::2], expected_values[name][::2])
    (by_q, *others), (expected_by_q, *expected_others) = gradients[name], expected_gradients[name]
    np.testing.assert_array_equal(by_q[:, 1::2], np.zeros((2, 2, 5)))
    np.testing.assert_array_equal(by_q[:, ::2], expected_by_q[:, ::2])
    for gradient, expected in zip(others, expected_others, strict=True):
      np.testing.assert_array_equal(gradient[1::2], np.zeros_like(gradient[1::2]))
      np.testing.assert_array_equal(gradient[::2], expected[::2])


def test_a_target_may_not_bootstrap_from_a_state_without_legal_branches():
  *reals, mask_t = _batch()
  mask_t[1] = False
  r_t, ending = np.ones(4, np.float32), np.array([0.9, 0.0, 0.9, 0.9], np.float32)
  target = sb.hybrid_soft_q_target(r_t, ending, *reals, *_ALPHAS, mask_t)
  np.testing.assert_allclose(
    target, reference.hybrid_soft_q_target(r_t, ending, *reals, *_ALPHAS, mask_t), rtol=1e-5
  )
  assert target[1] == 1.0
  with pytest.raises(ValueError, match='discount_t'):
    sb.hybrid_soft_q_target(r_t, 0.9, *reals, *_ALPHAS, mask_t)


def test_a_legal_log_prob_that_is_not_a_number_is_not_hidden():
  q, logits, log_prob, mask = _batch()
  log_prob[0, 0] = np.nan
  values, _ = _run('jit', q, logits, log_prob, mask)
  for name in ('value', 'target', 'actor_loss', 'continuous_entropy'):
    np.testing.assert_array_equal(np.isnan(values[name]), [True, False, False, False], err_msg=name)


@pytest.mark.parametrize('position', [0, 1])
@pytest.mark.parametrize('alpha', [-0.1, float('nan')])
def test_a_negative_temperature_is_refused_by_name(position, alpha):
  q, logits, log_prob, _ = _batch()
  alphas = [0.1, 0.1]
  alphas[position] = alpha
  for function in (
    lambda: sb.hybrid_soft_value(q, logits, log_prob, *alphas),
    lambda: sb.hybrid_soft_q_target(jnp.ones(4), 0.9, q, logits, log_prob, *alphas),
    lambda: sb.hybrid_actor_loss(logits, log_prob, q, *alphas),
  ):
    with pytest.raises(ValueError, match=('alpha_discrete', 'alpha_continuous')[position]):
      function()


def test_floating_masks_are_refused():
  *reals, mask = _batch()
  with pytest.raises(TypeError, match=r'\bmask\b.*float'):
    sb.hybrid_soft_value(*reals, *_ALPHAS, mask.astype(np.float32))
  with pytest.raises(TypeError, match=r'\bmask_t\b.*float'):
    sb.hybrid_soft_q_target(jnp.ones(4), 0.9, *reals, *_ALPHAS, mask.astype(np.float32))


# What holds for every loss.


def _part(function, part):
  return lambda *inputs: jax.tree_util.tree_leaves(function(*inputs))[part]


_VALUE = {'q': 'action_heads', 'logits': 'logits', 'log_prob': 'logits'}
_ACTOR = {'logits': 'logits', 'log_prob': 'logits', 'q': 'action_heads'}
_SCALARS = {'alpha_discrete': 'scalar', 'alpha_continuous': 'scalar'}
_EACH = {'alpha_discrete': 'each', 'alpha_continuous': 'each'}

LOSSES = {
  'soft_value': contract.Loss(sb.hybrid_soft_value, reference.hybrid_soft_value, {**_VALUE, **_SCALARS}),
  'soft_value_masked': contract.Loss(
    sb.hybrid_soft_value, reference.hybrid_soft_value, {**_VALUE, **_EACH, 'mask': 'mask'}
  ),
  'soft_q_target': contract.Loss(
    sb.hybrid_soft_q_target,
    reference.hybrid_soft_q_target,
    {
      'r_t': 'each',
      'discount_t': 'each',
      **{f'{name}_t': kind for name, kind in _VALUE.items()},
      **_SCALARS,
      'mask_t': 'mask',
    },
  ),
  **{
    f'actor_loss_{part}': contract.Loss(
      _part(sb.hybrid_actor_loss, part),
      _part(reference.hybrid_actor_loss, part),
      {**_ACTOR, **_EACH, 'mask': 'mask'},
    )
    for part in range(3)
  },
}

every_loss = pytest.mark.parametrize('loss', LOSSES.values(), ids=LOSSES.keys())


@pytest.mark.parametrize('leading', [(), (1,), (2,), (3, 4), (5, 5)])
@every_loss
def test_float32_matches_reference_in_any_shape(loss, leading):
  contract.test_float32_matches_reference_in_any_shape(loss, 2, leading)


@pytest.mark.parametrize(
  'check',
  [
    contract.test_float64_matches_reference,
    contract.test_float32_stays_float32_where_x64_is_on,
    contract.test_jit_equals_eager,
    contract.test_an_ensemble_of_none_is_refused,
    contract.test_heads_without_an_ensemble_axis_are_refused,
    lambda loss: contract.test_vmap_equals_stacked_input(loss, 2),
    lambda loss: contract.test_half_precision_inputs_are_computed_in_float32(loss, jnp.bfloat16),
  ],
  ids=['float64', 'x64', 'jit', 'no_heads', 'no_ensemble_axis', 'vmap', 'bfloat16'],
)
@every_loss
def test_keeps_the_contract_of_losses(loss, check):
  check(loss)


@every_loss
def test_shapes_that_would_broadcast_are_refused_by_name(loss):
  for wrong in ((4, 1), (1,), (3,), (4, 4), (1, 4)):
    contract.test_shapes_that_would_broadcast_are_refused_by_name(loss, wrong)
  for wrong in ((4,), (4, 1), (1, 5), (5,), (3, 5), (4, 6), (1, 4, 5), (4, 1, 5)):
    contract.test_logits_and_masks_that_would_broadcast_are_refused_by_name(loss, wrong)
  for wrong in ((4, 5), (4, 5, 2), (2, 5, 4), (2, 1, 5), (2, 5), (2, 4, 1), (2, 4, 6)):
    contract.test_heads_over_actions_that_would_broadcast_are_refused_by_name(loss, wrong)
