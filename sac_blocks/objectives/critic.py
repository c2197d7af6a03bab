"""The critics' objective."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import optax

from sac_blocks import checks, reductions
from sac_blocks.losses.critic import soft_td_error, twin_critic_loss
from sac_blocks.losses.values import bellman_target
from sac_blocks.objectives import parts
from sac_blocks.types import ActorCritic, Array, Components, Info, Objective, PRNGKey, ReduceFn, Transition


def critic_objective(
  networks: ActorCritic,
  *,
  reduce: ReduceFn = reductions.minimum,
  entropy_backup: bool = True,
  pointwise_loss: Callable[[Array, Array], Array] = optax.l2_loss,
  target: str = 'target_critic',
) -> Objective:
  """Binds the critics' loss to networks, of any kind of action.

  Args:
    networks: actor and critics.
    reduce: what stands for Q in the target, a function of all critics' values; see `sac_blocks.reductions`.
    entropy_backup: whether the target counts the entropy of the next action.
    pointwise_loss: as in `twin_critic_loss`.
    target: the name of the component whose critics make the target; `'critic'` where there are no others.

  Returns:
    The mean over examples of `twin_critic_loss` towards `bellman_target` of the soft value, weighted by
    `batch.weights` if given. It reads the components `actor`, `critic`, the target's and `log_alpha`, and
    reports `td_error` `[N, B]` and the scalar `q_mean`, both at the actions taken.

  >>> from sac_blocks import actions
  >>> from sac_blocks.distributions import Categorical
  >>> from sac_blocks.types import Network
  >>> networks = ActorCritic(
  ...     actor=Network(None, lambda logits, obs: Categorical(logits)),
  ...     critic=Network(None, lambda q, obs: q),  # params that are the values themselves
  ...     actions=actions.enumerated(2))
  >>> q = jnp.array([[[1.0, 3.0]], [[2.0, 3.0]]])
  >>> params = {'actor': jnp.zeros((1, 2)), 'critic': q, 'target_critic': q, 'log_alpha': jnp.array(0.0)}
  >>> one = jnp.ones(1)
  >>> batch = Transition(None, a_tm1=jnp.array([1]), r_t=one, discount_t=0.5 * one, obs_t=None)
  >>> objective = critic_objective(networks, entropy_backup=False)
  >>> loss, aux = objective.loss(params, batch, jax.random.key(0), {})
  >>> loss, aux['td_error']  # towards 1 + 0.5 (1 + 3) / 2 = 2
  (Array(1., dtype=float32), Array([[-1.], [-1.]], dtype=float32))

  Reference: Haarnoja et al. 2018, eqs. 3 and 5, arXiv 1812.05905; Christodoulou 2019, eqs. 4 and 10,
  arXiv 1910.07207; Delalleau et al. 2019, arXiv 1912.11077.
  """
  actions = networks.actions

  def loss(params: Components, batch: Transition, key: PRNGKey, info: Info) -> tuple[Array, dict[str, Any]]:
    del info
    # The key itself is the sample's, the others are derived.
    actor_key, target_key, critic_key = (jax.random.fold_in(key, i) for i in (2, 3, 4))
    policy = networks.actor(params['actor'], batch.obs_t, key=actor_key)
    q_t = parts.bind(networks.critic, params[target], batch.obs_t, target_key)
    alpha = parts.alpha(params) if entropy_backup else jax.tree.map(lambda _: 0.0, params['log_alpha'])
    v_t = actions.soft_value(policy, q_t, alpha, reduce, key).value
    y = bellman_target(batch.r_t, batch.discount_t, v_t)
    # All policies of a kind agree on the layout of actions, whatever the state.
    q_tm1 = actions.taken(
      policy, parts.bind(networks.critic, params['critic'], batch.obs_tm1, critic_key), batch.a_tm1
    )
    losses = twin_critic_loss(q_tm1, y, pointwise_loss=pointwise_loss)
    if batch.weights is not None:
      checks.same_shape(weights=batch.weights, r_t=batch.r_t)
      losses = batch.weights * losses
    return jnp.mean(losses), {'td_error': soft_td_error(q_tm1, y), 'q_mean': jnp.mean(q_tm1)}

  return Objective(loss, metrics=('q_mean',))
