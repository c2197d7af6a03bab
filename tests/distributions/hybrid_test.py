"""Tests of the law of a choice together with a continuous action."""

from __future__ import annotations

import functools
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import sac_blocks as sb
from sac_blocks import distributions
from tests import numerics
from tests.references import soft_actor_critic as reference

_KEY = jax.random.PRNGKey(0)
_DRAWS = 20_000

with_and_without_sharing = pytest.mark.parametrize('shared', [False, True], ids=['per_branch', 'shared'])


def _parts(leading=(4,), branches=3, size=2, *, shared=False, seed=0):
  """Returns logits, a mask with a legal branch in each row, loc and scale."""
  rng = np.random.default_rng(seed)
  logits = rng.normal(size=(*leading, branches)).astype(np.float32)
  always = np.arange(branches) == rng.integers(0, branches, leading)[..., None]
  mask = always | (rng.uniform(size=logits.shape) < 0.5)
  event = (size,) if shared else (branches, size)
  loc = 0.5 * rng.normal(size=(*leading, *event)).astype(np.float32)
  scale = rng.uniform(0.3, 1.5, size=loc.shape).astype(np.float32)
  return logits, mask, loc, scale


def _law(logits, mask, loc, scale):
  return distributions.Hybrid(distributions.Categorical(logits, mask), distributions.TanhGaussian(loc, scale))


def _log_prob(action, logits, mask, loc, scale):
  """log p_k + log pi(x | k) in float64, from actions that aren't at the bounds."""
  choice, x = (np.asarray(action[part]) for part in ('discrete', 'continuous'))
  log_p = np.take_along_axis(reference.categorical_log_prob(logits, mask), choice[..., None], -1)[..., 0]
  if loc.ndim == logits.ndim + 1:
    loc, scale = (np.take_along_axis(y, choice[..., None, None], -2)[..., 0, :] for y in (loc, scale))
  return log_p + reference.tanh_gaussian_log_density(np.arctanh(x.astype(np.float64)), loc, scale)


def _draw(law, number=_DRAWS):
  """Returns actions and log-probabilities of independent draws, with a new first axis."""
  keys = jax.random.split(_KEY, number)
  return jax.jit(jax.vmap(lambda key: law.sample_and_log_prob(seed=key)))(keys)


@pytest.mark.parametrize('leading', [(), (1,), (2, 4)])
@pytest.mark.parametrize('branches', [1, 3])
@with_and_without_sharing
def test_shapes_and_dtypes(leading, branches, shared):
  law = _law(*_parts(leading, branches, shared=shared))
  assert law.shared == shared

  def outputs(law):
    draws = law.sample_and_log_prob(seed=_KEY), law.sample_branches(seed=_KEY)
    return *draws, law.mode(), law.sample_uniformly(seed=_KEY)

  (action, log_prob), (x, log_probs), mode, uniform = jax.eval_shape(outputs, law)
  for one in (action, mode, uniform):
    assert sorted(one) == ['continuous', 'discrete']
    assert one['discrete'].shape == leading
    assert one['discrete'].dtype == jnp.int32
    assert one['continuous'].shape == (*leading, 2)
    assert one['continuous'].dtype == jnp.float32
  assert log_prob.shape == leading
  assert x.shape == (*leading, branches, 2)
  assert log_probs.shape == (*leading, branches)


@with_and_without_sharing
def test_log_prob_is_that_of_both_parts_together(shared):
  parts = _parts((200,), shared=shared)
  action, log_prob = _law(*parts).sample_and_log_prob(seed=_KEY)
  np.testing.assert_allclose(log_prob, _log_prob(action, *parts), rtol=1e-4, atol=1e-4)
  assert len(np.unique(np.asarray(action['discrete']))) == 3


@with_and_without_sharing
def test_log_prob_integrates_to_one_over_the_legal_branches_and_the_box(shared):
  """E[1 / pi] is the volume of the support: two legal branches of three, times 2 for one dimension."""
  loc = np.float32([0.2]) if shared else np.float32([[0.2], [-0.3], [0.0]])
  law = _law(np.float32([0.4, 9.0, -0.2]), np.array([True, False, True]), loc, np.full_like(loc, 0.9))
  inverse = np.exp(-np.asarray(_draw(law)[1], np.float64))
  assert np.mean(inverse) == pytest.approx(2 * 2.0, abs=5 * np.std(inverse) / math.sqrt(_DRAWS))
  assert np.std(inverse) < 5.0


