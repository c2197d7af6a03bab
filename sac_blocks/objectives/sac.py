"""The objectives of Soft Actor-Critic with reparameterised policies."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

import jax.numpy as jnp
import optax

from sac_blocks import checks
from sac_blocks.losses.actor import soft_policy_loss
from sac_blocks.losses.critic import twin_critic_loss
from sac_blocks.losses.temperature import temperature_loss
from sac_blocks.losses.values import soft_q_target
from sac_blocks.objectives import ensembles
from sac_blocks.types import (
  ActorCritic,
  Array,
  Components,
  Info,
  Objective,
  PRNGKey,
  Transition,
)


def critic_objective(
  networks: ActorCritic,
  *,
  entropy_backup: bool = True,
  pointwise_loss: Callable[[Array, Array], Array] = optax.l2_loss,
) -> Objective:
  """Binds the critic loss to networks.

  Args:
    networks: actor and critics.
    entropy_backup: whether the target counts the entropy of the next action.
    pointwise_loss: as in `twin_critic_loss`.

  Returns:
    The mean over examples of `twin_critic_loss` towards `soft_q_target`, weighted by `batch.weights` if
    given. It reads the components `actor`, `critic`, `target_critic` and `log_alpha`, and reports `td_error`
    `[N, B]` and the scalar `q_mean`.

  >>> import jax
  >>> from sac_blocks.distributions import TanhGaussian
  >>> from sac_blocks.types import Network
  >>> networks = ActorCritic(
  ...     actor=Network(None, lambda loc, obs: TanhGaussian(loc, jnp.ones_like(loc))),
  ...     critic=Network(None, lambda q, obs, action: q),  # params that are the values themselves
  ...     action_size=1)
  >>> q = jnp.array([[5.0], [4.0]])
  >>> params = {'actor': jnp.zeros((1, 1)), 'critic': q, 'target_critic': q, 'log_alpha': jnp.array(0.0)}
  >>> batch = Transition(None, None, r_t=jnp.array([1.0]), discount_t=jnp.array([0.5]), obs_t=None)
  >>> objective = critic_objective(networks, entropy_backup=False)
  >>> loss, aux = objective.loss(params, batch, jax.random.key(0), {})
  >>> loss, aux['td_error']  # towards 1 + 0.5 min(5, 4) = 3
  (Array(2.5, dtype=float32), Array([[-2.], [-1.]], dtype=float32))

  Reference: Haarnoja et al. 2018, eqs. 3 and 5, arXiv 1812.05905.
  """

  def loss(params: Components, batch: Transition, key: PRNGKey, info: Info) -> tuple[Array, dict[str, Array]]:
    del info
    policy = networks.actor.apply(params['actor'], batch.obs_t)
    a_t, log_prob_t = policy.sample_and_log_prob(seed=key)
    q_t = networks.critic.apply(params['target_critic'], batch.obs_t, a_t)
    alpha = jnp.exp(params['log_alpha']) if entropy_backup else 0.0
    target = soft_q_target(batch.r_t, batch.discount_t, q_t, log_prob_t, alpha)
    q_tm1 = networks.critic.apply(params['critic'], batch.obs_tm1, batch.a_tm1)
    losses = twin_critic_loss(q_tm1, target, pointwise_loss=pointwise_loss)
    return ensembles.summary(losses, q_tm1, target, batch)

  return Objective(loss, metrics=('q_mean',))


def actor_objective(networks: ActorCritic) -> Objective:
  """Binds the actor loss to networks.

  Args:
    networks: actor and critics; the actor's distribution must sample reparameterised actions.

  Returns:
    The mean over examples of `soft_policy_loss`. It reads the components `actor`, `critic` and `log_alpha`,
    and reports `entropy` `[B]`, the estimate `-log_prob` per example, and its mean `policy_entropy`, in nats.

  >>> import jax
  >>> from sac_blocks.distributions import TanhGaussian
  >>> from sac_blocks.types import Network
  >>> networks = ActorCritic(
  ...     actor=Network(None, lambda loc, obs: TanhGaussian(loc, jnp.ones_like(loc))),
  ...     critic=Network(None, lambda q, obs, action: q),  # params that are the values themselves
  ...     action_size=1)
  >>> params = {'actor': jnp.zeros((1, 1)), 'critic': jnp.array([[5.0], [4.0]]), 'log_alpha': jnp.log(0.0)}
  >>> batch = Transition(None, None, None, None, None)
  >>> loss, aux = actor_objective(networks).loss(params, batch, jax.random.key(0), {})
  >>> loss, aux['entropy'].shape  # the temperature is 0 here
  (Array(-4., dtype=float32), (1,))

  Reference: Haarnoja et al. 2018, eq. 7, arXiv 1812.05905.
  """

  def loss(params: Components, batch: Transition, key: PRNGKey, info: Info) -> tuple[Array, dict[str, Array]]:
    del info
    policy = networks.actor.apply(params['actor'], batch.obs_tm1)
    action, log_prob = policy.sample_and_log_prob(seed=key)
    q = networks.critic.apply(params['critic'], batch.obs_tm1, action)
    losses = soft_policy_loss(log_prob, q, jnp.exp(params['log_alpha']))
    return jnp.mean(losses), {'entropy': -log_prob, 'policy_entropy': -jnp.mean(log_prob)}

  return Objective(loss, metrics=('policy_entropy',))


def temperature_objective(
  target_entropy: Array | float | Callable[[Info], Array],
  *,
  parameterization: Literal['alpha', 'log_alpha'] = 'alpha',
) -> Objective:
  """Binds the temperature loss to a target entropy.

  Args:
    target_entropy: in nats, a scalar or `[B]`; or a function of `info`, where it depends on the state or
      changes in training.
    parameterization: as in `temperature_loss`.

  Returns:
    The mean over examples of `temperature_loss`. It reads the component `log_alpha` and the `entropy` that
    the actor's block has put into `info`, so that the actor doesn't run again; it reports `alpha`, as it
    was before the step, and where the target is a function its mean, `target_entropy`.

  >>> import jax
  >>> params, info = {'log_alpha': jnp.float32(0.0)}, {'entropy': jnp.array([-1.5, -2.0])}
  >>> loss = lambda params: temperature_objective(-1.0).loss(params, None, None, info)[0]
  >>> jax.grad(loss)(params)  # descent raises the temperature while the entropy is too low
  {'log_alpha': Array(-0.75, dtype=float32)}

  Reference: Haarnoja et al. 2018, eq. 18, arXiv 1812.05905.
  """

  def loss(params: Components, batch: Transition, key: PRNGKey, info: Info) -> tuple[Array, dict[str, Array]]:
    del batch, key
    entropy = checks.computed(info, 'entropy', 'temperature_objective')
    target = target_entropy(info) if callable(target_entropy) else target_entropy
    losses = temperature_loss(params['log_alpha'], entropy, target, parameterization=parameterization)
    aux = {'alpha': jnp.exp(params['log_alpha'])}
    if callable(target_entropy):
      aux['target_entropy'] = jnp.mean(target)
    return jnp.mean(losses), aux

  return Objective(loss, metrics=('alpha', 'target_entropy') if callable(target_entropy) else ('alpha',))
