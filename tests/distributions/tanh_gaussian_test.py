"""Tests of the tanh-Gaussian distribution."""

from __future__ import annotations

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sac_blocks import distributions
from tests import numerics
from tests.references import soft_actor_critic as reference

_KEY = jax.random.PRNGKey(0)
_LOG_TWO = math.log(2.0)

# Pre-tanh value, log-density of tanh(Normal(0, 1)) there. At 10 the form with `+ 1e-6` inside the
# logarithm gives -37.1116, 4.8 nats off.
_KNOWN = [
  (0.0, -0.918939),
  (1.0, -0.551377),
  (5.0, -4.805142),
  (10.0, -32.305233),
  (20.0, -162.305233),
  (50.0, -1152.305233),
]


def _policy(leading=(), size=3, seed=0, dtype=np.float32):
  rng = np.random.default_rng(seed)
  loc = rng.normal(size=(*leading, size)).astype(dtype)
  scale = rng.uniform(0.3, 1.2, (*leading, size)).astype(dtype)
  return loc, scale


def _pre_tanh_noise():
  """Returns what the key draws for one dimension, read from an action that is far from the ends."""
  action = distributions.TanhGaussian(jnp.zeros(1), jnp.ones(1)).sample(seed=_KEY)
  return float(np.arctanh(np.float64(action[0])))


@pytest.mark.parametrize(('u', 'expected'), _KNOWN)
def test_sampled_log_prob_of_known_numbers(u, expected):
  """Moves the mean so that the draw lands on `u`, and puts the draw's own density aside."""
  noise = _pre_tanh_noise()
  loc = jnp.array([u - noise], jnp.float32)

  def log_prob(loc, scale):
    return distributions.TanhGaussian(loc, scale).sample_and_log_prob(seed=_KEY)[1]

  actual = float(log_prob(loc, jnp.ones(1)))
  at_zero_mean = (
    actual - reference.normal_log_density(noise, 0.0, 1.0) + reference.normal_log_density(u, 0.0, 1.0)
  )
  assert at_zero_mean == pytest.approx(expected, rel=2e-6, abs=2e-5)
  gradients = jax.grad(log_prob, argnums=(0, 1))(loc, jnp.ones(1))
  assert np.all(np.isfinite(gradients))
  # -d/du log(1 - tanh(u)^2) = 2 tanh(u); the density of the noise itself doesn't move with loc.
  assert float(gradients[0][0]) == pytest.approx(2.0 * math.tanh(u), abs=2e-5)
  assert float(gradients[1][0]) == pytest.approx(2.0 * math.tanh(u) * noise - 1.0, abs=1e-4)


@pytest.mark.parametrize(('u', 'expected'), _KNOWN[:4])
def test_log_prob_of_a_stored_action_in_float64(u, expected):
  with numerics.enable_x64():
    law = distributions.TanhGaussian(jnp.zeros(1, jnp.float64), jnp.ones(1, jnp.float64))
    actual = law.log_prob(jnp.tanh(jnp.array([u], jnp.float64)))
    assert actual.dtype == jnp.float64
  assert float(actual) == pytest.approx(expected, abs=2e-6)


def test_log_prob_is_summed_over_dimensions_and_not_over_the_batch():
  law = distributions.TanhGaussian(jnp.zeros((4, 3)), jnp.ones((4, 3)))
  log_prob = law.log_prob(jnp.zeros((4, 3)))
  assert log_prob.shape == (4,)
  np.testing.assert_allclose(log_prob, np.full(4, -2.756816), atol=1e-6)


def _abstract_outputs(loc, scale, key=_KEY):
  """Returns what every method gives, shapes and dtypes only: nothing is compiled."""

  def outputs(loc, scale):
    law = distributions.TanhGaussian(loc, scale)
    action, log_prob = law.sample_and_log_prob(seed=key)
    of_actions = {'action': action, 'sample': law.sample(seed=key), 'mode': law.mode()}
    of_examples = {'drawn': log_prob, 'log_prob': law.log_prob(action), 'entropy': law.entropy()}
    return of_actions, of_examples

  return jax.eval_shape(outputs, loc, scale)


