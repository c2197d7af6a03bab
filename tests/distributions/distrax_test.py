"""Policies are distrax distributions, and distrax distributions are policies."""

from __future__ import annotations

from typing import Any

import chex
import distrax
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import rlax
from absl.testing import parameterized
from tensorflow_probability.substrates import jax as tfp

from sac_blocks import types
from sac_blocks.distributions import Categorical, FactoredCategorical, Hybrid, TanhGaussian
from tests import numerics

_KEY = jax.random.PRNGKey(0)
_MASK = np.array([[1, 1, 1, 0, 1], [0, 1, 1, 1, 1], [1, 0, 1, 1, 0], [1, 1, 1, 1, 1]], bool)


@pytest.fixture(autouse=True)
def strict_ranks():
  """Overrides the strictness that holds for our own arithmetic: that of distrax promotes ranks."""


def _arrays(seed: int, *shape: int) -> np.ndarray:
  return np.random.default_rng(seed).normal(size=shape).astype(np.float32)


def _gaussian(seed: int = 0, *leading: int) -> TanhGaussian:
  shape = (*(leading or (4,)), 2)
  return TanhGaussian(_arrays(seed, *shape), np.exp(0.3 * _arrays(seed + 100, *shape)))


def _ours(seed: int = 0) -> dict[str, Any]:
  choice = Categorical(_arrays(seed, 4, 5), _MASK)
  return {
    'tanh_gaussian': _gaussian(seed),
    'categorical': choice,
    'factored': FactoredCategorical(_arrays(seed, 4, 5), (3, 2), _MASK),
    'hybrid': Hybrid(choice, _gaussian(seed, 4, 5)),
    'hybrid_shared': Hybrid(choice, _gaussian(seed)),
  }


def _theirs(seed: int = 0) -> dict[str, Any]:
  # Not so wide that tanh rounds to 1, where distrax has no log-probability of its own samples.
  loc, scale = 0.5 * _arrays(seed, 4, 2), 0.5 * np.exp(0.3 * _arrays(seed + 100, 4, 2))
  normal = distrax.MultivariateNormalDiag(loc, scale)
  return {
    'independent': distrax.Independent(distrax.Normal(loc, scale), 1),
    'transformed': distrax.Transformed(normal, distrax.Block(distrax.Tanh(), 1)),
    'multivariate': normal,
    'categorical_of_distrax': distrax.Categorical(_arrays(seed, 4, 5)),
  }


_LAWS = {**_ours(), **_theirs()}
every_law = pytest.mark.parametrize('name', _LAWS)
every_law_of_ours = pytest.mark.parametrize('name', _ours())


def _members(protocol: Any) -> set[str]:
  bases = (base for base in protocol.__mro__ if base.__module__ == types.__name__)
  return {name for base in bases for name in vars(base) if not name.startswith('_')}


# What a distribution has to offer, theirs as well as ours.


@every_law
def test_is_a_distribution_as_the_types_ask(name):
  law = _LAWS[name]
  assert isinstance(law, distrax.Distribution)
  discrete = 'categorical' in name or name == 'factored'
  members = _members(types.DiscreteDistribution if discrete else types.Distribution)
  assert {'sample_and_log_prob', 'mode'} <= members
  assert all(hasattr(law, member) for member in members)
  action, log_prob = law.sample_and_log_prob(seed=_KEY)
  assert law.batch_shape == log_prob.shape == (4,)
  shapes = jax.tree_util.tree_map(lambda x: x.shape[1:], action)
  assert shapes == law.event_shape
  if name != 'transformed':  # Its mode is undefined in distrax.
    mode = law.mode()
    assert jax.tree_util.tree_map(jnp.shape, mode) == jax.tree_util.tree_map(jnp.shape, action)
  if discrete:
    assert law.logits.shape == (4, 6 if name == 'factored' else 5)


@every_law
def test_samples_have_the_shape_and_the_log_probability_of_their_law(name):
  law = _LAWS[name]
  action, log_prob = law.sample_and_log_prob(seed=_KEY, sample_shape=(3, 2))
  chex.assert_shape(log_prob, (3, 2, 4))
  chex.assert_tree_shape_prefix(action, (3, 2, 4))
  chex.assert_trees_all_equal(action, law.sample(seed=_KEY, sample_shape=(3, 2)))
  chex.assert_trees_all_close(law.log_prob(action), log_prob, rtol=1e-3, atol=1e-3)
  chex.assert_trees_all_close(law.prob(action), jnp.exp(log_prob), rtol=1e-3, atol=1e-3)
  chex.assert_trees_all_equal_dtypes(
    action, jax.tree_util.tree_map(lambda dtype: np.zeros((), dtype), law.dtype)
  )
  chex.assert_trees_all_equal(law.sample(seed=0, sample_shape=3), law.sample(seed=_KEY, sample_shape=(3,)))


