"""The objectives of Soft Actor-Critic with hybrid policies, a choice with a continuous action."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

import jax.numpy as jnp
import optax

from sac_blocks import checks
from sac_blocks.losses.hybrid import hybrid_actor_loss, hybrid_soft_q_target
from sac_blocks.losses.temperature import temperature_loss
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


def hybrid_critic_objective(
  networks: ActorCritic,
  *,
  over_critics: Literal['min', 'mean'] = 'min',
  entropy_backup: bool = True,
  pointwise_loss: Callable[[Array, Array], Array] = optax.l2_loss,
) -> Objective:
  """Binds the critic loss to networks with hybrid actions.

  Args:
    networks: an actor that gives a `Hybrid`, and critics of all branches.
    over_critics: whether targets are made of the minimum over the critics, for every branch by itself, or
      of their mean.
    entropy_backup: whether the target counts the entropies of the next policy.
    pointwise_loss: as in `twin_critic_loss`.

  Returns:
    The mean over examples of `categorical_twin_critic_loss` towards `hybrid_soft_q_target`, weighted by
    `batch.weights` if given. It reads the components `actor`, `critic`, `target_critic` and `log_alpha`, a
    dict of `discrete` and `continuous`, and reports `td_error` `[N, B]` and the scalar `q_mean`, both at the
    actions taken.

  Raises:
    ValueError: `over_critics` is unknown.

  >>> import jax
  >>> from sac_blocks.distributions import Categorical, Hybrid, TanhGaussian
  >>> from sac_blocks.types import Network
  >>> gaussian = TanhGaussian(jnp.zeros((1, 2, 3)), jnp.ones((1, 2, 3)))
  >>> networks = ActorCritic(
  ...     actor=Network(None, lambda logits, obs: Hybrid(Categorical(logits), gaussian)),
  ...     critic=Network(None, lambda q, obs, x: q),  # params that are the values themselves
  ...     action_size=(2, 3))
  >>> q = jnp.array([[[1.0, 3.0]], [[2.0, 3.0]]])
  >>> log_alpha = {'discrete': jnp.array(0.0), 'continuous': jnp.array(0.0)}
  >>> params = {'actor': jnp.zeros((1, 2)), 'critic': q, 'target_critic': q, 'log_alpha': log_alpha}
  >>> a_tm1 = {'discrete': jnp.array([1]), 'continuous': jnp.zeros((1, 3))}
  >>> batch = Transition(None, a_tm1, r_t=jnp.ones(1), discount_t=jnp.array([0.5]), obs_t=None)
  >>> objective = hybrid_critic_objective(networks, entropy_backup=False)
  >>> loss, aux = objective.loss(params, batch, jax.random.key(0), {})
  >>> loss, aux['td_error']  # towards 1 + 0.5 (1 + 3) / 2 = 2
  (Array(1., dtype=float32), Array([[-1.], [-1.]], dtype=float32))

  Reference: Delalleau et al. 2019, arXiv 1912.11077; Haarnoja et al. 2018, eqs. 3 and 5, arXiv 1812.05905.
  """
  reduce = ensembles.reduction(over_critics)

  def loss(params: Components, batch: Transition, key: PRNGKey, info: Info) -> tuple[Array, dict[str, Array]]:
    del info
    policy = networks.actor.apply(params['actor'], batch.obs_t)
    x_t, log_prob_t = policy.sample_branches(seed=key)
    q_t = reduce(networks.critic.apply(params['target_critic'], batch.obs_t, x_t))
    alphas = _alphas(params) if entropy_backup else (0.0, 0.0)
    target = hybrid_soft_q_target(
      batch.r_t, batch.discount_t, q_t, policy.categorical.logits, log_prob_t, *alphas
    )
    choice, x_tm1 = batch.a_tm1['discrete'], batch.a_tm1['continuous']
    checks.same_shape(a_tm1_continuous=x_tm1, continuous_of_a_branch=x_t[..., 0, :])
    # In all branches, as critics take it; only the entry of the branch taken is read.
    x_tm1 = jnp.broadcast_to(x_tm1[..., None, :], x_t.shape)
    q_tm1 = networks.critic.apply(params['critic'], batch.obs_tm1, x_tm1)
    return ensembles.regression(q_tm1, choice, target, batch, pointwise_loss)

  return Objective(loss, metrics=('q_mean',))


def hybrid_actor_objective(
  networks: ActorCritic, *, over_critics: Literal['min', 'mean'] = 'min'
) -> Objective:
  """Binds the actor loss to networks with hybrid actions.

  Args:
    networks: an actor that gives a `Hybrid`, and critics of all branches.
    over_critics: as in `hybrid_critic_objective`.

  Returns:
    The mean over examples of `hybrid_actor_loss`. It reads the components `actor`, `critic` and `log_alpha`,
    and reports `discrete_entropy` `[B]`, exact, and `continuous_entropy` `[B]`, estimated, in nats, their
    means `policy_entropy_discrete` and `policy_entropy_continuous`, and `legal` `[B, A]`, the branches that
    each state allows.

  Raises:
    ValueError: `over_critics` is unknown.

  >>> import jax
  >>> from sac_blocks.distributions import Categorical, Hybrid, TanhGaussian
  >>> from sac_blocks.types import Network
  >>> gaussian = TanhGaussian(jnp.zeros((1, 2, 3)), jnp.ones((1, 2, 3)))
  >>> networks = ActorCritic(
  ...     actor=Network(None, lambda logits, obs: Hybrid(Categorical(logits), gaussian)),
  ...     critic=Network(None, lambda q, obs, x: q),  # params that are the values themselves
  ...     action_size=(2, 3))
  >>> q = jnp.array([[[1.0, 3.0]], [[2.0, 3.0]]])
  >>> log_alpha = {'discrete': jnp.array(0.0), 'continuous': jnp.log(0.0)}
  >>> params = {'actor': jnp.zeros((1, 2)), 'critic': q, 'log_alpha': log_alpha}
  >>> batch = Transition(None, None, None, None, None)
  >>> loss, aux = hybrid_actor_objective(networks).loss(params, batch, jax.random.key(0), {})
  >>> loss, aux['continuous_entropy'].shape  # -(1 + 3) / 2 - log 2, as the second temperature is 0
  (Array(-2.693147, dtype=float32), (1,))

  Reference: Delalleau et al. 2019, arXiv 1912.11077; Christodoulou 2019, eq. 12, arXiv 1910.07207, and
  Haarnoja et al. 2018, eq. 7, arXiv 1812.05905, for the two parts.
  """
  reduce = ensembles.reduction(over_critics)

  def loss(params: Components, batch: Transition, key: PRNGKey, info: Info) -> tuple[Array, dict[str, Array]]:
    del info
    policy = networks.actor.apply(params['actor'], batch.obs_tm1)
    x, log_prob = policy.sample_branches(seed=key)
    q = reduce(networks.critic.apply(params['critic'], batch.obs_tm1, x))
    logits = policy.categorical.logits
    losses, entropies = hybrid_actor_loss(logits, log_prob, q, *_alphas(params))
    aux = {
      'discrete_entropy': entropies.discrete,
      'continuous_entropy': entropies.continuous,
      'policy_entropy_discrete': jnp.mean(entropies.discrete),
      'policy_entropy_continuous': jnp.mean(entropies.continuous),
      'legal': logits != -jnp.inf,
    }
    return jnp.mean(losses), aux

  return Objective(loss, metrics=('policy_entropy_discrete', 'policy_entropy_continuous'))


def hybrid_temperature_objective(
  target_discrete: Array | float | Callable[[Info], Array],
  target_continuous: Array | float | Callable[[Info], Array],
  *,
  parameterization: Literal['alpha', 'log_alpha'] = 'alpha',
) -> Objective:
  """Binds the temperature loss to the target entropies of the two parts of an action.

  Args:
    target_discrete: of the choice, in nats, a scalar or `[B]`; or a function of `info`, where it depends on
      the state or changes in training.
    target_continuous: of the continuous action, a scalar or `[B]`, or a function, likewise.
    parameterization: as in `temperature_loss`.

  Returns:
    The mean over examples of the sum of both parts' `temperature_loss`. It reads the component `log_alpha`, a
    dict of `discrete` and `continuous`, and the `discrete_entropy` and `continuous_entropy` that the actor's
    block has put into `info`; it reports `alpha_discrete` and `alpha_continuous`, as they were before the
    step, and where a target is a function its mean, `target_entropy_discrete` or `target_entropy_continuous`.

  >>> import jax
  >>> params = {'log_alpha': {'discrete': jnp.float32(0.0), 'continuous': jnp.float32(0.0)}}
  >>> info = {'discrete_entropy': jnp.array([0.5]), 'continuous_entropy': jnp.array([-3.0])}
  >>> objective = hybrid_temperature_objective(target_discrete=0.25, target_continuous=-2.0)
  >>> jax.grad(lambda params: objective.loss(params, None, None, info)[0])(params)
  {'log_alpha': {'continuous': Array(-1., dtype=float32), 'discrete': Array(0.25, dtype=float32)}}

  Reference: Delalleau et al. 2019, arXiv 1912.11077; Haarnoja et al. 2018, eq. 18, arXiv 1812.05905, for
  each part.
  """
  targets = {'discrete': target_discrete, 'continuous': target_continuous}

  def loss(params: Components, batch: Transition, key: PRNGKey, info: Info) -> tuple[Array, dict[str, Array]]:
    del batch, key
    losses, aux = [], {}
    for part, target in targets.items():
      entropy = checks.computed(info, f'{part}_entropy', 'hybrid_temperature_objective')
      log_alpha = params['log_alpha'][part]
      if callable(target):
        target = target(info)
        aux[f'target_entropy_{part}'] = jnp.mean(target)
      losses.append(temperature_loss(log_alpha, entropy, target, parameterization=parameterization))
      aux[f'alpha_{part}'] = jnp.exp(log_alpha)
    return jnp.mean(sum(losses)), aux

  reported = [f'target_entropy_{part}' for part, target in targets.items() if callable(target)]
  return Objective(loss, metrics=('alpha_discrete', 'alpha_continuous', *reported))


def _alphas(params: Components) -> tuple[Array, Array]:
  log_alpha = params['log_alpha']
  return jnp.exp(log_alpha['discrete']), jnp.exp(log_alpha['continuous'])