@pytest.mark.parametrize('leading', [(), (1,), (3,), (2, 4)])
@pytest.mark.parametrize('size', [1, 3])
def test_shapes(leading, size):
  loc, scale = _policy(leading, size)
  law = distributions.TanhGaussian(loc, scale)
  assert law.event_shape == (size,)
  assert law.batch_shape == leading
  of_actions, of_examples = _abstract_outputs(loc, scale)
  for name, output in of_actions.items():
    assert output.shape == (*leading, size), name
  for name, output in of_examples.items():
    assert output.shape == leading, name


@pytest.mark.parametrize(
  ('given', 'expected'),
  [
    (jnp.bfloat16, jnp.float32),
    (jnp.float16, jnp.float32),
    (jnp.float32, jnp.float32),
    (jnp.float64, jnp.float64),
  ],
)
def test_dtypes_where_x64_is_on(given, expected):
  with numerics.enable_x64():
    parameters = jax.ShapeDtypeStruct((4, 3), given)
    for output in jax.tree_util.tree_leaves(_abstract_outputs(parameters, parameters)):
      assert output.dtype == expected


def test_sample_shape_comes_first():
  loc, scale = _policy((4,))
  action, log_prob = distributions.TanhGaussian(loc, scale).sample_and_log_prob(seed=_KEY, sample_shape=(2,))
  assert action.shape == (2, 4, 3)
  assert log_prob.shape == (2, 4)
  np.testing.assert_allclose(
    log_prob,
    reference.tanh_gaussian_log_density(
      np.arctanh(np.float64(action)),
      np.broadcast_to(loc, action.shape),
      np.broadcast_to(scale, action.shape),
    ),
    rtol=1e-3,
    atol=1e-3,
  )
  assert len(np.unique(action)) == action.size


def test_sample_is_the_action_of_sample_and_log_prob():
  law = distributions.TanhGaussian(*_policy((4,)))
  np.testing.assert_array_equal(law.sample(seed=_KEY), law.sample_and_log_prob(seed=_KEY)[0])


def test_old_and_new_keys_draw_the_same():
  law = distributions.TanhGaussian(*_policy((4,)))
  np.testing.assert_array_equal(law.sample(seed=_KEY), law.sample(seed=jax.random.key(0)))


def test_mode_is_the_squashed_mean():
  loc, scale = _policy((4,))
  np.testing.assert_allclose(distributions.TanhGaussian(loc, scale).mode(), np.tanh(loc), rtol=1e-6)


def test_float32_agrees_with_the_reference():
  loc, scale = _policy((4,))
  law = distributions.TanhGaussian(loc, scale)
  action, log_prob = law.sample_and_log_prob(seed=_KEY)
  assert action.dtype == log_prob.dtype == law.entropy().dtype == jnp.float32
  expected = reference.tanh_gaussian_log_density(np.arctanh(np.float64(action)), loc, scale)
  np.testing.assert_allclose(log_prob, expected, rtol=1e-4, atol=1e-4)
  np.testing.assert_allclose(law.log_prob(action), expected, rtol=1e-4, atol=1e-4)


def test_float64_agrees_with_the_reference():
  loc, scale = _policy((4,), dtype=np.float64)
  with numerics.enable_x64():
    law = distributions.TanhGaussian(jnp.asarray(loc), jnp.asarray(scale))
    action, log_prob = law.sample_and_log_prob(seed=_KEY)
    assert action.dtype == log_prob.dtype == law.entropy().dtype == jnp.float64
    expected = reference.tanh_gaussian_log_density(np.arctanh(action), loc, scale)
    np.testing.assert_allclose(log_prob, expected, rtol=1e-11, atol=1e-11)
    np.testing.assert_allclose(law.log_prob(action), expected, rtol=1e-11, atol=1e-11)


def test_half_precision_is_computed_in_float32():
  # Both are exact in bfloat16, so the draws are those of float32.
  loc, scale = np.zeros((4, 3), np.float32), np.ones((4, 3), np.float32)
  half = distributions.TanhGaussian(jnp.asarray(loc, jnp.bfloat16), jnp.asarray(scale, jnp.bfloat16))
  for actual, expected in zip(
    half.sample_and_log_prob(seed=_KEY),
    distributions.TanhGaussian(loc, scale).sample_and_log_prob(seed=_KEY),
    strict=True,
  ):
    assert actual.dtype == jnp.float32
    np.testing.assert_array_equal(actual, expected)