@every_law
def test_jit_takes_and_returns_it(name):
  def function(law: Any, other: Any) -> tuple[Any, Any]:
    return law, (law.kl_divergence(other), law.sample_and_log_prob(seed=_KEY))

  law, other = _LAWS[name], {**_ours(1), **_theirs(1)}[name]
  returned, results = jax.jit(function)(law, other)
  assert type(returned) is type(law)
  chex.assert_trees_all_close(results, function(law, other)[1], rtol=1e-5, atol=1e-5)
  chex.assert_trees_all_close(returned.sample(seed=_KEY), law.sample(seed=_KEY), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize('name', ['tanh_gaussian', 'categorical', 'factored', *_theirs()])
def test_rlax_distils_it(name):
  """The loss of distilling a policy into itself is its cross-entropy, about its entropy."""
  law = _LAWS[name]
  targets = rlax.constant_policy_targets(law, _KEY, 2000)
  loss = jax.jit(rlax.sampled_policy_distillation_loss)(law, targets)
  if name != 'transformed':
    np.testing.assert_allclose(loss, jnp.mean(law.entropy()), rtol=0.1, atol=0.1)
  assert np.isfinite(loss)


# Rows of a batch, and laws inside of others.


@every_law_of_ours
def test_an_index_picks_rows(name):
  law = _LAWS[name]
  for index in (1, slice(1, 3), (Ellipsis, -1), np.array([2, 0]), np.array([True, False, True, False])):
    rows = law[index]
    assert type(rows) is type(law)
    chex.assert_trees_all_close(rows.entropy(), law.entropy()[index], rtol=1e-5)
    assert rows.event_shape == law.event_shape
  assert len(list(law)) == 4
  for index in (4, (0, 0)):
    with pytest.raises(IndexError):
      law[index]
  with pytest.raises(IndexError):
    law[0][0]


def test_other_distributions_hold_ours():
  laws = _ours()
  independent = distrax.Independent(laws['categorical'], 1)
  other = distrax.Independent(_ours(1)['categorical'], 1)
  assert independent.batch_shape == ()
  np.testing.assert_allclose(independent.entropy(), jnp.sum(laws['categorical'].entropy()), rtol=1e-5)
  expected = jnp.sum(laws['categorical'].kl_divergence(_ours(1)['categorical']))
  np.testing.assert_allclose(independent.kl_divergence(other), expected, rtol=1e-5)
  components = distrax.MultivariateNormalDiag(jnp.zeros((4, 5, 2)), jnp.ones((4, 5, 2)))
  mixture = distrax.MixtureSameFamily(laws['categorical'], components)
  assert np.all(np.isfinite(mixture.log_prob(jnp.zeros((4, 2)))))


def test_a_shared_hybrid_is_a_joint_of_distrax():
  laws = _ours()
  parts = {'discrete': laws['categorical'], 'continuous': laws['tanh_gaussian']}
  ours, theirs = laws['hybrid_shared'], distrax.Joint(parts)
  other = distrax.Joint({'discrete': _ours(1)['categorical'], 'continuous': _ours(1)['tanh_gaussian']})
  action = ours.sample(seed=_KEY, sample_shape=(3,))
  assert (ours.event_shape, ours.batch_shape) == (theirs.event_shape, theirs.batch_shape)
  assert ours.dtype == theirs.dtype
  chex.assert_trees_all_close(ours.log_prob(action), theirs.log_prob(action), rtol=1e-5)
  chex.assert_trees_all_close(ours.entropy(), theirs.entropy(), rtol=1e-5)
  divergences = ours.kl_divergence(_ours(1)['hybrid_shared']), theirs.kl_divergence(other)
  chex.assert_trees_all_close(*divergences, rtol=1e-5)


# Divergences.


class DivergencesTest(chex.TestCase):
  @chex.variants(with_jit=True, without_jit=True)
  @parameterized.parameters(*_ours())
  def test_is_the_mean_of_the_difference_of_log_probabilities(self, name):
    p, q = _ours()[name], _ours(1)[name]
    action, log_prob = p.sample_and_log_prob(seed=_KEY, sample_shape=(20_000,))
    difference = log_prob - q.log_prob(action)
    kl = self.variant(lambda p, q: p.kl_divergence(q))(p, q)
    chex.assert_shape(kl, (4,))
    error = 5.0 * np.std(difference, axis=0) / np.sqrt(20_000) + 1e-3
    assert np.all(np.abs(kl - jnp.mean(difference, axis=0)) < error)

  @chex.variants(with_jit=True, without_jit=True)
  @parameterized.parameters(*_ours())
  def test_is_zero_to_itself(self, name):
    kl = self.variant(lambda p: p.kl_divergence(_ours()[name]))(_ours()[name])
    np.testing.assert_allclose(kl, jnp.zeros(4), atol=1e-5)


def test_that_of_tanh_gaussians_is_that_of_the_gaussians():
  p, q = _gaussian(0), _gaussian(1)
  normals = [distrax.MultivariateNormalDiag(law.loc, law.scale) for law in (p, q)]
  expected = normals[0].kl_divergence(normals[1])
  chex.assert_trees_all_close(p.kl_divergence(q), expected, rtol=1e-5)
  block = distrax.Block(distrax.Tanh(), 1)
  theirs = [distrax.Transformed(normal, block) for normal in normals]
  chex.assert_trees_all_close(p.kl_divergence(theirs[1]), expected, rtol=1e-5)
  chex.assert_trees_all_close(theirs[0].kl_divergence(q), expected, rtol=1e-5)
  prior = TanhGaussian(np.zeros(2, np.float32), np.ones(2, np.float32))
  chex.assert_trees_all_close(p.kl_divergence(prior)[2], p[2].kl_divergence(prior), rtol=1e-5)


@pytest.mark.parametrize('make', [distrax.Categorical, tfp.distributions.Categorical])
def test_that_of_categoricals_goes_to_and_from_others(make):
  p, q = Categorical(_arrays(0, 4, 5), _MASK), Categorical(_arrays(1, 4, 5), _MASK)
  expected = p.kl_divergence(q)
  for pair in ((p, make(logits=q.logits)), (make(logits=p.logits), q)):
    actual = tfp.distributions.kl_divergence(*pair)
    chex.assert_trees_all_close(actual, expected, rtol=1e-5)
  # Unmasked it is theirs, both ways.
  laws = [_arrays(seed, 4, 5) for seed in (0, 1)]
  theirs = distrax.Categorical(laws[0]).kl_divergence(distrax.Categorical(laws[1]))
  chex.assert_trees_all_close(Categorical(laws[0]).kl_divergence(Categorical(laws[1])), theirs, rtol=1e-4)


@pytest.mark.parametrize('factored', [False, True])
def test_illegal_actions_cost_nothing_and_have_no_slope(factored):
  """Whatever their logits are, and also where one of the laws has no legal action at all."""

  def make(logits: Any, mask: Any) -> Any:
    return FactoredCategorical(logits, (3, 2), mask) if factored else Categorical(logits, mask)

  logits, other = _arrays(0, 4, 5), _arrays(1, 4, 5)
  logits[~_MASK], other[~_MASK] = np.nan, np.inf
  mask = _MASK.copy()
  mask[3] = False

  def kl(logits: Any, other: Any) -> Any:
    return make(logits, mask).kl_divergence(make(other, _MASK))

  expected = kl(np.where(_MASK, logits, 7.0), np.where(_MASK, other, -7.0))
  np.testing.assert_array_equal(kl(logits, other), expected)
  assert np.all(expected[:3] > 0.0)
  assert expected[3] == 0.0
  for slope in jax.grad(lambda *x: jnp.sum(kl(*x)), argnums=(0, 1))(logits, other):
    assert np.all(np.isfinite(slope))
    assert np.all(slope[~mask] == 0.0)
    assert np.any(slope[0] != 0.0)


@pytest.mark.parametrize('factored', [False, True])
def test_what_the_other_forbids_is_infinitely_far(factored):
  def make(logits: Any, mask: Any) -> Any:
    return FactoredCategorical(logits, (3,), mask) if factored else Categorical(logits, mask)

  logits, mask = jnp.array([[0.0, 1.0, 2.0], [0.0, 1.0, -1000.0]]), jnp.array([[True, True, False]] * 2)

  def kl(logits: Any, other: Any) -> Any:
    return make(logits, None).kl_divergence(make(other, mask))

  # In the second row the probability of the action is 0 to rounding.
  np.testing.assert_allclose(kl(logits, logits), [np.inf, 0.0], atol=1e-6)
  for slope in jax.grad(lambda *x: jnp.sum(kl(*x)), argnums=(0, 1))(logits, logits):
    assert np.all(np.isfinite(slope))


def test_the_slopes_of_divergences_are_those_of_finite_differences():
  mask = _MASK[:2]
  with numerics.enable_x64():
    laws = [
      lambda x: Categorical(x, mask),
      lambda x: FactoredCategorical(x, (3, 2), mask),
      lambda x: TanhGaussian(x, jnp.exp(x / 2.0)),
      lambda x: Hybrid(Categorical(x, mask), TanhGaussian(x[..., None], jnp.exp(x / 3.0)[..., None])),
    ]
    x, y = _arrays(0, 2, 5).astype(np.float64), _arrays(1, 2, 5).astype(np.float64)
    for law in laws:
      for argument in (0, 1):

        def kl(z: Any, law: Any = law, argument: int = argument) -> Any:
          return jnp.sum(law(z if argument == 0 else x).kl_divergence(law(z if argument == 1 else y)))

        z = (x, y)[argument]
        np.testing.assert_allclose(
          jax.grad(kl)(jnp.asarray(z)), numerics.finite_differences(kl, z), rtol=1e-5, atol=1e-7
        )


def test_laws_that_do_not_go_together_are_refused():
  laws, gaussian = _ours(), TanhGaussian(np.zeros((4, 3), np.float32), np.ones((4, 3), np.float32))
  with pytest.raises(ValueError, match=r'one event shape, got \(2,\) and \(3,\)'):
    laws['tanh_gaussian'].kl_divergence(gaussian)
  with pytest.raises(ValueError, match=r'got \(4,\) and \(2,\)'):
    laws['tanh_gaussian'].kl_divergence(laws['tanh_gaussian'][:2])
  with pytest.raises(ValueError, match='one number of actions, got 5 and 6'):
    laws['categorical'].kl_divergence(Categorical(np.zeros((4, 6), np.float32)))
  with pytest.raises(ValueError, match=r'sizes, got \(3, 2\) and \(2, 3\)'):
    laws['factored'].kl_divergence(FactoredCategorical(np.zeros((4, 5), np.float32), (2, 3)))
  with pytest.raises(NotImplementedError, match='No KL'):
    laws['factored'].kl_divergence(laws['categorical'])


# Moments and log-probabilities that there were none of before.


@pytest.mark.parametrize('loc', [0.0, 0.7, -3.0, 15.0])
def test_the_moments_of_tanh_gaussians_are_those_of_samples(loc):
  law = TanhGaussian(jnp.full(2, loc), jnp.array([0.4, 2.0]))
  samples = law.sample(seed=_KEY, sample_shape=(200_000,))
  np.testing.assert_allclose(law.mean(), jnp.mean(samples, axis=0), atol=0.01)
  np.testing.assert_allclose(law.stddev(), jnp.std(samples, axis=0), atol=0.01)
  np.testing.assert_allclose(law.variance(), jnp.square(law.stddev()), atol=1e-6)
  np.testing.assert_allclose(law.median(), jnp.median(samples, axis=0), atol=0.02)

  def total(loc: Any, scale: Any) -> Any:
    law = TanhGaussian(loc, scale)
    return jnp.sum(law.mean() + law.stddev())

  for slope in jax.grad(total, argnums=(0, 1))(law.loc, law.scale):
    assert np.all(np.isfinite(slope))


def test_hybrid_log_probabilities_of_illegal_choices_are_minus_infinity():
  law = _ours()['hybrid']
  x = jnp.zeros((4, 2))
  log_prob = law.log_prob({'discrete': jnp.array([3, 0, 1, 0]), 'continuous': x})
  np.testing.assert_array_equal(log_prob[:3], np.full(3, -np.inf))
  # In the last row, which has all five, the two parts of the number.
  log_prob = law.log_prob({'discrete': jnp.array([0, 1, 0, 2]), 'continuous': x})[3]
  branch = TanhGaussian(law.continuous.loc[3, 2], law.continuous.scale[3, 2])
  np.testing.assert_allclose(log_prob, law.categorical.logits[3, 2] + branch.log_prob(x[3]), rtol=1e-5)


def test_the_entropy_of_a_hybrid_is_that_of_samples():
  for name in ('hybrid', 'hybrid_shared'):
    law = _ours()[name]
    _, log_prob = law.sample_and_log_prob(seed=_KEY, sample_shape=(20_000,))
    np.testing.assert_allclose(law.entropy(), -jnp.mean(log_prob, axis=0), atol=0.05)
