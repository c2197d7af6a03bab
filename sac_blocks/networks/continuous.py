"""Default networks for continuous actions, in Haiku."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Literal

import jax
import jax.numpy as jnp

from sac_blocks import actions
from sac_blocks.distributions import TanhGaussian
from sac_blocks.networks import heads, torsos
from sac_blocks.types import ActorCritic, Array, PyTree


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
  conv_layers: Sequence[tuple[int, int, int]] | None = torsos.CONV_LAYERS,
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
    conv_layers: channels, kernel size and stride of the convolutions that an image (uint8 with two or three
      axes) passes through first; None flattens images, too.

  Returns:
    The networks; the leaves of what each sees are flattened and joined in the order of the keys. Actor and
    critics share no weights.

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
  scale = heads.bounded_scale(log_scale, log_scale_bounds)
  encode_policy = torsos.encoder('policy_keys', observation_spec, policy_keys, conv_layers)
  encode_critic = torsos.encoder('critic_keys', observation_spec, critic_keys, conv_layers)
  mlp = functools.partial(torsos.mlp, hidden_sizes=hidden_sizes, activation=activation, layer_norm=layer_norm)

  def actor(obs: PyTree) -> TanhGaussian:
    loc, raw = jnp.split(mlp(encode_policy(obs), 2 * action_size), 2, axis=-1)
    return TanhGaussian(loc, scale(raw))

  def critic(obs: PyTree, action: Array) -> Array:
    x = encode_critic(obs)
    return mlp(jnp.concatenate([x, action.astype(x.dtype)], axis=-1), 1)[..., 0]

  example = torsos.example(observation_spec)
  return ActorCritic(
    actor=torsos.network(actor, example),
    critic=torsos.ensemble(critic, num_critics, example, jnp.zeros(action_size)),
    actions=actions.sampled(action_size),
    observation_spec=observation_spec,
  )
