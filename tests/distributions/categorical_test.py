"""Tests of the categorical distributions, of one choice and of several."""

from __future__ import annotations

import math
import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import sac_blocks as sb
from sac_blocks import distributions
from tests import numerics
from tests.references import soft_actor_critic as reference

_KEY = jax.random.PRNGKey(0)
_DRAWS = 20_000
_SIZES = (3, 3, 2, 3)

# The quantiles of the chi-square law at 1 - 1e-4, by degrees of freedom.
_CHI_SQUARE = {1: 15.14, 2: 18.42, 3: 21.11, 4: 23.51, 5: 25.74, 7: 29.88, 8: 31.83, 11: 37.37}

# What illegal logits may be, one for each row of a batch.
_ANYTHING = np.float32([1e30, -1e30, math.inf, -math.inf, math.nan])


def _policy(leading=(4,), actions=5, seed=0, dtype=np.float32):
  """Returns logits and a mask with at least one legal action a row, in the first row all but the last."""
  rng = np.random.default_rng(seed)
  logits = rng.normal(size=(*leading, actions)).astype(dtype)
  always = np.arange(actions) == rng.integers(0, actions, leading)[..., None]
  mask = always | (rng.uniform(size=logits.shape) < 0.5)
  if actions > 1 and mask.size:
    mask[(0,) * len(leading)] = np.arange(actions) < actions - 1
  return logits, mask


def _factored(leading=(4,), sizes=_SIZES, seed=0, dtype=np.float32):
  """Returns logits, and a mask with at least one legal choice in each factor."""
  parts = [_policy(leading, size, seed + k, dtype) for k, size in enumerate(sizes)]
  logits, mask = (np.concatenate(part, axis=-1) for part in zip(*parts, strict=True))
  return logits, mask


def _split(x, sizes=_SIZES):
  """Returns views of the factors' parts."""
  return np.split(np.asarray(x), np.cumsum(sizes)[:-1], axis=-1)


def _assert_drawn_from(draws, probs):
  """Pearson's test of draws 0, 1, ... against probabilities, at the level 1e-4."""
  probs = np.asarray(probs, np.float64)
  counts = np.bincount(np.asarray(draws).ravel(), minlength=len(probs))
  assert len(counts) == len(probs)
  assert np.all(counts[probs == 0.0] == 0)
  expected = probs[probs > 0.0] * counts.sum()
  assert expected.min() > 5.0
  statistic = np.sum((counts[probs > 0.0] - expected) ** 2 / expected)
  assert statistic < _CHI_SQUARE[len(expected) - 1]


# One choice.


def _abstract_outputs(make_law, *arguments):
  """Returns what a law gives, shapes and dtypes only: nothing is compiled."""

  def outputs(*arguments):
    law = make_law(*arguments)
    action, log_prob = law.sample_and_log_prob(seed=_KEY)
    of_categories = {'logits': law.logits, 'probs': law.probs}
    of_examples = {'drawn': log_prob, 'log_prob': law.log_prob(action), 'entropy': law.entropy()}
    actions = {
      'action': action,
      'sample': law.sample(seed=_KEY),
      'uniform': law.sample_uniformly(seed=_KEY),
      'mode': law.mode(),
    }
    return law, of_categories, of_examples, actions

  return jax.eval_shape(outputs, *arguments)


@pytest.mark.parametrize('leading', [(), (0,), (1,), (2, 4)])
@pytest.mark.parametrize(
  ('make_law', 'size', 'event_shape', 'categories'),
  [
    (distributions.Categorical, 1, (), 1),
    (distributions.Categorical, 3, (), 3),
    (lambda logits, mask=None: distributions.FactoredCategorical(logits, (2, 3), mask), 5, (2,), 6),
  ],
  ids=['one_action', 'three_actions', 'factored'],
)
def test_shapes(make_law, size, event_shape, categories, leading):
  logits, mask = _policy(leading, size)
  for arguments in ((logits,), (logits, mask)):
    law, of_categories, of_examples, actions = _abstract_outputs(make_law, *arguments)
    assert law.batch_shape == leading
    assert law.event_shape == event_shape
    assert law.num_categories == categories
    for name, output in of_categories.items():
      assert output.shape == (*leading, categories), name
    for name, output in of_examples.items():
      assert output.shape == leading, name
    for name, output in actions.items():
      assert output.shape == (*leading, *event_shape), name
      assert output.dtype == jnp.int32, name


