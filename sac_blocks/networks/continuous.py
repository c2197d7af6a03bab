"""Default actor and critic networks, in Haiku."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal

import haiku as hk
import jax
import jax.numpy as jnp

from sac_blocks.distributions import TanhGaussian
from sac_blocks.types import ActorCritic, Array, Network, PRNGKey, PyTree


def make_networks(
  observation_spec: PyTree,
  action_size: int,
  *,
  hidden_sizes: Sequence[int] = (256, 256),
  activation: Callable[[Array], Array] = jax.nn.relu,
  layer_norm: bool = False,
  num_critics: int = 2,
  log_scale: Literal['clip', 'tanh'] = 'clip',
  log_scale_bounds: tuple[float, float] | None = None,
  policy_keys: Sequence[str] | None = None,
  critic_keys: Sequence[str] | None = None,
) -> ActorCritic:
  """Makes a tanh-Gaussian actor and an ensemble of critics, all of them MLPs.

  Args:
    observation_spec: the spec of one observation: an array spec, or a dict of them.
    action_size: D, the number of action dimensions.
    hidden_sizes: widths of the hidden layers of actor and critics.
    activation: their nonlinearity.
    layer_norm: whether each hidden layer is normalised before its nonlinearity.
    num_critics: N, the number of critics.
    log_scale: how the log of the policy's scale is bounded: `'clip'`, as the paper's code does, whose
      gradient is 0 beyond the bounds, or `'tanh'`, smoothly.
    log_scale_bounds: lowest and highest log scale; by default (-20, 2) for clip and (-5, 2) for tanh.
    policy_keys: the keys of a dict observation that the actor sees; by default all.
    critic_keys: the same for the critics.

  Returns:
    The networks; the leaves of what each sees are flattened and joined in the order of the keys.

  Raises:
    ValueError: an option is unknown, or keys are asked of an observation that lacks them.

  >>> networks = make_networks(jax.ShapeDtypeStruct((3,), jnp.float32), action_size=1)
  >>> networks.critic.init(jax.random.key(0))['hidden_0']['w'].shape
  (2, 4, 256)

  Reference: Haarnoja et al. 2018, table 1 (appendix D), arXiv 1812.05905; layer norm in critics: Hiraoka
  et al. 2021, arXiv 2110.02034.
  """
  if action_size < 1 or num_critics < 1:
    raise ValueError(f'action_size and num_critics must be at least 1, got {action_size} and {num_critics}.')
  if log_scale not in ('clip', 'tanh'):
    raise ValueError(f"log_scale must be 'clip' or 'tanh', got {log_scale!r}.")
  low, high = log_scale_bounds or ((-20.0, 2.0) if log_scale == 'clip' else (-5.0, 2.0))
  if not low < high:
    raise ValueError(f'log_scale_bounds must be (low, high) with low < high, got {(low, high)}.')
  policy_select = _selector('policy_keys', observation_spec, policy_keys)
  critic_select = _selector('critic_keys', observation_spec, critic_keys)

  def mlp(x: Array, output_size: int) -> Array:
    for i, size in enumerate(hidden_sizes):
      x = hk.Linear(size, name=f'hidden_{i}')(x)
      if layer_norm:
        x = hk.LayerNorm(axis=-1, create_scale=True, create_offset=True, name=f'norm_{i}')(x)
      x = activation(x)
    return hk.Linear(output_size, name='output')(x)

  def actor(obs: PyTree) -> TanhGaussian:
    loc, raw = jnp.split(mlp(policy_select(obs), 2 * action_size), 2, axis=-1)
    if log_scale == 'clip':
      bounded = jnp.clip(raw, low, high)
    else:
      bounded = low + 0.5 * (high - low) * (jnp.tanh(raw) + 1.0)
    return TanhGaussian(loc, jnp.exp(bounded))

  def critic(obs: PyTree, action: Array) -> Array:
    x = critic_select(obs)
    return mlp(jnp.concatenate([x, action.astype(x.dtype)], axis=-1), 1)[..., 0]

  actor_network = hk.without_apply_rng(hk.transform(actor))
  critic_network = hk.without_apply_rng(hk.transform(critic))
  example = jax.tree.map(lambda spec: jnp.zeros(spec.shape, spec.dtype), observation_spec)

  def init_critics(key: PRNGKey) -> PyTree:
    keys = jax.random.split(key, num_critics)
    return jax.vmap(critic_network.init, in_axes=(0, None, None))(keys, example, jnp.zeros(action_size))

  return ActorCritic(
    actor=Network(lambda key: actor_network.init(key, example), actor_network.apply),
    critic=Network(init_critics, jax.vmap(critic_network.apply, in_axes=(0, None, None))),
    action_size=action_size,
    observation_spec=observation_spec,
  )


def _selector(option: str, spec: PyTree, keys: Sequence[str] | None) -> Callable[[PyTree], Array]:
  """Returns the function that joins the chosen leaves of an observation `[..., *shape]` into `[..., F]`."""
  if keys is not None:
    if not isinstance(spec, Mapping):
      raise ValueError(f'{option} needs a dict observation, got the spec {spec}.')
    if missing := [key for key in keys if key not in spec]:
      raise ValueError(f'{option} asks for {missing}, but the observation has {sorted(spec)}.')
    if not keys:
      raise ValueError(f'{option} must name at least one of {sorted(spec)}, got none.')

  def chosen(tree: Any) -> list[Any]:
    return jax.tree.leaves(tree if keys is None else [tree[key] for key in keys])

  ranks = [len(leaf.shape) for leaf in chosen(spec)]

  def select(obs: PyTree) -> Array:
    flat = []
    for rank, leaf in zip(ranks, chosen(obs), strict=True):
      leading = leaf.shape[: leaf.ndim - rank]
      size = math.prod(leaf.shape[leaf.ndim - rank :])
      flat.append(leaf.reshape(*leading, size).astype(jnp.promote_types(leaf.dtype, jnp.float32)))
    return jnp.concatenate(flat, axis=-1)

  return select
