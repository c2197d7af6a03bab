"""Soft Actor-Critic."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import optax

from sac_blocks.losses.temperature import continuous_target_entropy
from sac_blocks.objectives import actor_objective, critic_objective, temperature_objective
from sac_blocks.recipes.soft_actor_critic import soft_actor_critic
from sac_blocks.types import ActorCritic, Algorithm, Array


def sac(
  networks: ActorCritic,
  *,
  target_entropy: Array | float | None = None,
  entropy_backup: bool = True,
  pointwise_loss: Callable[[Array, Array], Array] = optax.l2_loss,
  **options: Any,
) -> Algorithm:
  """Soft Actor-Critic with a learned or fixed temperature, for networks of any library.

  Args:
    networks: actor and an ensemble of N critics, whose minimum is used.
    target_entropy: in nats, a scalar; None takes minus the number of action dimensions.
    entropy_backup: whether the critics' target counts the entropy of the next action.
    pointwise_loss: the critics' regression loss, for example `optax.huber_loss`.
    **options: of `soft_actor_critic`: optimisers, temperature, target critics, update periods, normalised
      observations, updates per call, data parallelism.

  Returns:
    The algorithm, with the components `actor`, `critic`, `target_critic`, `log_alpha` and, if asked for,
    `observation_statistics`.

  Raises:
    ValueError: an option is out of range.

  >>> import jax
  >>> from sac_blocks.networks import make_networks
  >>> networks = make_networks(jax.ShapeDtypeStruct((3,), 'float32'), action_size=1, hidden_sizes=(8,))
  >>> algorithm = sac(networks, target_entropy=-0.5, initial_alpha=0.1)
  >>> state = jax.eval_shape(algorithm.init, jax.random.key(0))  # the shapes alone
  >>> sorted(state.params)
  ['actor', 'critic', 'log_alpha', 'target_critic']
  >>> sac(networks, tau=2.0)
  Traceback (most recent call last):
  ...
  ValueError: tau must lie in [0.0, 1.0], got 2.0.

  Reference: Haarnoja et al. 2018, algorithm 1, arXiv 1812.05905.
  """
  if target_entropy is None:
    target_entropy = continuous_target_entropy(networks.action_size)
  return soft_actor_critic(
    networks,
    critic=critic_objective(networks, entropy_backup=entropy_backup, pointwise_loss=pointwise_loss),
    actor=actor_objective(networks),
    temperature=temperature_objective(target_entropy),
    **options,
  )