@pytest.mark.parametrize(
  ('given_dtype', 'expected'),
  [
    (jnp.bfloat16, jnp.float32),
    (jnp.float16, jnp.float32),
    (jnp.float32, jnp.float32),
    (jnp.float64, jnp.float64),
    (jnp.int32, jnp.float32),
  ],
)
def test_dtypes_where_x64_is_on(given_dtype, expected):
  with numerics.enable_x64():
    logits = jax.ShapeDtypeStruct((4, 5), given_dtype)
    for make_law in (
      distributions.Categorical,
      lambda logits: distributions.FactoredCategorical(logits, (2, 3)),
    ):
      _, of_categories, of_examples, actions = _abstract_outputs(make_law, logits)
      for output in (*of_categories.values(), *of_examples.values()):
        assert output.dtype == expected
      for output in actions.values():
        assert output.dtype == jnp.int32


@pytest.mark.parametrize('masked', [False, True])
@pytest.mark.parametrize('dtype', [np.float32, np.float64])
def test_agrees_with_the_reference(dtype, masked):
  logits, mask = _policy((3, 4), dtype=dtype)
  mask = mask if masked else None
  expected = reference.categorical_log_prob(logits, mask)
  tolerance = 1e-5 if dtype == np.float32 else 1e-13
  with numerics.enable_x64():
    law = distributions.Categorical(jnp.asarray(logits), mask)
    assert law.logits.dtype == law.probs.dtype == law.entropy().dtype == dtype
    np.testing.assert_allclose(law.logits, expected, rtol=tolerance)
    np.testing.assert_allclose(law.probs, np.exp(expected), rtol=tolerance)
    np.testing.assert_allclose(
      law.entropy(), reference.categorical_entropy(logits, mask), rtol=tolerance, atol=tolerance
    )
    np.testing.assert_array_equal(law.mode(), np.argmax(expected, axis=-1))
    np.testing.assert_array_equal(law.mask, np.ones_like(logits, bool) if mask is None else mask)
    for action in range(5):
      # -inf where the action is illegal.
      log_prob = law.log_prob(np.full((3, 4), action))
      assert log_prob.dtype == dtype
      np.testing.assert_allclose(log_prob, expected[..., action], rtol=tolerance)


def test_half_precision_is_computed_in_float32():
  logits, mask = _policy()
  half = jnp.asarray(logits, jnp.bfloat16)
  law = distributions.Categorical(half, mask)
  rounded = np.asarray(half, np.float64)
  np.testing.assert_allclose(law.logits, reference.categorical_log_prob(rounded, mask), rtol=1e-5)
  np.testing.assert_allclose(law.entropy(), reference.categorical_entropy(rounded, mask), rtol=1e-5)


@pytest.mark.parametrize('masked', [False, True])
def test_agrees_with_distrax(masked):
  distrax = pytest.importorskip('distrax')  # Takes seconds where it brings TensorFlow along.

  logits, mask = _policy()
  mask = mask if masked else None
  ours = distributions.Categorical(logits, mask)
  with jax.numpy_rank_promotion('allow'):
    theirs = distrax.Categorical(logits if mask is None else jnp.where(mask, logits, -1e9))
    np.testing.assert_allclose(ours.probs, theirs.probs, rtol=1e-5, atol=1e-7)
    np.testing.assert_allclose(ours.entropy(), theirs.entropy(), rtol=1e-5)
    np.testing.assert_array_equal(ours.mode(), theirs.mode())
    action, log_prob = theirs.sample_and_log_prob(seed=_KEY, sample_shape=())
  np.testing.assert_allclose(ours.log_prob(action), log_prob, rtol=1e-5)
  assert ours.num_categories == theirs.num_categories
  assert ours.batch_shape == theirs.batch_shape
  assert ours.event_shape == theirs.event_shape


@pytest.mark.parametrize('masked', [False, True])
def test_samples_follow_the_probabilities(masked):
  logits, mask = _policy()
  mask = mask if masked else None
  draws, log_prob = distributions.Categorical(logits, mask).sample_and_log_prob(
    seed=_KEY, sample_shape=(_DRAWS,)
  )
  assert draws.shape == log_prob.shape == (_DRAWS, 4)
  expected = reference.categorical_log_prob(logits, mask)
  for row in range(4):
    _assert_drawn_from(draws[:, row], np.exp(expected[row]))
  np.testing.assert_allclose(log_prob, expected[np.arange(4)[None], draws], rtol=1e-5)


