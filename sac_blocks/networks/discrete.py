"""Default networks for discrete actions, in Haiku."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any

import jax
import numpy as np

from sac_blocks import actions, observations
from sac_blocks.distributions import Categorical, FactoredCategorical
from sac_blocks.networks import heads, torsos
from sac_blocks.types import ActorCritic, Array, PyTree

# The critics' last layer has an output for each joint action; beyond this it is no longer small.
_MAX_JOINT_ACTIONS = 10_000


def make_discrete_networks(
  observation_spec: PyTree,
  num_actions: int | Sequence[int] | np.ndarray,
  *,
  hidden_sizes: Sequence[int] = (128, 128),
  activation: Callable[[Array], Array] = jax.nn.relu,
  layer_norm: bool = False,
  num_critics: int = 2,
  policy_keys: Sequence[str] | None = None,
  critic_keys: Sequence[str] | None = None,
  conv_layers: Sequence[tuple[int, int, int]] | None = torsos.CONV_LAYERS,
) -> ActorCritic:
  """Makes a categorical actor and an ensemble of critics with an output for each action.

  Factored actions, K independent choices as in gymnasium's `MultiDiscrete`, get an actor of K independent
  categoricals and critics of all joint actions: the policy factors, the values don't, so that expectations
  and the minimum over critics are exact and critics see how choices interact. The price is an output for
  each joint action, so their number is limited.

  A dict observation with the key `action_mask` carries the legality of actions: bool `[A]`, for factored
  actions the masks of the factors side by side, `[n_1 + ... + n_K]`. The actor obeys it; neither network
  sees it as an input, unless `policy_keys` or `critic_keys` name it.

  Args:
    observation_spec: the spec of one observation: an array spec, or a dict of them.
    num_actions: A, or `[K]`, the number of values of each factor.
    hidden_sizes: widths of the hidden layers of actor and critics.
    activation: their nonlinearity.
    layer_norm: whether each hidden layer is normalised before its nonlinearity.
    num_critics: N, the number of critics.
    policy_keys: the keys of a dict observation that the actor sees; by default all but the mask.
    critic_keys: the same for the critics.
    conv_layers: channels, kernel size and stride of the convolutions that an image (uint8 with two or three
      axes) passes through first; None flattens images, too.

  Returns:
    The networks; the leaves of what each sees are flattened and joined in the order of the keys. Actor and
    critics share no weights.

  Raises:
    ValueError: an option is out of range, the mask doesn't fit the actions, there are too many joint actions,
      or keys are asked of an observation that lacks them.

  >>> networks = make_discrete_networks(jax.ShapeDtypeStruct((4,), 'float32'), num_actions=2)
  >>> networks.critic.init(jax.random.key(0))['output']['w'].shape
  (2, 128, 2)

  Reference: Christodoulou 2019, arXiv 1910.07207; independent branches: Tavakoli et al. 2018,
  arXiv 1711.08946.
  """
  # Not isinstance: gymnasium's `nvec` is an array.
  factored = np.ndim(num_actions) > 0
  sizes = tuple(map(int, np.atleast_1d(num_actions)))
  if not sizes or min(sizes) < 1 or num_critics < 1:
    raise ValueError(f'num_actions and num_critics must be at least 1, got {num_actions} and {num_critics}.')
  if math.prod(sizes) > _MAX_JOINT_ACTIONS:
    raise ValueError(
      f'The sizes {sizes} make {math.prod(sizes):,} joint actions, but critics of all of them are limited to '
      f'{_MAX_JOINT_ACTIONS:,}: choose fewer factors or values.'
    )
  masked = heads.is_masked(observation_spec, sum(sizes))
  policy_keys, critic_keys = (heads.input_keys(observation_spec, keys) for keys in (policy_keys, critic_keys))
  encode_policy = torsos.encoder('policy_keys', observation_spec, policy_keys, conv_layers)
  encode_critic = torsos.encoder('critic_keys', observation_spec, critic_keys, conv_layers)
  mlp = functools.partial(torsos.mlp, hidden_sizes=hidden_sizes, activation=activation, layer_norm=layer_norm)

  def actor(obs: PyTree) -> Any:
    logits = mlp(encode_policy(obs), sum(sizes))
    mask = obs[observations.ACTION_MASK] if masked else None
    return FactoredCategorical(logits, sizes, mask) if factored else Categorical(logits, mask)

  def critic(obs: PyTree) -> Array:
    return mlp(encode_critic(obs), math.prod(sizes))

  example = torsos.example(observation_spec)
  return ActorCritic(
    actor=torsos.network(actor, example),
    critic=torsos.ensemble(critic, num_critics, example),
    actions=actions.enumerated(math.prod(sizes)),
    observation_spec=observation_spec,
  )
