"""The objectives of Soft Actor-Critic with discrete policies."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

import jax.numpy as jnp
import optax

from sac_blocks.losses.actor import categorical_actor_loss
from sac_blocks.losses.values import categorical_soft_q_target
from sac_blocks.objectives import ensembles
from sac_blocks.types import (
  ActorCritic,
  Array,
  Components,
  DiscreteDistribution,
  Info,
  Objective,
  PRNGKey,
  Transition,
)


def discrete_critic_objective(
  networks: ActorCritic,
  *,
  over_critics: Literal['min', 'mean'] = 'min',
  entropy_backup: bool = True,
  pointwise_loss: Callable[[Array, Array], Array] = optax.l2_loss,
) -> Objective:
  """Binds the critic loss to networks with discrete actions.

  Args:
    networks: an actor that gives a `DiscreteDistribution`, and critics of all actions.
    over_critics: whether targets are made of the minimum over the critics, for every action by itself, or
      of their mean.
    entropy_backup: whether the target counts the entropy of the next policy.
    pointwise_loss: as in `twin_critic_loss`.

  Returns:
    The mean over examples of `categorical_twin_critic_loss` towards `categorical_soft_q_target`, weighted by
    `batch.weights` if given. It reads the components `actor`, `critic`, `target_critic` and `log_alpha`, and
    reports `td_error` `[N, B]` and the scalar `q_mean`, both at the actions taken.

  Raises:
    ValueError: `over_critics` is unknown.

  >>> from sac_blocks.distributions import Categorical
  >>> from sac_blocks.types import Network
  >>> networks = ActorCritic(
  ...     actor=Network(None, lambda logits, obs: Categorical(logits)),
  ...     critic=Network(None, lambda q, obs: q),  # params that are the values themselves
  ...     action_size=2)
  >>> q = jnp.array([[[1.0, 3.0]], [[2.0, 3.0]]])
  >>> params = {'actor': jnp.zeros((1, 2)), 'critic': q, 'target_critic': q, 'log_alpha': jnp.array(0.0)}
  >>> one = jnp.ones(1)
  >>> batch = Transition(None, a_tm1=jnp.array([1]), r_t=one, discount_t=0.5 * one, obs_t=None)
  >>> objective = discrete_critic_objective(networks, entropy_backup=False)
  >>> loss, aux = objective.loss(params, batch, None, {})
  >>> loss, aux['td_error']  # towards 1 + 0.5 (1 + 3) / 2 = 2
  (Array(1., dtype=float32), Array([[-1.], [-1.]], dtype=float32))

  Reference: Christodoulou 2019, eqs. 4 and 10, arXiv 1910.07207; mean over critics: the double average of
  Zhou et al. 2022, arXiv 2209.10081.
  """
  reduce = ensembles.reduction(over_critics)

  def loss(params: Components, batch: Transition, key: PRNGKey, info: Info) -> tuple[Array, dict[str, Array]]:
    del key, info
    policy = networks.actor.apply(params['actor'], batch.obs_t)
    q_t = reduce(networks.critic.apply(params['target_critic'], batch.obs_t))
    alpha = jnp.exp(params['log_alpha']) if entropy_backup else 0.0
    target = categorical_soft_q_target(batch.r_t, batch.discount_t, q_t, policy.logits, alpha)
    q_tm1 = networks.critic.apply(params['critic'], batch.obs_tm1)
    # Discrete policies agree on the places of actions, whatever the state.
    return ensembles.regression(q_tm1, _index(policy, batch.a_tm1), target, batch, pointwise_loss)

  return Objective(loss, metrics=('q_mean',))


def discrete_actor_objective(
  networks: ActorCritic, *, over_critics: Literal['min', 'mean'] = 'min'
) -> Objective:
  """Binds the actor loss to networks with discrete actions.

  Args:
    networks: an actor that gives a `DiscreteDistribution`, and critics of all actions.
    over_critics: as in `discrete_critic_objective`.

  Returns:
    The mean over examples of `categorical_actor_loss`. It reads the components `actor`, `critic` and
    `log_alpha`, and reports `entropy` `[B]`, exact and in nats, its mean `policy_entropy`, and `legal`
    `[B, A]`, the actions that each state allows.

  Raises:
    ValueError: `over_critics` is unknown.

  >>> from sac_blocks.distributions import Categorical
  >>> from sac_blocks.types import Network
  >>> networks = ActorCritic(
  ...     actor=Network(None, lambda logits, obs: Categorical(logits)),
  ...     critic=Network(None, lambda q, obs: q),  # params that are the values themselves
  ...     action_size=2)
  >>> q = jnp.array([[[1.0, 3.0]], [[2.0, 3.0]]])
  >>> params = {'actor': jnp.zeros((1, 2)), 'critic': q, 'log_alpha': jnp.array(0.0)}
  >>> batch = Transition(None, None, None, None, None)
  >>> loss, aux = discrete_actor_objective(networks).loss(params, batch, None, {})
  >>> loss, aux['policy_entropy']  # -(1 + 3) / 2 - log 2
  (Array(-2.693147, dtype=float32), Array(0.693147, dtype=float32))

  Reference: Christodoulou 2019, eq. 12, arXiv 1910.07207; mean over critics: the double average of Zhou
  et al. 2022, arXiv 2209.10081.
  """
  reduce = ensembles.reduction(over_critics)

  def loss(params: Components, batch: Transition, key: PRNGKey, info: Info) -> tuple[Array, dict[str, Array]]:
    del key, info
    logits = networks.actor.apply(params['actor'], batch.obs_tm1).logits
    q = reduce(networks.critic.apply(params['critic'], batch.obs_tm1))
    losses, entropy = categorical_actor_loss(logits, q, jnp.exp(params['log_alpha']))
    aux = {'entropy': entropy, 'policy_entropy': jnp.mean(entropy), 'legal': logits != -jnp.inf}
    return jnp.mean(losses), aux

  return Objective(loss, metrics=('policy_entropy',))


def _index(policy: DiscreteDistribution, action: Array) -> Array:
  return policy.index(action) if hasattr(policy, 'index') else action