def test_rows_and_draws_are_independent():
  law = distributions.Categorical(np.zeros((2, 3), np.float32))
  draws = np.asarray(law.sample(seed=_KEY, sample_shape=(_DRAWS,)))
  # Two rows of one draw, and two draws of one row, must be nine pairs of the same probability.
  for a, b in ((draws[:, 0], draws[:, 1]), (draws[:-1:2, 0], draws[1::2, 0])):
    _assert_drawn_from(3 * a + b, np.full(9, 1 / 9))


def test_no_illegal_action_is_ever_drawn():
  mask = np.tile([True, False, True, False], (5, 1))
  logits = np.where(mask, np.float32(-3.0), _ANYTHING[:, None])
  law = distributions.Categorical(logits, mask)
  draws, log_prob = law.sample_and_log_prob(seed=_KEY, sample_shape=(20_000,))
  assert draws.size == 100_000
  assert set(np.unique(draws)) == {0, 2}
  np.testing.assert_allclose(log_prob, np.full((20_000, 5), -math.log(2.0)), rtol=1e-6)
  wide = distributions.Categorical(*(np.tile(x, (_DRAWS, 1, 1)) for x in (logits, mask)))
  assert set(np.unique(wide.sample_uniformly(seed=_KEY))) == {0, 2}
  np.testing.assert_array_equal(law.mode(), np.zeros(5))


def test_whatever_stands_at_illegal_actions_changes_no_bit():
  logits, mask = _policy((5,))

  @jax.jit
  def outputs(logits):
    law = distributions.Categorical(logits, mask)
    action, log_prob = law.sample_and_log_prob(seed=_KEY, sample_shape=(10,))
    entropy, vjp = jax.vjp(lambda x: distributions.Categorical(x, mask).entropy(), logits)
    gradient = vjp(jnp.ones(5))[0]
    return (
      law.probs,
      gradient,
      entropy,
      log_prob,
      action,
      law.mode(),
      law.sample_uniformly(seed=_KEY),
      law.mask,
    )

  actual = outputs(np.where(mask, logits, _ANYTHING[:, None]))
  expected = outputs(np.where(mask, logits, np.float32(0.0)))
  for a, b in zip(actual, expected, strict=True):
    assert np.all(np.isfinite(b))
    np.testing.assert_array_equal(a, b)
  for output in actual[:2]:
    np.testing.assert_array_equal(np.asarray(output)[~mask], np.zeros(np.sum(~mask)))


@pytest.mark.parametrize('lowest', [-1e30, float(np.finfo(np.float32).min)])
def test_legal_logits_may_be_as_low_as_numbers_go(lowest):
  """They are compared with each other and with nothing that stands in for illegal ones."""
  logits, mask = np.float32([lowest, lowest, 0.0, 1.0]), np.array([True, True, False, False])
  for law in (
    distributions.Categorical(logits, mask),
    distributions.Categorical(np.where(mask, logits, -np.inf)),
  ):
    np.testing.assert_allclose(law.probs, [0.5, 0.5, 0.0, 0.0], rtol=1e-6)
    assert float(law.entropy()) == pytest.approx(math.log(2.0), rel=1e-6)


def test_logits_of_minus_infinity_are_a_mask():
  logits, mask = _policy()
  law, hidden = (
    distributions.Categorical(logits, mask),
    distributions.Categorical(np.where(mask, logits, -np.inf)),
  )
  np.testing.assert_array_equal(hidden.mask, mask)
  np.testing.assert_array_equal(hidden.logits, law.logits)
  np.testing.assert_array_equal(hidden.probs, law.probs)
  np.testing.assert_array_equal(hidden.entropy(), law.entropy())
  np.testing.assert_array_equal(hidden.mode(), law.mode())
  for method in ('sample', 'sample_uniformly'):
    np.testing.assert_array_equal(getattr(hidden, method)(seed=_KEY), getattr(law, method)(seed=_KEY))
  # Where both are given an action needs both.
  both = distributions.Categorical(jnp.array([0.0, -jnp.inf, 0.0, 0.0]), jnp.array([True, True, True, False]))
  np.testing.assert_array_equal(both.mask, [True, False, True, False])
  np.testing.assert_allclose(both.probs, [0.5, 0.0, 0.5, 0.0], rtol=1e-6)