def test_log_prob_is_exact_up_to_the_last_representable_actions():
  """A clip at 0.999, or at the decimal resolution 1e-6, would show here."""
  distance = 2.0 ** -np.arange(1, 22)
  action = np.concatenate([1.0 - distance, distance - 1.0]).astype(np.float32)[:, None]
  law = distributions.TanhGaussian(jnp.full(action.shape, 0.5), jnp.full(action.shape, 1.5))
  expected = reference.tanh_gaussian_log_density(
    np.arctanh(np.float64(action)), np.full(action.shape, 0.5), np.full(action.shape, 1.5)
  )
  np.testing.assert_allclose(law.log_prob(action), expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize('bound', [1.0, -1.0, 1.0000001, -1.0000001, 1.5, -1.5])
def test_actions_at_and_beyond_the_bounds_count_as_the_last_ones_inside(bound):
  law = distributions.TanhGaussian(jnp.array([0.5]), jnp.array([1.5]))
  eps = np.finfo(np.float32).eps
  u = math.copysign(math.atanh(1.0 - float(eps)), bound)
  expected = reference.normal_log_density(u, 0.5, 1.5) - reference.log_tanh_slope(u)
  assert float(law.log_prob(jnp.array([bound]))) == pytest.approx(expected, abs=1e-3)


@pytest.mark.parametrize('log_scale', [-20.0, -5.0, 0.0, 2.0])
@pytest.mark.parametrize('loc', [0.0, 1.0, -9.1, 50.0, 1e3, -1e3])
def test_value_and_gradient_are_finite_for_every_action(loc, log_scale):
  one = np.float32(1.0)
  action = np.array(
    [0.0, 0.3, -0.999, 0.999999, np.nextafter(one, 0), -np.nextafter(one, 0), 1, -1, 1.0000001]
  )
  action = jnp.asarray(action[:, None], jnp.float32)

  def log_prob(loc, scale, action):
    return jnp.sum(distributions.TanhGaussian(loc, scale).log_prob(action))

  value, gradients = jax.value_and_grad(log_prob, argnums=(0, 1, 2))(
    jnp.full(action.shape, loc), jnp.full(action.shape, math.exp(log_scale)), action
  )
  assert np.isfinite(value)
  for gradient in gradients:
    assert np.all(np.isfinite(gradient))


@pytest.mark.parametrize('log_scale', [-20.0, -5.0, 0.0, 2.0, 10.0])
@pytest.mark.parametrize('loc', [0.0, 9.1, -50.0, 1e3, -1e3])
def test_sampling_is_finite_for_extreme_policies(loc, log_scale):
  def draw(loc, scale):
    action, log_prob = distributions.TanhGaussian(loc, scale).sample_and_log_prob(seed=_KEY)
    return jnp.sum(log_prob) + jnp.sum(action), (action, log_prob)

  (_, (action, log_prob)), gradients = jax.value_and_grad(draw, argnums=(0, 1), has_aux=True)(
    jnp.full((4, 3), loc), jnp.full((4, 3), math.exp(log_scale))
  )
  assert np.all(np.isfinite(log_prob))
  assert np.all(np.abs(action) <= 1.0)
  for gradient in gradients:
    assert np.all(np.isfinite(gradient))


@pytest.mark.parametrize('log_scale', [-20.0, -15.0, -5.0, 0.0, 1.0])
def test_mean_log_prob_of_samples_is_minus_the_entropy(log_scale):
  """Also where scale is below the spacing of float32 around loc, so that loc + scale eps rounds."""
  law = distributions.TanhGaussian(jnp.array([0.3, -0.2]), jnp.full(2, math.exp(log_scale)))
  log_prob = law.sample_and_log_prob(seed=_KEY, sample_shape=(20_000,))[1]
  # Six standard errors.
  tolerance = 6 * float(np.std(log_prob)) / math.sqrt(log_prob.size) + 1e-4
  assert float(jnp.mean(log_prob)) == pytest.approx(-float(law.entropy()), abs=tolerance)
  assert float(np.std(log_prob)) > 0.1


def test_gradients_of_log_prob_agree_with_finite_differences():
  loc, scale = _policy((4,), seed=3, dtype=np.float64)
  action = np.tanh(np.random.default_rng(4).normal(size=loc.shape))
  with numerics.enable_x64():
    inputs = [loc, scale, action]

    @jax.jit
    def log_prob(loc, scale, action):
      return distributions.TanhGaussian(loc, scale).log_prob(action)

    gradients = jax.jit(jax.grad(lambda *xs: jnp.sum(log_prob(*xs)), argnums=(0, 1, 2)))(*inputs)
    for position, gradient in enumerate(gradients):

      def function(x, position=position):
        changed = list(inputs)
        changed[position] = x
        return log_prob(*changed)

      expected = numerics.finite_differences(function, inputs[position], step=1e-6)
      np.testing.assert_allclose(gradient, expected, rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize('output', ['action', 'log_prob', 'entropy'])
def test_reparameterised_gradients_agree_with_finite_differences(output):
  loc, scale = _policy((4,), seed=5, dtype=np.float64)
  with numerics.enable_x64():

    @jax.jit
    def function(loc, scale):
      law = distributions.TanhGaussian(loc, scale)
      action, log_prob = law.sample_and_log_prob(seed=_KEY)
      return {'action': action, 'log_prob': log_prob, 'entropy': law.entropy()}[output]

    gradient = jax.jit(jax.grad(lambda *xs: jnp.sum(function(*xs)), argnums=(0, 1)))
    by_loc, by_scale = gradient(loc, scale)
    np.testing.assert_allclose(
      by_loc, numerics.finite_differences(lambda x: function(x, scale), loc), rtol=1e-6, atol=1e-8
    )
    np.testing.assert_allclose(
      by_scale, numerics.finite_differences(lambda x: function(loc, x), scale), rtol=1e-6, atol=1e-8
    )


@pytest.mark.parametrize(('loc', 'scale'), [(0.0, 1.0), (1.0, 0.5), (-2.0, 0.3), (0.3, 3.0)])
def test_density_integrates_to_one(loc, scale):
  u = np.linspace(loc - 10 * scale, loc + 10 * scale, 20001)
  u = u[np.abs(u) < 15.0]
  with numerics.enable_x64():
    action = jnp.asarray(np.tanh(u))[:, None]
    law = distributions.TanhGaussian(jnp.full(action.shape, loc), jnp.full(action.shape, scale))
    density = np.exp(law.log_prob(action))
  # da = (1 - tanh(u)^2) du on a grid that is dense where the density is high.
  weighted = density / np.cosh(u) ** 2
  integral = np.sum((weighted[1:] + weighted[:-1]) * np.diff(u)) / 2.0
  assert integral == pytest.approx(1.0, abs=1e-5)


def test_density_integrates_to_one_over_the_actions_themselves():
  nodes, weights = np.polynomial.legendre.leggauss(200)
  with numerics.enable_x64():
    grid = np.stack(np.meshgrid(nodes, nodes, indexing='ij'), axis=-1)
    loc = jnp.broadcast_to(jnp.array([0.2, -0.4]), grid.shape)
    scale = jnp.broadcast_to(jnp.array([0.5, 0.4]), grid.shape)
    density = np.exp(distributions.TanhGaussian(loc, scale).log_prob(jnp.asarray(grid)))
  assert float(weights @ density @ weights) == pytest.approx(1.0, abs=1e-6)


def test_samples_follow_the_density():
  law = distributions.TanhGaussian(jnp.array([0.4, -0.1]), jnp.array([0.7, 0.3]))
  action = np.float64(law.sample(seed=_KEY, sample_shape=(20_000,)))
  assert np.abs(action).max() < 1.0
  for u, loc, scale in zip(np.arctanh(action).T, (0.4, -0.1), (0.7, 0.3), strict=True):
    expected = [0.5 + 0.5 * math.erf((x - loc) / scale / math.sqrt(2.0)) for x in np.sort(u)]
    distance = np.abs(np.arange(len(u)) / len(u) - expected).max()
    # Kolmogorov's test at the level 0.001.
    assert distance * math.sqrt(len(u)) < 1.95
  assert abs(np.corrcoef(action.T)[0, 1]) < 0.03


def test_entropy_of_the_standard_policy():
  # By dense integration, and 0.66990 +- 0.00006 by 2e7 draws. Without tanh it would be 1.418939.
  law = distributions.TanhGaussian(jnp.zeros(1), jnp.ones(1))
  assert float(law.entropy()) == pytest.approx(0.669804, abs=1e-5)


@pytest.mark.parametrize('scale', [math.exp(-20), math.exp(-5), 0.1, 0.5, 1.0, 2.0, math.exp(2)])
@pytest.mark.parametrize('loc', [0.0, 0.5, -2.0, 10.0, 1e3])
def test_entropy_agrees_with_dense_integration(loc, scale):
  entropy = float(distributions.TanhGaussian(jnp.array([loc]), jnp.array([scale])).entropy())
  expected = reference.tanh_gaussian_entropy(loc, scale, points=4001)
  # Wide policies squeeze the bend of log(1 - tanh(u)^2) at 0 between two nodes.
  tolerance = 1e-4 if scale <= 2.0 else 3e-2
  assert entropy == pytest.approx(expected, rel=1e-5, abs=tolerance)


def test_entropy_adds_up_over_dimensions():
  law = distributions.TanhGaussian(jnp.array([[0.0, 0.5], [1.0, 0.0]]), jnp.array([[1.0, 0.5], [0.1, 1.0]]))
  single = {
    (loc, scale): reference.tanh_gaussian_entropy(loc, scale, points=4001)
    for loc, scale in [(0.0, 1.0), (0.5, 0.5), (1.0, 0.1)]
  }
  expected = [single[0.0, 1.0] + single[0.5, 0.5], single[1.0, 0.1] + single[0.0, 1.0]]
  np.testing.assert_allclose(law.entropy(), expected, atol=2e-3)


def test_entropy_of_a_collapsed_policy_is_that_of_its_gaussian():
  law = distributions.TanhGaussian(jnp.zeros(1), jnp.exp(jnp.array([-20.0])))
  assert float(law.entropy()) == pytest.approx(-18.581, abs=1e-3)
  action, log_prob = law.sample_and_log_prob(seed=_KEY)
  assert np.isfinite(log_prob)
  assert np.isfinite(law.log_prob(action))


@given(
  loc=st.floats(-20.0, 20.0, width=32, allow_subnormal=False),
  log_scale=st.floats(-5.0, 5.0, width=32, allow_subnormal=False),
)
def test_entropy_never_exceeds_the_uniform_one(loc, log_scale):
  law = distributions.TanhGaussian(jnp.array([loc, 0.0]), jnp.exp(jnp.array([log_scale, 0.0])))
  assert float(law.entropy()) <= 2 * _LOG_TWO


@given(
  loc=st.floats(-5.0, 5.0, width=32, allow_subnormal=False),
  scale=st.floats(0.125, 4.0, width=32),
  action=st.floats(-0.9375, 0.9375, width=32, allow_subnormal=False),
)
def test_reflection_of_mean_and_action_keeps_the_density(loc, scale, action):
  loc, scale, action = (jnp.full(1, x, jnp.float32) for x in (loc, scale, action))
  np.testing.assert_allclose(
    distributions.TanhGaussian(loc, scale).log_prob(action),
    distributions.TanhGaussian(-loc, scale).log_prob(-action),
    rtol=1e-4,
    atol=1e-4,
  )


def test_is_a_pytree_that_jit_takes_and_returns():
  loc, scale = _policy((4,))

  @jax.jit
  def through(law):
    action, log_prob = law.sample_and_log_prob(seed=_KEY)
    return law, action, log_prob, law.log_prob(action), law.entropy(), law.mode()

  eager = distributions.TanhGaussian(loc, scale)
  law, action, log_prob, again, entropy, mode = through(eager)
  assert isinstance(law, distributions.TanhGaussian)
  np.testing.assert_array_equal(law.loc, loc)
  np.testing.assert_array_equal(law.scale, scale)
  expected_action, expected_log_prob = eager.sample_and_log_prob(seed=_KEY)
  np.testing.assert_allclose(action, expected_action, rtol=1e-5, atol=1e-6)
  np.testing.assert_allclose(log_prob, expected_log_prob, rtol=1e-5, atol=1e-5)
  np.testing.assert_allclose(again, eager.log_prob(action), rtol=1e-5, atol=1e-5)
  np.testing.assert_allclose(entropy, eager.entropy(), rtol=1e-5, atol=1e-5)
  np.testing.assert_allclose(mode, eager.mode(), rtol=1e-5)


def test_tree_functions_may_put_anything_into_it():
  law = distributions.TanhGaussian(*_policy((4,)))
  leaves, structure = jax.tree_util.tree_flatten(law)
  assert len(leaves) == 2
  jax.tree_util.tree_unflatten(structure, [object(), None])
  axes = jax.tree_util.tree_map(lambda _: 0, law)
  assert jax.tree_util.tree_leaves(axes) == [0, 0]


def test_vmap_equals_stacked_input():
  loc, scale = _policy((4,))
  action = np.tanh(np.random.default_rng(1).normal(size=loc.shape)).astype(np.float32)
  law = distributions.TanhGaussian(loc, scale)
  for function in (
    lambda law, action: law.log_prob(action),
    lambda law, _: law.entropy(),
    lambda law, _: law.mode(),
  ):
    np.testing.assert_allclose(
      jax.jit(jax.vmap(function))(law, action), function(law, action), rtol=1e-6, atol=1e-6
    )


def test_vmap_over_keys_equals_a_loop():
  loc, scale = _policy((4,))
  keys = jax.random.split(_KEY, 4)

  def draw(law, key):
    return law.sample_and_log_prob(seed=key)

  action, log_prob = jax.jit(jax.vmap(draw))(distributions.TanhGaussian(loc, scale), keys)
  draw = jax.jit(draw)
  for index in range(4):
    expected_action, expected_log_prob = draw(
      distributions.TanhGaussian(loc[index], scale[index]), keys[index]
    )
    np.testing.assert_allclose(action[index], expected_action, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(log_prob[index], expected_log_prob, rtol=1e-5, atol=1e-5)


def test_agrees_with_distrax_where_distrax_is_safe():
  import distrax  # Takes seconds where it brings TensorFlow along.

  loc, scale = _policy((4,))
  ours = distributions.TanhGaussian(loc, scale)
  with jax.numpy_rank_promotion('allow'):
    theirs = distrax.Transformed(
      distrax.MultivariateNormalDiag(jnp.asarray(loc), jnp.asarray(scale)),
      distrax.Block(distrax.Tanh(), 1),
    )
    their_action, their_log_prob = theirs.sample_and_log_prob(seed=_KEY)
    action, log_prob = ours.sample_and_log_prob(seed=_KEY)
    np.testing.assert_allclose(log_prob, theirs.log_prob(action), rtol=1e-4, atol=1e-4)
  np.testing.assert_allclose(ours.log_prob(their_action), their_log_prob, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize('shape', [(4,), (4, 1), (1,), (2, 4), (1, 2)])
def test_a_scale_of_another_shape_is_refused(shape):
  with numerics.raises_naming(loc=(4, 2), scale=shape):
    distributions.TanhGaussian(jnp.zeros((4, 2)), jnp.ones(shape))


def test_a_mean_without_an_action_axis_is_refused():
  with pytest.raises(ValueError, match=r'loc.*scale'):
    distributions.TanhGaussian(jnp.array(0.0), jnp.array(1.0))


@pytest.mark.parametrize('shape', [(4,), (4, 1), (4, 3), (1, 2), (3, 2), (2, 1)])
def test_an_action_of_another_shape_is_refused(shape):
  with numerics.raises_naming(value=shape):
    distributions.TanhGaussian(jnp.zeros((4, 2)), jnp.ones((4, 2))).log_prob(jnp.zeros(shape))
