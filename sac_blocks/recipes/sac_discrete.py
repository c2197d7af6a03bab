"""Soft Actor-Critic for discrete actions."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import optax

from sac_blocks import checks, reductions
from sac_blocks.actions import TARGET_ENTROPY_RATIO, discrete_target
from sac_blocks.blocks import Block, chain, scheduled_value
from sac_blocks.objectives import actor_objective, critic_objective
from sac_blocks.recipes.algorithm import actor_critic_components, algorithm
from sac_blocks.recipes.steps import delayed, descend, target_step, temperature_steps
from sac_blocks.types import ActorCritic, Algorithm, Array, Info, ReduceFn


def sac_discrete(
  networks: ActorCritic,
  *,
  target_entropy_ratio: Array | float | optax.Schedule = TARGET_ENTROPY_RATIO,
  target_entropy: Array | float | None = None,
  reduce: ReduceFn = reductions.minimum,
  entropy_backup: bool = True,
  pointwise_loss: Callable[[Array, Array], Array] = optax.l2_loss,
  critic_optimizer: optax.GradientTransformation | None = None,
  actor_optimizer: optax.GradientTransformation | None = None,
  temperature_optimizer: optax.GradientTransformation | None = None,
  learn_temperature: bool = True,
  initial_alpha: Array | float = 1.0,
  log_alpha_bounds: tuple[Array | float, Array | float] | None = None,
  tau: Array | float = 0.005,
  target_update_period: int = 1,
  actor_update_period: int = 1,
  normalize_observations: bool = False,
  updates_per_call: int = 1,
  axis_name: str | None = None,
) -> Algorithm:
  """Soft Actor-Critic for discrete and factored actions, whose expectations over actions are exact.

  It is `sac` with a target entropy that follows the number of legal actions. Illegal actions, those with a
  logit of minus infinity, take no part in anything: values, targets, losses, entropies, target entropies and
  acting. The actions in a batch are taken to be legal.

  Args:
    networks: an actor that gives a `DiscreteDistribution`, and an ensemble of N critics of all actions.
    target_entropy_ratio: the target entropy as a part of the largest that each state allows, the log of its
      number of legal actions; a scalar in [0, 1], or an optax schedule from the number of updates to one.
    target_entropy: a scalar for all states, in nats, instead of the ratio. A state with few legal actions may
      not be able to reach it.
    reduce: what stands for Q in targets and in the actor's loss, a function of all critics' values:
      `reductions.minimum`, `mean`, `random_subset(m)`, or your own.
    entropy_backup: whether the critics' target counts the entropy of the next policy.
    pointwise_loss: the critics' regression loss, for example `optax.huber_loss`.
    critic_optimizer: any optax transform; Adam at 3e-4 by default, and likewise for the next two.
    actor_optimizer: that of the actor.
    temperature_optimizer: that of `log_alpha`; keep weight decay out of it.
    learn_temperature: False keeps alpha at `initial_alpha`.
    initial_alpha: the temperature at the start, a positive scalar, in units of reward per nat.
    log_alpha_bounds: lowest and highest value of a learned `log_alpha`, scalars, or None for no bounds.
    tau: step size of the target critics, a scalar in [0, 1]; 1 copies.
    target_update_period: updates per step of the target critics; with tau = 1 a periodic hard copy.
    actor_update_period: critic updates per update of actor and temperature.
    normalize_observations: as in `algorithm`, and likewise for the next two.
    updates_per_call: the number of minibatches that one call of `update` learns from, one after the other.
    axis_name: the mapped axis of a data-parallel update, over which gradients, statistics and metrics are
      averaged.

  Returns:
    The algorithm, with the components `actor`, `critic`, `target_critic`, `log_alpha` and, if asked for,
    `observation_statistics`.

  Raises:
    ValueError: an option is out of range, the target entropy is one that no policy has, or the networks'
      actions are not discrete.

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
  num_actions = networks.actions.num_actions
  if num_actions is None:
    raise ValueError('sac_discrete needs networks of discrete actions, got continuous ones: use sac.')
  schedule: tuple[Block, ...] = ()
  if target_entropy is None:
    schedule, target_entropy = entropy_of_ratio(target_entropy_ratio)
  else:
    # A negative one, as for continuous actions, would let the entropy fall to 0 and alpha with it.
    checks.in_range('target_entropy', target_entropy, 0.0, math.log(num_actions) * (1 + 1e-6))
  critic_loss = critic_objective(
    networks, reduce=reduce, entropy_backup=entropy_backup, pointwise_loss=pointwise_loss
  )
  temperature = temperature_steps(
    target_entropy,
    temperature_optimizer,
    learn=learn_temperature,
    initial_alpha=initial_alpha,
    bounds=log_alpha_bounds,
    axis_name=axis_name,
  )
  actor_step = descend('actor', actor_objective(networks, reduce=reduce), actor_optimizer, axis_name)
  update = chain(
    *schedule,
    descend('critic', critic_loss, critic_optimizer, axis_name),
    *delayed(actor_update_period, actor_step, *temperature),
    target_step(tau, target_update_period),
  )
  return algorithm(
    networks,
    update,
    components=actor_critic_components(networks, initial_alpha=initial_alpha),
    normalize_observations=normalize_observations,
    updates_per_call=updates_per_call,
    axis_name=axis_name,
  )


def entropy_of_ratio(
  ratio: Array | float | optax.Schedule,
) -> tuple[tuple[Block, ...], Any]:
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

    def scheduled(info: Info) -> Any:
      return info[name]

    return (scheduled_value(name, ratio),), discrete_target(scheduled)
  checks.in_range('target_entropy_ratio', ratio, 0.0, 1.0)
  return (), discrete_target(ratio)