@pytest.mark.parametrize('hidden', [False, True])
def test_rows_without_legal_actions_have_no_entropy_and_no_gradient(hidden):
  logits, mask = _policy()
  mask[1] = False
  arguments = (np.where(mask, logits, -np.inf),) if hidden else (logits, mask)
  law = distributions.Categorical(*arguments)
  entropy = law.entropy()
  assert entropy[1] == 0.0
  np.testing.assert_allclose(entropy, reference.categorical_entropy(logits, mask), rtol=1e-5, atol=1e-7)
  np.testing.assert_array_equal(law.mask, mask)
  np.testing.assert_array_equal(law.probs[1], np.zeros(5))
  np.testing.assert_array_equal(law.logits[1], np.full(5, -np.inf))
  gradient = jax.grad(lambda x: jnp.sum(distributions.Categorical(x, *arguments[1:]).entropy()))(arguments[0])
  assert np.all(np.isfinite(gradient))
  np.testing.assert_array_equal(gradient[1], np.zeros(5))
  # Environments that have ended still get an action, which they ignore.
  for action in (law.mode(), law.sample(seed=_KEY), law.sample_uniformly(seed=_KEY)):
    assert np.all((action >= 0) & (action < 5))
    assert np.all(mask[np.arange(4), action] | (np.arange(4) == 1))


def test_a_single_legal_action_is_certain_exactly():
  logits, _ = _policy()
  mask = np.arange(5) == np.array([0, 4, 2, 2])[:, None]
  law = distributions.Categorical(100.0 * logits, mask)
  np.testing.assert_array_equal(law.probs, mask)
  np.testing.assert_array_equal(law.entropy(), np.zeros(4))
  np.testing.assert_array_equal(law.log_prob(law.sample(seed=_KEY)), np.zeros(4))
  np.testing.assert_array_equal(law.mode(), [0, 4, 2, 2])


def test_uniform_samples_ignore_the_logits_of_legal_actions():
  logits, mask = np.float32([50.0, -50.0, 0.0, -1e30, 99.0]), np.array([1, 1, 0, 1, 1])
  law = distributions.Categorical(np.tile(logits, (_DRAWS, 1)), np.tile(mask, (_DRAWS, 1)))
  _assert_drawn_from(law.sample_uniformly(seed=_KEY), mask / 4.0)


@pytest.mark.parametrize('dtype', [np.uint8, np.int8, np.int32])
def test_masks_may_be_whole_numbers_where_nonzero_is_legal(dtype):
  logits, mask = _policy()
  whole = np.where(mask, np.array([1, 2, -1, 3, 127]).astype(dtype), dtype(0))
  np.testing.assert_array_equal(distributions.Categorical(logits, whole).mask, mask)
  np.testing.assert_array_equal(
    distributions.Categorical(logits, jnp.asarray(whole)).probs, distributions.Categorical(logits, mask).probs
  )


@pytest.mark.parametrize('dtype', [np.float32, jnp.bfloat16])
def test_floating_masks_are_refused(dtype):
  """An additive mask, 0 or -inf, would mean the opposite."""
  with pytest.raises(TypeError, match=r'\bmask\b.*float'):
    distributions.Categorical(np.zeros((4, 2), np.float32), np.ones((4, 2), dtype))
  with pytest.raises(TypeError, match=r'\bmask\b.*float'):
    distributions.FactoredCategorical(np.zeros((4, 5), np.float32), (2, 3), np.ones((4, 5), dtype))


@pytest.mark.parametrize('top', [0.0, 200.0, 1e30])
def test_log_prob_has_a_finite_gradient_at_every_legal_action(top):
  logits = np.float32([top, 0.0, -1e4, 5.0])
  mask = np.array([True, True, True, False])
  for action in range(3):
    value, gradient = jax.value_and_grad(
      lambda x, action=action: distributions.Categorical(x, mask).log_prob(action)
    )(logits)
    assert np.isfinite(value)
    expected = (np.arange(4) == action) - np.exp(reference.categorical_log_prob(logits, mask))
    np.testing.assert_allclose(gradient, expected, atol=1e-6)
    assert gradient[3] == 0.0


