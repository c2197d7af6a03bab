"""The actor's objective."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp

from sac_blocks import reductions
from sac_blocks.objectives import parts
from sac_blocks.types import ActorCritic, Array, Components, Info, Objective, PRNGKey, ReduceFn, Transition


def actor_objective(networks: ActorCritic, *, reduce: ReduceFn = reductions.minimum) -> Objective:
  """Binds the actor's loss, minus the soft value, to networks, of any kind of action.

  Args:
    networks: actor and critics; a distribution over continuous actions must sample reparameterised.
    reduce: what stands for Q, a function of all critics' values; see `sac_blocks.reductions`.

  Returns:
    The mean over examples of minus the soft value. It reads the components `actor`, `critic` and `log_alpha`,
    and reports `entropy` `[B]`, an estimate or exact, in nats, and its mean `policy_entropy`; for hybrid
    actions a dict of `discrete` and `continuous`, and `policy_entropy_discrete` and
    `policy_entropy_continuous`; where actions are enumerated also `legal` `[B, A]`, those that each state
    allows.

  >>> from sac_blocks import actions
  >>> from sac_blocks.distributions import Categorical
  >>> from sac_blocks.types import Network
  >>> networks = ActorCritic(
  ...     actor=Network(None, lambda logits, obs: Categorical(logits)),
  ...     critic=Network(None, lambda q, obs: q),  # params that are the values themselves
  ...     actions=actions.enumerated(2))
  >>> q = jnp.array([[[1.0, 3.0]], [[2.0, 3.0]]])
  >>> params = {'actor': jnp.zeros((1, 2)), 'critic': q, 'log_alpha': jnp.array(0.0)}
  >>> batch = Transition(None, None, None, None, None)
  >>> loss, aux = actor_objective(networks).loss(params, batch, jax.random.key(0), {})
  >>> loss, aux['policy_entropy']  # -(1 + 3) / 2 - log 2
  (Array(-2.693147, dtype=float32), Array(0.693147, dtype=float32))

  Reference: Haarnoja et al. 2018, eq. 7, arXiv 1812.05905; Christodoulou 2019, eq. 12, arXiv 1910.07207;
  Delalleau et al. 2019, arXiv 1912.11077.
  """
  actions = networks.actions

  def loss(params: Components, batch: Transition, key: PRNGKey, info: Info) -> tuple[Array, dict[str, Any]]:
    del info
    actor_key, critic_key = (jax.random.fold_in(key, i) for i in (2, 3))
    policy = networks.actor(params['actor'], batch.obs_tm1, key=actor_key)
    q = parts.bind(networks.critic, params['critic'], batch.obs_tm1, critic_key)
    soft = actions.soft_value(policy, q, parts.alpha(params), reduce, key)
    aux = {'entropy': soft.entropy, **parts.named('policy_entropy', jax.tree.map(jnp.mean, soft.entropy))}
    if soft.legal is not None:
      aux['legal'] = soft.legal
    return -jnp.mean(soft.value), aux

  return Objective(loss, metrics=tuple(parts.names('policy_entropy', actions.parts)))