@with_and_without_sharing
def test_samples_follow_the_choice_and_then_its_own_gaussian(shared):
  logits, mask = np.float32([0.5, 0.0, 9.0, -0.5]), np.array([True, True, False, True])
  loc = np.float32([0.3]) if shared else np.float32([[-0.8], [0.1], [5.0], [0.9]])
  law = _law(logits, mask, loc, np.full_like(loc, 0.5))
  action, _ = _draw(law)
  choice, u = np.asarray(action['discrete']), np.arctanh(np.asarray(action['continuous'], np.float64))[:, 0]
  probs = np.exp(reference.categorical_log_prob(logits, mask))
  frequency = np.bincount(choice, minlength=4) / _DRAWS
  assert frequency[2] == 0.0
  np.testing.assert_allclose(frequency, probs, atol=5 * 0.5 / math.sqrt(_DRAWS))
  for branch in (0, 1, 3):
    own = u[choice == branch]
    error = 5 * 0.5 / math.sqrt(len(own))
    assert np.mean(own) == pytest.approx(loc.ravel()[0 if shared else branch], abs=error)
    assert np.std(own) == pytest.approx(0.5, abs=error)


def test_every_branch_is_sampled_from_its_own_gaussian_with_noise_of_its_own():
  logits, mask, loc, scale = _parts((_DRAWS,), branches=3, size=1)
  loc[:], scale[:] = np.float32([[-1.0], [0.0], [0.5]]), np.float32([[0.3], [0.6], [0.9]])
  mask = np.ones_like(mask)
  x, log_prob = _law(logits, mask, loc, scale).sample_branches(seed=_KEY)
  u = np.arctanh(np.asarray(x, np.float64))
  np.testing.assert_allclose(u.mean(axis=0), loc[0], atol=5 * 0.9 / math.sqrt(_DRAWS))
  np.testing.assert_allclose(u.std(axis=0), scale[0], rtol=0.03)
  assert np.abs(np.corrcoef(u[..., 0].T)[np.triu_indices(3, 1)]).max() < 5 / math.sqrt(_DRAWS)
  expected = reference.tanh_gaussian_log_density(u[:100], loc[:100], scale[:100])
  np.testing.assert_allclose(log_prob[:100], expected, rtol=1e-3, atol=1e-3)


def test_branches_that_share_a_gaussian_have_one_sample():
  logits, mask, loc, scale = _parts(shared=True)
  x, log_prob = _law(logits, np.ones_like(mask), loc, scale).sample_branches(seed=_KEY)
  alone, alone_log_prob = distributions.TanhGaussian(loc, scale).sample_and_log_prob(seed=_KEY)
  np.testing.assert_array_equal(x, np.repeat(alone[:, None], 3, axis=1))
  np.testing.assert_array_equal(log_prob, np.repeat(alone_log_prob[:, None], 3, axis=1))


@with_and_without_sharing
def test_mode_is_the_most_probable_legal_branch_and_tanh_of_its_mean(shared):
  logits = np.float32([[1.0, 3.0, 2.0], [1.0, 3.0, 2.0]])
  mask = np.array([[True, True, True], [True, False, True]])
  loc = np.float32([[0.1], [0.2]]) if shared else np.arange(6, dtype=np.float32).reshape(2, 3, 1) / 10
  mode = _law(logits, mask, loc, np.ones_like(loc)).mode()
  np.testing.assert_array_equal(mode['discrete'], [1, 2])
  expected = [[0.1], [0.2]] if shared else [[0.1], [0.5]]
  np.testing.assert_allclose(mode['continuous'], np.tanh(expected), rtol=1e-6)


@with_and_without_sharing
def test_uniform_samples_know_nothing_of_the_policy_but_the_mask(shared):
  loc = np.full((_DRAWS, 1) if shared else (_DRAWS, 3, 1), 3.0, np.float32)
  logits, mask = np.float32([9.0, 99.0, -9.0]), np.array([True, False, True])
  law = _law(*(np.tile(x, (_DRAWS, 1)) for x in (logits, mask)), loc, np.full_like(loc, 0.01))
  action = jax.tree_util.tree_map(np.asarray, law.sample_uniformly(seed=_KEY))
  frequency = np.bincount(action['discrete'], minlength=3) / _DRAWS
  np.testing.assert_allclose(frequency, [0.5, 0.0, 0.5], atol=2.5 / math.sqrt(_DRAWS))
  assert frequency[1] == 0.0
  for branch in (0, 2):
    x = np.sort(action['continuous'][action['discrete'] == branch, 0])
    # Kolmogorov's bound at a level of 1e-4.
    assert np.abs((x + 1.0) / 2.0 - np.linspace(0.0, 1.0, len(x))).max() < 2.23 / math.sqrt(len(x))