def test_an_illegal_action_spoils_no_gradient():
  """Its own log-probability is -inf, but others of the batch are learned from."""
  logits, mask = _policy()
  action = np.argmax(mask, axis=-1)
  action[0] = 4

  def total(x):
    log_prob = distributions.Categorical(x, mask).log_prob(action)
    return jnp.sum(jnp.where(jnp.isneginf(log_prob), 0.0, log_prob)), log_prob

  gradient, log_prob = jax.jit(jax.grad(total, has_aux=True))(logits)
  np.testing.assert_array_equal(np.isneginf(log_prob), [True, False, False, False])
  assert np.all(np.isfinite(gradient))
  np.testing.assert_array_equal(gradient[0], np.zeros(5))


@pytest.mark.parametrize('masked', [False, True])
def test_gradients_agree_with_finite_differences(masked):
  logits, mask = _policy(seed=3, dtype=np.float64)
  action, mask = np.argmax(mask, axis=-1), mask if masked else None
  with numerics.enable_x64():

    @jax.jit
    def function(logits):
      law = distributions.Categorical(logits, mask)
      return law.entropy() + 2.0 * law.log_prob(action) + 3.0 * law.probs[..., 0]

    gradient = jax.jit(jax.grad(lambda x: jnp.sum(function(x))))(logits)
    np.testing.assert_allclose(gradient, numerics.finite_differences(function, logits), rtol=1e-6, atol=1e-8)
    assert np.any(gradient != 0.0)


@given(seed=st.integers(0, 2**31), scale=st.floats(0.0, 100.0, width=32, allow_subnormal=False))
def test_entropy_lies_between_nothing_and_that_of_uniform_choice(seed, scale):
  logits, mask = _policy(seed=seed)
  entropy = distributions.Categorical(np.float32(scale) * logits, mask).entropy()
  assert np.all(entropy >= 0.0)
  assert np.all(entropy <= np.log(mask.sum(axis=-1)) + 1e-6)
  np.testing.assert_allclose(
    distributions.Categorical(0.0 * logits, mask).entropy(), np.log(mask.sum(axis=-1)), atol=1e-6
  )


def test_sample_shape_comes_first():
  law = distributions.Categorical(*_policy((4,)))
  action, log_prob = law.sample_and_log_prob(seed=_KEY, sample_shape=(2, 3))
  assert action.shape == log_prob.shape == (2, 3, 4)
  np.testing.assert_allclose(law.log_prob(action), log_prob, rtol=1e-6)


def test_same_key_same_action():
  law = distributions.Categorical(*_policy((50,)))
  action = law.sample(seed=_KEY)
  np.testing.assert_array_equal(action, law.sample_and_log_prob(seed=_KEY)[0])
  np.testing.assert_array_equal(action, law.sample(seed=jax.random.key(0)))
  assert np.any(action != law.sample(seed=jax.random.PRNGKey(1)))
  assert np.any(law.sample_uniformly(seed=_KEY) != law.sample_uniformly(seed=jax.random.PRNGKey(1)))


def _laws():
  logits, mask = _factored(sizes=(2, 3))
  return {
    'categorical': distributions.Categorical(logits, mask),
    'factored': distributions.FactoredCategorical(logits, (2, 3), mask),
  }


every_law = pytest.mark.parametrize('name', ['categorical', 'factored'])


@every_law
def test_is_a_pytree_that_jit_and_vmap_take_and_return(name):
  """Its rows, mapped, are what they are by themselves."""
  law, keys = _laws()[name], jax.random.split(_KEY, 4)

  def outputs(law, key):
    action, log_prob = law.sample_and_log_prob(seed=key)
    numbers = log_prob, law.log_prob(action), law.entropy(), law.logits
    return law, numbers, (action, law.mode(), law.mask, law.sample_uniformly(seed=key))

  mapped_law, numbers, exact = jax.jit(jax.vmap(outputs))(law, keys)
  assert type(mapped_law) is type(law)
  assert mapped_law.batch_shape == law.batch_shape == (4,)
  assert mapped_law.event_shape == law.event_shape
  np.testing.assert_array_equal(mapped_law.logits, law.logits)
  np.testing.assert_array_equal(mapped_law.mask, law.mask)
  outputs = jax.jit(outputs)
  for index in range(4):
    row = jax.tree_util.tree_map(lambda x, index=index: x[index], law)
    row_law, row_numbers, row_exact = outputs(row, keys[index])
    assert row_law.batch_shape == ()
    for actual, expected in zip(numbers, row_numbers, strict=True):
      np.testing.assert_allclose(actual[index], expected, rtol=1e-5, atol=1e-6)
    for actual, expected in zip(exact, row_exact, strict=True):
      np.testing.assert_array_equal(actual[index], expected)


