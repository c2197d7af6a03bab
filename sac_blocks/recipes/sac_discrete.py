"""Soft Actor-Critic for discrete actions."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Literal

import optax

from sac_blocks import checks
from sac_blocks.blocks import Block, scheduled_value
from sac_blocks.losses.temperature import discrete_target_entropy
from sac_blocks.objectives import (
  discrete_actor_objective,
  discrete_critic_objective,
  temperature_objective,
)
from sac_blocks.recipes.soft_actor_critic import soft_actor_critic
from sac_blocks.types import ActorCritic, Algorithm, Array, Info


def sac_discrete(
  networks: ActorCritic,
  *,
  target_entropy_ratio: Array | float | optax.Schedule = 0.5,
  target_entropy: Array | float | None = None,
  over_critics: Literal['min', 'mean'] = 'min',
  entropy_backup: bool = True,
  pointwise_loss: Callable[[Array, Array], Array] = optax.l2_loss,
  **options: Any,
) -> Algorithm:
  """Soft Actor-Critic for discrete and factored actions, whose expectations over actions are exact.

  Illegal actions, those with a logit of minus infinity, take no part in anything: values, targets, losses,
  entropies, target entropies and acting. The actions in a batch are taken to be legal.

  Args:
    networks: an actor that gives a `DiscreteDistribution`, and an ensemble of N critics of all actions.
    target_entropy_ratio: the target entropy as a part of the largest that each state allows, the log of its
      number of legal actions; a scalar in [0, 1], or an optax schedule from the number of updates to one.
    target_entropy: a scalar for all states, in nats, instead of the ratio. A state with few legal actions may
      not be able to reach it.
    over_critics: what stands for Q in targets and in the actor's loss: the minimum over the critics, for
      every action by itself, or their mean.
    entropy_backup: whether the critics' target counts the entropy of the next policy.
    pointwise_loss: the critics' regression loss, for example `optax.huber_loss`.
    **options: of `soft_actor_critic`: optimisers, temperature, target critics (softly updated, or copied
      every `target_update_period` updates with `tau=1`), update periods, normalised observations, updates
      per call, data parallelism.

  Returns:
    The algorithm, with the components `actor`, `critic`, `target_critic`, `log_alpha` and, if asked for,
    `observation_statistics`.

  Raises:
    ValueError: an option is out of range, or the target entropy is one that no policy has.

  >>> import jax
  >>> from sac_blocks.networks import make_discrete_networks
  >>> spec = jax.ShapeDtypeStruct((4,), 'float32')
  >>> networks = make_discrete_networks(spec, num_actions=2, hidden_sizes=(8,))
  >>> algorithm = sac_discrete(networks, target_entropy_ratio=optax.linear_schedule(0.9, 0.3, 1000))
  >>> state = jax.eval_shape(algorithm.init, jax.random.key(0))  # the shapes alone
  >>> jax.eval_shape(algorithm.policy, state.params, jax.numpy.zeros((5, 4)), state.key)
  ShapeDtypeStruct(shape=(5,), dtype=int32...)
  >>> sac_discrete(networks, target_entropy=-1.0)
  Traceback (most recent call last):
  ...
  ValueError: target_entropy must lie in [0.0, 0.69...], got -1.0.

  Reference: Christodoulou 2019, algorithm 1, arXiv 1910.07207; mean over critics: the double average of
  Zhou et al. 2022, arXiv 2209.10081.
  """
  before: tuple[Block, ...] = ()
  target: Any = target_entropy
  if target_entropy is None:
    before, target = entropy_of_ratio(target_entropy_ratio)
  else:
    # A negative one, as for continuous actions, would let the entropy fall to 0 and alpha with it.
    largest = math.log(networks.action_size)
    checks.in_range('target_entropy', target_entropy, 0.0, largest * (1 + 1e-6))
  return soft_actor_critic(
    networks,
    critic=discrete_critic_objective(
      networks, over_critics=over_critics, entropy_backup=entropy_backup, pointwise_loss=pointwise_loss
    ),
    actor=discrete_actor_objective(networks, over_critics=over_critics),
    temperature=temperature_objective(target),
    before=before,
    **options,
  )


def entropy_of_ratio(
  ratio: Array | float | optax.Schedule,
) -> tuple[tuple[Block, ...], Callable[[Info], Any]]:
  """Makes the target entropy of a ratio, for each state by its number of legal actions.

  Args:
    ratio: a number in [0, 1], or an optax schedule from the number of updates to one.

  Returns:
    The blocks that have to come first in every update, and the target as a function of `info`, which holds
    the actor objective's `legal`.

  Raises:
    ValueError: the number is out of range.
  """
  if callable(ratio):
    name = 'target_entropy_ratio'
    return (scheduled_value(name, ratio),), lambda info: discrete_target_entropy(info['legal'], info[name])
  checks.in_range('target_entropy_ratio', ratio, 0.0, 1.0)
  return (), lambda info: discrete_target_entropy(info['legal'], ratio)
