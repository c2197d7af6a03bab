"""Parts that the default networks share, in Haiku."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import haiku as hk
import jax
import jax.numpy as jnp

from sac_blocks.observations import is_image
from sac_blocks.types import Array, Network, PRNGKey, PyTree

#: Channels, kernel size and stride of the convolutions that images pass through.
CONV_LAYERS = ((32, 3, 2), (64, 3, 2))


def mlp(
  x: Array,
  output_size: int,
  *,
  hidden_sizes: Sequence[int],
  activation: Callable[[Array], Array],
  layer_norm: bool,
) -> Array:
  """Applies hidden layers and a linear one; to be called inside `hk.transform`.

  Args:
    x: `[..., F]`.
    output_size: width of the last layer.
    hidden_sizes: widths of the hidden layers.
    activation: their nonlinearity.
    layer_norm: whether each hidden layer is normalised before its nonlinearity.

  Returns:
    `[..., output_size]`.
  """
  for i, size in enumerate(hidden_sizes):
    x = hk.Linear(size, name=f'hidden_{i}')(x)
    if layer_norm:
      x = hk.LayerNorm(axis=-1, create_scale=True, create_offset=True, name=f'norm_{i}')(x)
    x = activation(x)
  return hk.Linear(output_size, name='output')(x)


def encoder(
  option: str,
  spec: PyTree,
  keys: Sequence[str] | None,
  conv_layers: Sequence[tuple[int, int, int]] | None = CONV_LAYERS,
) -> Callable[[PyTree], Array]:
  """Makes the function from an observation to features.

  An image, uint8 of height, width and (or not) channels, is brought to [0, 1] and passes through
  convolutions; all else is flattened as it is.

  Args:
    option: the name of the option that gave the keys, for messages.
    spec: the spec of one observation: an array spec, or a tree of them.
    keys: the keys of a dict observation to use; None for all.
    conv_layers: channels, kernel size and stride of each convolution; None flattens images, too.

  Returns:
    A function from `[..., *shape]` leaves to `[..., F]`; to be called inside `hk.transform`.

  Raises:
    ValueError: keys are asked of an observation that lacks them.
  """
  if keys is not None:
    if not isinstance(spec, Mapping):
      raise ValueError(f'{option} needs a dict observation, got the spec {spec}.')
    if missing := [key for key in keys if key not in spec]:
      raise ValueError(f'{option} asks for {missing}, but the observation has {sorted(spec)}.')
    if not keys:
      raise ValueError(f'{option} must name at least one of {sorted(spec)}, got none.')

  def chosen(tree: Any) -> list[Any]:
    return jax.tree.leaves(tree if keys is None else [tree[key] for key in keys])

  leaf_specs = chosen(spec)

  def encode(obs: PyTree) -> Array:
    parts = []
    for i, (leaf_spec, leaf) in enumerate(zip(leaf_specs, chosen(obs), strict=True)):
      rank = len(leaf_spec.shape)
      leading = leaf.shape[: leaf.ndim - rank]
      x = leaf.astype(jnp.promote_types(leaf.dtype, jnp.float32))
      if conv_layers is not None and is_image(leaf_spec):
        # Normalised ones are floating and in range already.
        x = x / 255.0 if leaf.dtype == jnp.uint8 else x
        image_shape = leaf_spec.shape if rank == 3 else (*leaf_spec.shape, 1)
        x = _convolve(x.reshape(math.prod(leading), *image_shape), conv_layers, name=f'image_{i}')
        x = x.reshape(*leading, *x.shape[1:])
      parts.append(x.reshape(*leading, math.prod(x.shape[len(leading) :])))
    return jnp.concatenate(parts, axis=-1)

  return encode


def _convolve(x: Array, conv_layers: Sequence[tuple[int, int, int]], name: str) -> Array:
  for i, (channels, kernel, stride) in enumerate(conv_layers):
    x = jax.nn.relu(hk.Conv2D(channels, kernel, stride, name=f'{name}_conv_{i}')(x))
  return x


def example(spec: PyTree) -> PyTree:
  """Makes an observation of zeros, to initialise networks with."""
  return jax.tree.map(lambda leaf: jnp.zeros(leaf.shape, leaf.dtype), spec)


def network(function: Callable[..., Any], *inputs: Any, stochastic: bool = False) -> Network:
  """Turns a Haiku function into pure functions.

  Args:
    function: uses Haiku modules.
    *inputs: examples of its inputs.
    stochastic: whether it draws random numbers, by `hk.maybe_next_rng_key()`, which is None where it is to be
      deterministic.

  Returns:
    The network.
  """
  transformed = hk.transform(function)

  def apply(params: PyTree, *inputs: Any, key: PRNGKey | None = None) -> Any:
    return transformed.apply(params, key, *inputs)

  return Network(lambda key: transformed.init(key, *inputs), apply, stochastic)


def ensemble(function: Callable[..., Array], size: int, *inputs: Any, stochastic: bool = False) -> Network:
  """Turns a Haiku function into an ensemble of networks, each with weights and random numbers of its own.

  Args:
    function: uses Haiku modules.
    size: N, the number of members.
    *inputs: examples of its inputs, which all members share.
    stochastic: as in `network`.

  Returns:
    The network, whose params and output lead with the axis `[N]`.
  """
  transformed = hk.transform(function)
  shared = [None] * len(inputs)

  def init(key: PRNGKey) -> PyTree:
    return jax.vmap(transformed.init, in_axes=(0, *shared))(jax.random.split(key, size), *inputs)

  def apply(params: PyTree, *inputs: Any, key: PRNGKey | None = None) -> Array:
    keys = None if key is None else jax.random.split(key, size)
    axes = (0, None if key is None else 0, *shared)
    return jax.vmap(transformed.apply, in_axes=axes, axis_size=size)(params, keys, *inputs)

  return Network(init, apply, stochastic)