@every_law
def test_tree_functions_may_put_anything_into_it(name):
  leaves, structure = jax.tree_util.tree_flatten(_laws()[name])
  jax.tree_util.tree_unflatten(structure, [object() for _ in leaves])
  assert set(jax.tree_util.tree_leaves(jax.tree_util.tree_map(lambda _: 0, _laws()[name]))) == {0}
  # Two laws of the same kind share a structure, so that a scan may carry them.
  assert structure == jax.tree_util.tree_structure(_laws()[name])


@pytest.mark.parametrize('shape', [(4,), (2,), (1, 2), (4, 1), (3, 2), (4, 3), (1, 4, 2), (2, 4)])
def test_a_mask_of_another_shape_is_refused(shape):
  with numerics.raises_naming(mask=shape, logits=(4, 2)):
    distributions.Categorical(np.zeros((4, 2), np.float32), np.ones(shape, bool))


@pytest.mark.parametrize('shape', [(), (3,), (1,), (4, 1), (4, 3), (1, 3)])
def test_actions_of_another_shape_are_refused(shape):
  # A further axis in front is that of samples, so (2, 4) would do.
  with numerics.raises_naming(value=shape):
    distributions.Categorical(np.zeros((4, 3), np.float32)).log_prob(np.zeros(shape, np.int32))


def test_logits_without_an_action_axis_are_refused():
  with numerics.raises_naming(logits=()):
    distributions.Categorical(jnp.array(0.0))
  with numerics.raises_naming(logits=()):
    distributions.FactoredCategorical(jnp.array(0.0), (1,))


# Several choices.


def _outer(parts):
  """Returns the joint log-probabilities of independent choices [..., A_k], the last one fastest."""
  leading, sizes = parts[0].shape[:-1], [part.shape[-1] for part in parts]
  joint = np.zeros((*leading, math.prod(sizes)))
  for position, choice in enumerate(np.ndindex(*sizes)):
    for part, number in zip(parts, choice, strict=True):
      joint[..., position] += part[..., number]
  return joint


@pytest.mark.parametrize('masked', [False, True])
def test_joint_law_is_the_product_of_the_factors(masked):
  logits, mask = _factored(dtype=np.float64)
  masks = _split(mask) if masked else [None] * 4
  log_probs = [reference.categorical_log_prob(x, m) for x, m in zip(_split(logits), masks, strict=True)]
  joint = _outer(log_probs)
  actions = np.array(list(np.ndindex(*_SIZES)), np.int32)
  with numerics.enable_x64():

    @jax.jit
    def outputs(logits):
      law = distributions.FactoredCategorical(logits, _SIZES, mask if masked else None)
      log_prob = law.log_prob(jnp.broadcast_to(actions[:, None], (54, 4, 4)))
      entropies = [law.entropy(), sum(factor.entropy() for factor in law.factors)]
      entropies += [
        distributions.Categorical(law.logits).entropy(),
        distributions.Categorical(law.logits, law.mask).entropy(),
      ]
      return law, [factor.logits for factor in law.factors], law.logits, law.mask, log_prob, entropies

    law, factor_logits, joint_logits, joint_mask, log_prob, entropies = outputs(logits)
  assert all(isinstance(factor, distributions.Categorical) for factor in law.factors)
  for actual, expected in zip(factor_logits, log_probs, strict=True):
    np.testing.assert_allclose(actual, expected, rtol=1e-12)
  np.testing.assert_allclose(joint_logits, joint, rtol=1e-12)
  np.testing.assert_array_equal(joint_mask, np.isfinite(joint))
  np.testing.assert_allclose(log_prob, joint.T, rtol=1e-12)
  expected = -np.sum(np.exp(joint) * np.where(joint_mask, joint, 0.0), axis=-1)
  for entropy in entropies:
    np.testing.assert_allclose(entropy, expected, rtol=1e-12)


