"""An actor-critic of plain JAX functions, with noise that its observation carries.

With linear layers and no random numbers, every step of an algorithm can be worked out in NumPy, and one
device and two draw the same noise.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from sac_blocks import ActorCritic, Network, actions
from sac_blocks.distributions import TanhGaussian

OBSERVATION_SIZE = 3
ACTION_SIZE = 2


class NoiseFromObservation(NamedTuple):
  """A tanh-Gaussian whose sample uses a given epsilon instead of a random one."""

  loc: Any
  scale: Any
  epsilon: Any

  def sample_and_log_prob(self, *, seed: Any) -> Any:
    del seed
    u = self.loc + self.scale * self.epsilon
    density = -0.5 * self.epsilon**2 - jnp.log(self.scale) - 0.5 * jnp.log(2 * jnp.pi)
    squash = 2.0 * (jnp.log(2.0) - u - jax.nn.softplus(-2.0 * u))
    return jnp.tanh(u), jnp.sum(density - squash, axis=-1)

  def mode(self) -> Any:
    return jnp.tanh(self.loc)


def make_plain_networks(
  num_critics: int = 2, *, random: bool = False, dtype: Any = jnp.float32
) -> ActorCritic:
  """Linear actor and critics; with `random`, the actor is an ordinary `TanhGaussian`."""

  def init_actor(key: Any) -> Any:
    weights = 0.3 * jax.random.normal(key, (OBSERVATION_SIZE, ACTION_SIZE), dtype)
    return {'loc': weights, 'log_scale': jnp.full((ACTION_SIZE,), -0.5, dtype)}

  def actor(params: Any, obs: Any) -> Any:
    loc = obs @ params['loc']
    scale = jnp.broadcast_to(jnp.exp(params['log_scale']), loc.shape)
    if random:
      return TanhGaussian(loc, scale)
    return NoiseFromObservation(loc, scale, jnp.sin(7.0 * obs[..., :ACTION_SIZE]))

  def init_critic(key: Any) -> Any:
    shape = (num_critics, OBSERVATION_SIZE + ACTION_SIZE)
    return {'w': jax.random.normal(key, shape, dtype), 'b': jnp.zeros((num_critics,), dtype)}

  def critic(params: Any, obs: Any, action: Any) -> Any:
    x = jnp.concatenate([obs, action], axis=-1)
    q = jnp.einsum('...i,ni->n...', x, params['w'])
    # Curved, so that the gradient through the action differs from one action to the next.
    return jnp.tanh(q) + q + params['b'].reshape(-1, *[1] * (q.ndim - 1))

  spec = jax.ShapeDtypeStruct((OBSERVATION_SIZE,), jnp.float32)
  networks = Network(init_actor, actor), Network(init_critic, critic)
  return ActorCritic(*networks, actions.sampled(ACTION_SIZE), spec)
