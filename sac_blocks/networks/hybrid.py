"""Default networks for hybrid actions, a choice with a continuous action, in Haiku."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Literal

import jax
import jax.numpy as jnp

from sac_blocks import actions, observations
from sac_blocks.distributions import Categorical, Hybrid, TanhGaussian
from sac_blocks.networks import heads, torsos
from sac_blocks.types import ActorCritic, Array, PyTree


def make_hybrid_networks(
  observation_spec: PyTree,
  num_actions: int,
  action_size: int,
  *,
  shared: bool = False,
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
  """Makes an actor of a categorical choice and tanh-Gaussians, and an ensemble of critics of all branches.

  One MLP of the actor gives both parts. A critic sees the observation's features, which branch it is,
  one-hot, and the branch's own continuous action: one evaluation for each branch, all of them in one batch,
  so that no value depends on the continuous action of another branch.

  A dict observation with the key `action_mask` carries the legality of the branches, bool `[A]`. The actor
  obeys it; neither network sees it as an input, unless `policy_keys` or `critic_keys` name it.

  Args:
    observation_spec: the spec of one observation: an array spec, or a dict of them.
    num_actions: A, the number of branches.
    action_size: D, the number of dimensions of the continuous action.
    shared: whether all branches share one Gaussian, for continuous actions that don't depend on the choice;
      by default each has its own.
    hidden_sizes: widths of the hidden layers of actor and critics.
    activation: their nonlinearity.
    layer_norm: whether each hidden layer is normalised before its nonlinearity.
    num_critics: N, the number of critics.
    log_scale: how the log of the policy's scale is bounded: `'clip'`, as SAC's own code does, whose
      gradient is 0 beyond the bounds, or `'tanh'`, smoothly.
    log_scale_bounds: lowest and highest log scale; by default (-20, 2) for clip and (-5, 2) for tanh.
    policy_keys: the keys of a dict observation that the actor sees; by default all but the mask.
    critic_keys: the same for the critics.
    conv_layers: channels, kernel size and stride of the convolutions that an image (uint8 with two or three
      axes) passes through first; None flattens images, too.

  Returns:
    The networks; the leaves of what each sees are flattened and joined in the order of the keys. Actor and
    critics share no weights.

  Raises:
    ValueError: an option is out of range, the mask doesn't fit the branches, or keys are asked of an
      observation that lacks them.

  >>> spec = jax.ShapeDtypeStruct((4,), 'float32')
  >>> networks = make_hybrid_networks(spec, num_actions=3, action_size=2)
  >>> networks.critic.init(jax.random.key(0))['hidden_0']['w'].shape
  (2, 9, 256)

  Reference: Delalleau et al. 2019, arXiv 1912.11077; one evaluation for each branch: Bester et al. 2019,
  arXiv 1905.04388.
  """
  if min(num_actions, action_size, num_critics) < 1:
    raise ValueError(
      'num_actions, action_size and num_critics must be at least 1, got '
      f'{num_actions}, {action_size} and {num_critics}.'
    )
  scale = heads.bounded_scale(log_scale, log_scale_bounds)
  masked = heads.is_masked(observation_spec, num_actions)
  policy_keys, critic_keys = (heads.input_keys(observation_spec, keys) for keys in (policy_keys, critic_keys))
  encode_policy = torsos.encoder('policy_keys', observation_spec, policy_keys, conv_layers)
  encode_critic = torsos.encoder('critic_keys', observation_spec, critic_keys, conv_layers)
  mlp = functools.partial(torsos.mlp, hidden_sizes=hidden_sizes, activation=activation, layer_norm=layer_norm)
  event_shape = (action_size,) if shared else (num_actions, action_size)
  num_gaussians = action_size if shared else num_actions * action_size

  def actor(obs: PyTree) -> Hybrid:
    output = mlp(encode_policy(obs), num_actions + 2 * num_gaussians)
    logits, gaussians = jnp.split(output, (num_actions,), axis=-1)
    loc, raw = (x.reshape(*x.shape[:-1], *event_shape) for x in jnp.split(gaussians, 2, axis=-1))
    mask = obs[observations.ACTION_MASK] if masked else None
    return Hybrid(Categorical(logits, mask), TanhGaussian(loc, scale(raw)))

  def critic(obs: PyTree, action: Array) -> Array:
    x = encode_critic(obs)
    branches = (*x.shape[:-1], num_actions)
    parts = (
      jnp.broadcast_to(x[..., None, :], (*branches, x.shape[-1])),
      jnp.broadcast_to(jnp.eye(num_actions, dtype=x.dtype), (*branches, num_actions)),
      action.astype(x.dtype),
    )
    return mlp(jnp.concatenate(parts, axis=-1), 1)[..., 0]

  example = torsos.example(observation_spec)
  return ActorCritic(
    actor=torsos.network(actor, example),
    critic=torsos.ensemble(critic, num_critics, example, jnp.zeros((num_actions, action_size))),
    actions=actions.hybrid(num_actions, action_size),
    observation_spec=observation_spec,
  )