def test_index_counts_the_last_factor_fastest():
  law = distributions.FactoredCategorical(np.zeros((54, 11), np.float32), _SIZES)
  actions = np.array(list(np.ndindex(*_SIZES)), np.int32)
  np.testing.assert_array_equal(law.index(actions), np.arange(54))
  np.testing.assert_array_equal(law.index(actions), np.ravel_multi_index(actions.T, _SIZES))
  np.testing.assert_array_equal(jax.jit(law.index)(actions), np.arange(54))
  assert jnp.issubdtype(law.index(actions).dtype, jnp.integer)
  # Narrow integers, as replay may hold them, don't overflow.
  wide = distributions.FactoredCategorical(np.zeros(600, np.float32), (300, 300))
  assert int(wide.index(np.array([100, 99], np.int8))) == 30_099


def test_factored_samples_follow_the_joint_law():
  sizes, mask = (3, 2, 4), np.array([1, 0, 1, 1, 1, 1, 0, 1, 1], bool)
  logits = 0.5 * _factored((), sizes, seed=5)[0]
  law = distributions.FactoredCategorical(logits, sizes, mask)
  action, log_prob = law.sample_and_log_prob(seed=_KEY, sample_shape=(_DRAWS,))
  assert action.shape == (_DRAWS, 3)
  assert action.dtype == jnp.int32
  parts = zip(_split(logits, sizes), _split(mask, sizes), strict=True)
  joint = _outer([reference.categorical_log_prob(x, m) for x, m in parts])
  index = np.ravel_multi_index(np.asarray(action).T, sizes)
  _assert_drawn_from(index, np.exp(joint))
  np.testing.assert_allclose(log_prob, joint[index], rtol=1e-5)
  np.testing.assert_allclose(law.log_prob(action), log_prob, rtol=1e-6)
  assert np.ravel_multi_index(np.asarray(law.mode()), sizes) == np.argmax(joint)


def test_equal_factors_do_not_share_their_draw():
  law = distributions.FactoredCategorical(np.zeros((_DRAWS, 6), np.float32), (2, 2, 2))
  for action in (law.sample(seed=_KEY), law.sample_uniformly(seed=_KEY)):
    _assert_drawn_from(np.ravel_multi_index(np.asarray(action).T, (2, 2, 2)), np.full(8, 1 / 8))


def test_factored_uniform_samples_are_uniform_over_the_legal_joint_actions():
  sizes, mask = (3, 2, 4), np.array([1, 0, 1, 1, 1, 1, 0, 1, 1], bool)
  logits = np.where(mask, np.float32([9, 0, -9, 5, 0, 0, 0, -50, 50]), np.float32(1e30))
  law = distributions.FactoredCategorical(np.tile(logits, (_DRAWS, 1)), sizes, np.tile(mask, (_DRAWS, 1)))
  action = law.sample_uniformly(seed=_KEY)
  assert action.shape == (_DRAWS, 3)
  assert action.dtype == jnp.int32
  joint = np.exp(_outer([np.where(m, -np.log(m.sum()), -np.inf) for m in _split(mask, sizes)]))
  _assert_drawn_from(np.ravel_multi_index(np.asarray(action).T, sizes), joint)


def test_no_illegal_choice_is_ever_drawn_in_any_factor():
  sizes, mask = (3, 2, 4), np.tile([True, False, True, False, True, True, False, True, True], (5, 1))
  logits = np.where(mask, np.float32(0.0), _ANYTHING[:, None])

  @jax.jit
  def outputs(logits):
    law = distributions.FactoredCategorical(logits, sizes, mask)
    entropy, vjp = jax.vjp(lambda x: distributions.FactoredCategorical(x, sizes, mask).entropy(), logits)
    return law.sample(seed=_KEY, sample_shape=(20_000,)), law.mode(), entropy, vjp(jnp.ones(5))[0]

  draws, mode, entropy, gradient = outputs(logits)
  assert draws.shape == (20_000, 5, 3)
  for factor, legal in enumerate(({0, 2}, {1}, {0, 2, 3})):
    assert set(np.unique(draws[..., factor])) == legal
  np.testing.assert_array_equal(mode, np.tile([0, 1, 0], (5, 1)))
  np.testing.assert_allclose(entropy, np.full(5, math.log(6.0)), rtol=1e-6)
  np.testing.assert_allclose(gradient, np.zeros((5, 9)), atol=1e-6)
  np.testing.assert_array_equal(gradient[~mask], np.zeros(np.sum(~mask)))


