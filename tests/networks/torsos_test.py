"""The encoder of observations: images through convolutions, all else flattened."""

from __future__ import annotations

from typing import Any

import haiku as hk
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from sac_blocks import blocks
from sac_blocks.networks import make_discrete_networks, make_networks, torsos
from sac_blocks.observations import is_image

ONE_PIXEL = ((1, 1, 1),)


def spec(shape: tuple[int, ...], dtype: Any = np.uint8) -> jax.ShapeDtypeStruct:
  return jax.ShapeDtypeStruct(shape, dtype)


def encode(observation_spec: Any, obs: Any, params: Any = None, **options: Any) -> Any:
  """Returns features and params; those given, or fresh ones."""
  keys, layers = options.get('keys'), options.get('conv_layers', ONE_PIXEL)
  encoder = torsos.encoder('keys', observation_spec, keys, layers)
  network = torsos.network(encoder, torsos.example(observation_spec))
  params = jax.jit(network.init)(jax.random.key(0)) if params is None else params
  return jax.jit(network.apply)(params, obs), params


def one_pixel(weight: float, bias: float) -> Any:
  """Params of a convolution that takes relu(weight x + bias) of each pixel."""
  return {'image_0_conv_0': {'w': jnp.full((1, 1, 1, 1), weight), 'b': jnp.full((1,), bias)}}


def pixels(*shape: int, seed: int = 0) -> np.ndarray:
  return np.random.default_rng(seed).integers(0, 256, size=shape, dtype=np.uint8)


@pytest.mark.parametrize('shape', [(3, 4), (3, 4, 1)])
def test_pixels_are_brought_to_the_unit_interval_once(shape: tuple[int, ...]):
  image = pixels(5, *shape)
  image[0] = 255
  features, _ = encode(spec(shape), image, one_pixel(1.0, 0.0))
  assert features.dtype == jnp.float32
  np.testing.assert_allclose(features, image.reshape(5, 12) / 255.0, rtol=1e-6)
  np.testing.assert_allclose(features[0], np.ones(12), rtol=1e-6)
  features, _ = encode(spec(shape), image, one_pixel(2.0, -1.0))
  np.testing.assert_allclose(
    features, np.maximum(2.0 * image.reshape(5, 12) / 255.0 - 1.0, 0.0), rtol=1e-5, atol=1e-6
  )


def test_images_that_statistics_have_normalised_are_not_scaled_again():
  observation_spec = spec((2, 3))
  image = pixels(50, 2, 3)
  statistics = blocks.update_statistics(blocks.init_statistics(observation_spec), image)
  normal = blocks.normalize(statistics, image)
  expected = (image - image.mean(axis=0)) / image.std(axis=0)
  features, _ = encode(observation_spec, normal, one_pixel(1.0, 3.0))
  np.testing.assert_allclose(features, np.maximum(expected.reshape(50, 6) + 3.0, 0.0), atol=1e-4)


