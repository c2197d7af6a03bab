"""Soft Actor-Critic for hybrid actions."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any, Literal

import jax.numpy as jnp
import optax

from sac_blocks import checks
from sac_blocks.losses.temperature import continuous_target_entropy
from sac_blocks.objectives import (
  hybrid_actor_objective,
  hybrid_critic_objective,
  hybrid_temperature_objective,
)
from sac_blocks.recipes.sac_discrete import entropy_of_ratio
from sac_blocks.recipes.soft_actor_critic import soft_actor_critic
from sac_blocks.types import ActorCritic, Algorithm, Array, Info

_PARTS = ('continuous', 'discrete')


def sac_hybrid(
  networks: ActorCritic,
  *,
  target_entropy_ratio: Array | float | optax.Schedule = 0.5,
  target_entropy_scale: Array | float = 1.0,
  over_critics: Literal['min', 'mean'] = 'min',
  entropy_backup: bool = True,
  pointwise_loss: Callable[[Array, Array], Array] = optax.l2_loss,
  initial_alpha: Mapping[str, Array | float] | Array | float = 1.0,
  **options: Any,
) -> Algorithm:
  """Soft Actor-Critic for hybrid actions: a discrete choice together with a continuous action.

  The expectation over the choice is exact, that over the continuous action is estimated by one sample for
  every branch. Each part has a temperature and a target entropy of its own. Illegal branches, those with a
  logit of minus infinity, take no part in anything.

  Args:
    networks: an actor that gives a `Hybrid`, an ensemble of N critics of all branches, and an `action_size`
      of (A, D).
    target_entropy_ratio: the choice's target entropy as a part of the largest that each state allows, the log
      of its number of legal branches; a scalar in [0, 1], or an optax schedule from the number of updates to
      one.
    target_entropy_scale: that of the continuous action, a scalar, in nats below zero for each of its D
      dimensions.
    over_critics: what stands for Q in targets and in the actor's loss: the minimum over the critics, for
      every branch by itself, or their mean.
    entropy_backup: whether the critics' target counts the entropies of the next policy.
    pointwise_loss: the critics' regression loss, for example `optax.huber_loss`.
    initial_alpha: the temperatures at the start, positive, in units of reward per nat: a dict of `discrete`
      and `continuous`, or a scalar for both.
    **options: of `soft_actor_critic`: optimisers, fixed temperatures, target critics, update periods,
      normalised observations, updates per call, data parallelism.

  Returns:
    The algorithm, with the components `actor`, `critic`, `target_critic`, `log_alpha`, a dict of `discrete`
    and `continuous`, and, if asked for, `observation_statistics`. Its actions, and `a_tm1` of its batches,
    are dicts of `discrete`, int32, and `continuous`, in [-1, 1].

  Raises:
    ValueError: an option is out of range, or a target entropy is one that no policy has.

  >>> import jax
  >>> from sac_blocks.networks import make_hybrid_networks
  >>> spec = jax.ShapeDtypeStruct((4,), 'float32')
  >>> networks = make_hybrid_networks(spec, num_actions=3, action_size=2, hidden_sizes=(8,))
  >>> algorithm = sac_hybrid(networks)
  >>> state = jax.eval_shape(algorithm.init, jax.random.key(0))  # the shapes alone
  >>> action = jax.eval_shape(algorithm.policy, state.params, jnp.zeros((5, 4)), state.key)
  >>> action['discrete'].shape, action['continuous'].shape
  ((5,), (5, 2))

  Reference: Delalleau et al. 2019, arXiv 1912.11077; Haarnoja et al. 2018, algorithm 1, arXiv 1812.05905.
  """
  if not isinstance(initial_alpha, Mapping):
    initial_alpha = dict.fromkeys(_PARTS, initial_alpha)
  if sorted(initial_alpha) != sorted(_PARTS):
    raise ValueError(
      f'initial_alpha must be a number or a dict of discrete and continuous, got {initial_alpha}.'
    )
  before, target_discrete = entropy_of_ratio(target_entropy_ratio)
  # The uniform law has log 2 nats a dimension.
  checks.in_range('target_entropy_scale', target_entropy_scale, -math.log(2.0))
  _, num_dimensions = networks.action_size
  largest = target_entropy_scale * continuous_target_entropy(num_dimensions)

  def target_continuous(info: Info) -> Any:
    # Nothing to learn from where nothing is legal: the entropy counts as 0 there, too.
    return jnp.where(jnp.any(info['legal'], axis=-1), largest, 0.0)

  return soft_actor_critic(
    networks,
    critic=hybrid_critic_objective(
      networks, over_critics=over_critics, entropy_backup=entropy_backup, pointwise_loss=pointwise_loss
    ),
    actor=hybrid_actor_objective(networks, over_critics=over_critics),
    temperature=hybrid_temperature_objective(target_discrete, target_continuous),
    before=before,
    initial_alpha=dict(initial_alpha),
    **options,
  )