def test_a_factored_row_without_legal_actions_has_no_entropy_and_no_gradient():
  """No joint action is legal where a single factor has no legal choice."""
  logits, mask = _factored(sizes=(2, 3))
  _split(mask, (2, 3))[1][1] = False
  mask[3] = False

  @jax.jit
  def outputs(logits):
    law = distributions.FactoredCategorical(logits, (2, 3), mask)
    entropy, vjp = jax.vjp(lambda x: distributions.FactoredCategorical(x, (2, 3), mask).entropy(), logits)
    actions = law.mode(), law.sample(seed=_KEY), law.sample_uniformly(seed=_KEY)
    return entropy, vjp(jnp.ones(4))[0], law.mask, distributions.Categorical(law.logits).entropy(), actions

  entropy, gradient, joint_mask, joint_entropy, actions = outputs(logits)
  assert np.any(mask[1])
  np.testing.assert_array_equal(np.any(joint_mask, axis=-1), [True, False, True, False])
  np.testing.assert_allclose(entropy, joint_entropy, rtol=1e-5, atol=1e-7)
  assert np.all(np.isfinite(gradient))
  for row in (1, 3):
    assert entropy[row] == joint_entropy[row] == 0.0
    np.testing.assert_array_equal(gradient[row], np.zeros(5))
  for action in actions:
    assert np.all((action >= 0) & (action < np.array([[2, 3]])))


def test_joint_law_serves_the_losses():
  """Losses over the joint actions are those over a table of q with one column for each."""
  sizes = (2, 3)
  logits, mask = _factored((2,), sizes, dtype=np.float64)
  q = np.random.default_rng(1).normal(size=(2, 2, 6))
  with numerics.enable_x64():

    @jax.jit
    def loss(logits):
      law = distributions.FactoredCategorical(logits, sizes, mask)
      return sb.categorical_actor_loss(law.logits, q, 0.3, law.mask)[0]

    gradient = jax.jit(jax.grad(lambda x: jnp.sum(loss(x))))(logits)
    np.testing.assert_allclose(gradient, numerics.finite_differences(loss, logits), rtol=1e-6, atol=1e-8)
    assert np.all(gradient[~mask] == 0.0)
    assert np.any(gradient != 0.0)
    parts = zip(_split(logits, sizes), _split(mask, sizes), strict=True)
    joint = _outer([reference.categorical_log_prob(x, m) for x, m in parts])
    np.testing.assert_allclose(loss(logits), reference.categorical_actor_loss(joint, q, 0.3)[0], rtol=1e-12)


def test_one_factor_is_a_categorical():
  logits, mask = _policy()
  one, law = distributions.FactoredCategorical(logits, (5,), mask), distributions.Categorical(logits, mask)
  np.testing.assert_allclose(one.logits, law.logits, rtol=1e-6)
  np.testing.assert_array_equal(one.mask, law.mask)
  np.testing.assert_allclose(one.entropy(), law.entropy(), rtol=1e-6)
  np.testing.assert_array_equal(one.mode(), law.mode()[:, None])
  assert one.sample(seed=_KEY).shape == (4, 1)


@pytest.mark.parametrize('sizes', [(2, 2), (5, 1), (3, 4), (7,), ()])
def test_sizes_that_do_not_add_up_are_refused(sizes):
  with pytest.raises(ValueError, match=r'sizes') as error:
    distributions.FactoredCategorical(np.zeros((4, 5), np.float32), sizes)
  assert str(sizes) in str(error.value)
  assert re.search(r'\b5\b', str(error.value))


@pytest.mark.parametrize('sizes', [(5, 0), (6, -1), (0, 2, 3)])
def test_factors_without_choices_are_refused(sizes):
  with pytest.raises(ValueError, match=r'sizes'):
    distributions.FactoredCategorical(np.zeros((4, 5), np.float32), sizes)


@pytest.mark.parametrize('shape', [(4,), (5,), (1, 5), (4, 1), (4, 6), (1, 4, 5)])
def test_a_factored_mask_of_another_shape_is_refused(shape):
  with numerics.raises_naming(mask=shape, logits=(4, 5)):
    distributions.FactoredCategorical(np.zeros((4, 5), np.float32), (2, 3), np.ones(shape, bool))


@pytest.mark.parametrize('shape', [(4,), (4, 1), (4, 3), (2,), (1, 2), (3, 2)])
def test_factored_actions_of_another_shape_are_refused(shape):
  law = distributions.FactoredCategorical(np.zeros((4, 5), np.float32), (2, 3))
  with numerics.raises_naming(value=shape):
    law.log_prob(np.zeros(shape, np.int32))