# Illegal branches.


def _loss(gaussians, logits, mask, slope):
  """The actor's loss with a critic that is linear in x, steep without bounds in illegal branches."""
  law = _law(logits, mask, *gaussians)
  x, log_prob = law.sample_branches(seed=_KEY)
  q = jnp.sum(x * slope, axis=-1)[None]
  losses, _ = sb.hybrid_actor_loss(law.categorical.logits, log_prob, q, 0.3, 0.2)
  return jnp.sum(losses), losses


@with_and_without_sharing
def test_whatever_stands_in_illegal_branches_changes_no_bit(shared):
  logits, mask, loc, scale = _parts((5,), shared=shared)
  # A row of its own for a state without any legal branch.
  mask[4] = False
  legal = mask.any(axis=-1) if shared else mask
  gradient = jax.jit(jax.value_and_grad(_loss, has_aux=True))
  slope = np.ones((5, 3, 2), np.float32)
  clean = np.where(legal[..., None], loc, np.float32(0.0)), np.where(legal[..., None], scale, np.float32(1.0))
  expected = gradient(clean, np.where(mask, logits, np.float32(0.0)), mask, slope)
  assert np.all(np.isfinite(expected[0][1]))
  for fill in (math.nan, math.inf, -math.inf, 1e30):
    loc, scale = (np.where(legal[..., None], x, np.float32(abs(fill))) for x in clean)
    actual = gradient(
      (loc, scale),
      np.where(mask, logits, np.float32(fill)),
      mask,
      np.where(mask[..., None], slope, np.float32(fill)),
    )
    for a, b in zip(*map(jax.tree_util.tree_leaves, (actual, expected)), strict=True):
      np.testing.assert_array_equal(a, b)
  (_, losses), (by_loc, by_scale) = actual
  assert losses[4] == 0.0
  for by_gaussians in (by_loc, by_scale):
    assert np.all(by_gaussians[~legal] == 0.0)
    assert np.all(by_gaussians[legal] != 0.0)


# As a pytree.


@with_and_without_sharing
def test_goes_through_jit_and_vmap(shared):
  law, keys = _law(*_parts(shared=shared)), jax.random.split(_KEY, 4)

  def outputs(law, key):
    action, log_prob = law.sample_and_log_prob(seed=key)
    return action, log_prob, law.sample_branches(seed=key), law.mode(), law.sample_uniformly(seed=key)

  together, outputs = jax.jit(jax.vmap(outputs))(law, keys), jax.jit(outputs)
  for i in range(4):
    row = functools.partial(jax.tree_util.tree_map, lambda x, i=i: x[i])
    alone = outputs(row(law), keys[i])
    for a, b in zip(*map(jax.tree_util.tree_leaves, (row(together), alone)), strict=True):
      np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6)
  returned = jax.jit(lambda law: law)(law)
  assert type(returned) is distributions.Hybrid
  assert returned.shared == shared


def test_tree_functions_may_put_anything_into_it():
  leaves, structure = jax.tree_util.tree_flatten(_law(*_parts()))
  jax.tree_util.tree_unflatten(structure, [object() for _ in leaves])
  assert structure == jax.tree_util.tree_structure(_law(*_parts()))


def test_same_key_same_action():
  law = _law(*_parts((50,)))
  first, again, other = (law.sample_and_log_prob(seed=jax.random.PRNGKey(i))[0] for i in (0, 0, 1))
  for part in ('discrete', 'continuous'):
    np.testing.assert_array_equal(first[part], again[part])
    assert np.any(first[part] != other[part])


@pytest.mark.parametrize(
  'shape', [(2,), (3, 2), (4, 1, 2), (4, 2, 3), (1, 3, 2), (1, 2), (3, 4, 2), (4, 4, 3, 2)]
)
def test_gaussians_of_another_shape_are_refused(shape):
  loc = np.zeros(shape, np.float32)
  with numerics.raises_naming(loc=shape, logits=(4, 3)):
    distributions.Hybrid(
      distributions.Categorical(np.zeros((4, 3), np.float32)),
      distributions.TanhGaussian(loc, np.ones_like(loc)),
    )