def numpy_convolution(x: np.ndarray, w: np.ndarray, b: np.ndarray, stride: int) -> np.ndarray:
  """A strided convolution with zeros around the image [H, W, C], as many as leave ceil(H / stride) rows."""
  kernel = w.shape[0]
  rows, columns = (-(-size // stride) for size in x.shape[:2])
  before = [
    max((out - 1) * stride + kernel - size, 0) // 2
    for out, size in zip((rows, columns), x.shape[:2], strict=True)
  ]
  y = np.zeros((rows, columns, w.shape[3]))
  for i, j, k in np.ndindex(*y.shape):
    total = float(b[k])
    for di, dj in np.ndindex(kernel, kernel):
      row, column = i * stride + di - before[0], j * stride + dj - before[1]
      if 0 <= row < x.shape[0] and 0 <= column < x.shape[1]:
        total += float(x[row, column] @ w[di, dj, :, k])
    y[i, j, k] = max(total, 0.0)
  return y


@pytest.mark.parametrize('shape', [(5, 4), (4, 7, 3)])
def test_convolutions_are_those_of_numpy(shape: tuple[int, ...]):
  layers = ((4, 3, 2), (3, 2, 1))
  image = pixels(*shape)
  features, params = encode(spec(shape), image, conv_layers=layers)
  params = jax.tree.map(lambda x: x + 0.1 * jnp.sin(jnp.arange(x.size).reshape(x.shape)), params)
  features, _ = encode(spec(shape), image, params, conv_layers=layers)
  x = image.reshape(*shape[:2], -1) / 255.0
  for i, (_, _, stride) in enumerate(layers):
    layer = jax.tree.map(lambda x: np.asarray(x, np.float64), params[f'image_0_conv_{i}'])
    x = numpy_convolution(x, layer['w'], layer['b'], stride)
  assert np.mean(x > 0.0) > 0.2
  np.testing.assert_allclose(features, x.ravel(), rtol=1e-4, atol=1e-5)


def test_params_of_the_default_convolutions():
  _, params = encode(spec((16, 12, 3)), pixels(16, 12, 3), conv_layers=torsos.CONV_LAYERS)
  assert jax.tree.map(lambda x: x.shape, params) == {
    'image_0_conv_0': {'w': (3, 3, 3, 32), 'b': (32,)},
    'image_0_conv_1': {'w': (3, 3, 32, 64), 'b': (64,)},
  }


@pytest.mark.parametrize('leading', [(), (4,), (2, 4), (0,)])
def test_any_leading_shape_gives_each_example_its_own_features(leading: tuple[int, ...]):
  observation_spec = {
    'image': spec((6, 5, 2)),
    'vector': spec((3,), np.float32),
    'number': spec((), np.int32),
  }
  rng = np.random.default_rng(0)
  obs = {
    'image': pixels(*leading, 6, 5, 2),
    'vector': rng.normal(size=(*leading, 3)).astype(np.float32),
    'number': rng.integers(9, size=leading, dtype=np.int32),
  }
  network = torsos.network(
    torsos.encoder('keys', observation_spec, None, ((4, 3, 2),)), torsos.example(observation_spec)
  )
  params, apply = jax.jit(network.init)(jax.random.key(0)), jax.jit(network.apply)
  features = apply(params, obs)
  assert features.shape == (*leading, 3 * 3 * 4 + 3 + 1)
  for index in np.ndindex(*leading):
    single = apply(params, jax.tree.map(lambda x, index=index: x[index], obs))
    np.testing.assert_allclose(features[index], single, rtol=1e-5, atol=1e-6)


def test_features_stand_in_the_order_of_the_keys_and_images_beside_vectors():
  observation_spec = {
    'image': spec((2, 2)),
    'flags': spec((2,), np.bool_),
    'vector': spec((2, 1), np.float32),
    'left_out': spec((9,), np.float32),
  }
  obs = {
    'image': np.array([[51, 102], [153, 204]], np.uint8),
    'flags': np.array([True, False]),
    'vector': np.array([[7.0], [-8.0]], np.float32),
    'left_out': np.full(9, 99.0, np.float32),
  }
  identity = one_pixel(1.0, 0.0)['image_0_conv_0']
  image, flags, vector = [0.2, 0.4, 0.6, 0.8], [1.0, 0.0], [7.0, -8.0]
  for keys, place, expected in (
    (('image', 'flags', 'vector'), 0, image + flags + vector),
    (('vector', 'image', 'flags'), 1, vector + image + flags),
  ):
    features, _ = encode(observation_spec, obs, {f'image_{place}_conv_0': identity}, keys=keys)
    np.testing.assert_allclose(features, expected, rtol=1e-6)


def test_two_images_have_convolutions_of_their_own():
  observation_spec = {'far': spec((4, 4)), 'near': spec((3, 3, 2))}
  obs = {'far': pixels(4, 4), 'near': pixels(3, 3, 2)}
  _, params = encode(observation_spec, obs)
  assert jax.tree.map(lambda x: x.shape, params) == {
    'image_0_conv_0': {'w': (1, 1, 1, 1), 'b': (1,)},
    'image_1_conv_0': {'w': (1, 1, 2, 1), 'b': (1,)},
  }


@pytest.mark.parametrize(
  ('observation_spec', 'image'),
  [
    (spec((3, 3)), True),
    (spec((3, 3, 1)), True),
    (spec((3,)), False),
    (spec((2, 3, 3, 1)), False),
    (spec((3, 3), np.float32), False),
    (spec((3, 3, 1), np.int32), False),
    (spec((3, 3), np.int8), False),
  ],
)
def test_only_uint8_with_two_or_three_axes_is_an_image(observation_spec: Any, image: bool):
  assert is_image(observation_spec) == image
  obs = np.full((2, *observation_spec.shape), 100, observation_spec.dtype)
  features, params = encode(observation_spec, obs)
  assert bool(params) == image
  if not image:
    # As they are: neither scaled nor convolved.
    np.testing.assert_array_equal(features, np.full((2, obs[0].size), 100.0))


def test_without_convolutions_images_are_flattened_as_they_are():
  image = pixels(2, 3, 4)
  features, params = encode(spec((3, 4)), image, conv_layers=None)
  assert not params
  np.testing.assert_array_equal(features, image.reshape(2, 12).astype(np.float32))


@pytest.mark.parametrize('kind', ['continuous', 'discrete'])
def test_images_reach_actor_and_critics_and_gradients_their_convolutions(kind: str):
  observation_spec = {'image': spec((8, 8, 1)), 'vector': spec((2,), np.float32)}
  options = {'hidden_sizes': (8,), 'num_critics': 2, 'conv_layers': ((4, 3, 2), (4, 3, 2))}
  if kind == 'continuous':
    networks = make_networks(observation_spec, 3, **options)
    action: tuple[Any, ...] = (jnp.zeros((4, 3)),)
  else:
    networks = make_discrete_networks(observation_spec, 3, **options)
    action = ()
  obs = {'image': pixels(4, 8, 8, 1), 'vector': np.ones((4, 2), np.float32)}
  inits = networks.actor.init, networks.critic.init
  actor, critic = jax.jit(lambda key: [init(key) for init in inits])(jax.random.key(0))
  # An ensemble has its own convolutions for each member.
  assert critic['image_0_conv_0']['w'].shape == (2, 3, 3, 1, 4)
  assert np.any(critic['image_0_conv_0']['w'][0] != critic['image_0_conv_0']['w'][1])
  assert actor['image_0_conv_0']['w'].shape == (3, 3, 1, 4)

  def of_actor(params: Any) -> Any:
    policy = networks.actor.apply(params, obs)
    return jnp.sum(policy.mode() if kind == 'continuous' else policy.logits[..., 0])

  def of_critics(params: Any) -> Any:
    return jnp.sum(networks.critic.apply(params, obs, *action))

  gradients = jax.jit(lambda a, c: (jax.grad(of_actor)(a), jax.grad(of_critics)(c)))(actor, critic)
  for gradient in gradients:
    for layer in ('image_0_conv_0', 'image_0_conv_1'):
      assert np.all(np.isfinite(gradient[layer]['w']))
      assert np.any(gradient[layer]['w'] != 0.0)


def test_plain_vectors_have_no_params_and_hidden_layers_keep_their_names():
  """So that checkpoints of networks without images stay readable."""
  params = make_networks(spec((3,), np.float32), 1, hidden_sizes=(8, 8)).actor.init(jax.random.key(0))
  assert sorted(params) == ['hidden_0', 'hidden_1', 'output']


def test_an_encoder_in_a_network_of_ones_own():
  encoder = torsos.encoder('keys', spec((4, 4)), None, ((2, 3, 2),))
  network = torsos.ensemble(
    lambda obs: hk.Linear(1, name='head')(encoder(obs)), 3, jnp.zeros((4, 4), jnp.uint8)
  )
  params = network.init(jax.random.key(0))
  assert network.apply(params, pixels(5, 4, 4)).shape == (3, 5, 1)


@pytest.mark.parametrize(
  ('observation_spec', 'keys', 'message'),
  [
    (spec((3,)), ('x',), 'the_option needs a dict observation'),
    ({'x': spec((3,))}, ('x', 'y'), r"the_option asks for \['y'\], but the observation has \['x'\]"),
    ({'x': spec((3,))}, (), r"the_option must name at least one of \['x'\], got none"),
  ],
)
def test_wrong_keys_are_named(observation_spec: Any, keys: tuple[str, ...], message: str):
  with pytest.raises(ValueError, match=message):
    torsos.encoder('the_option', observation_spec, keys)


def test_critics_draw_random_numbers_of_their_own_where_there_is_a_key():
  """Dropout in an ensemble: another mask for each critic and key, none without a key."""

  def function(x):
    key = hk.maybe_next_rng_key()
    return jnp.sum(x if key is None else hk.dropout(key, 0.5, x), axis=-1)

  ones = jnp.ones((4, 64))
  critics = torsos.ensemble(function, 3, ones, stochastic=True)
  params = critics.init(jax.random.key(0))
  np.testing.assert_array_equal(critics(params, ones), np.full((3, 4), 64.0))
  apply = jax.jit(lambda key: critics(params, ones, key=key))
  first, second = apply(jax.random.key(1)), apply(jax.random.key(2))
  assert len(np.unique(first, axis=0)) == 3
  assert np.any(first != second)
  np.testing.assert_array_equal(first, apply(jax.random.key(1)))
  single = torsos.network(function, ones, stochastic=True)
  assert np.any(single(single.init(jax.random.key(0)), ones, key=jax.random.key(1)) != 64.0)


def test_a_network_that_takes_no_key_costs_nothing_for_it():
  """The program with keys for its networks is the one without."""

  def function(x):
    return hk.Linear(1)(x)[..., 0]

  ones = jnp.ones((4, 3))
  critics = torsos.ensemble(function, 2, ones)
  params = critics.init(jax.random.key(0))
  with_key = jax.jit(lambda p, x, key: critics(p, x, key=jax.random.fold_in(key, 1)))
  without = jax.jit(lambda p, x, key: critics(p, x))
  texts = [f.lower(params, ones, jax.random.key(0)).compile().as_text() for f in (with_key, without)]
  assert len(texts[0].splitlines()) == len(texts[1].splitlines())
