"""Soft Actor-Critic."""

from __future__ import annotations

import math
from collections.abc import Callable

import jax.numpy as jnp
import optax

from sac_blocks import checks
from sac_blocks.blocks import (
  Block,
  chain,
  every,
  gradient_step,
  map_component,
  polyak_step,
)
from sac_blocks.losses.temperature import continuous_target_entropy
from sac_blocks.objectives import actor_objective, critic_objective, temperature_objective
from sac_blocks.recipes.algorithm import algorithm
from sac_blocks.types import ActorCritic, Algorithm, Array, Objective


def sac(
  networks: ActorCritic,
  *,
  critic_optimizer: optax.GradientTransformation | None = None,
  actor_optimizer: optax.GradientTransformation | None = None,
  temperature_optimizer: optax.GradientTransformation | None = None,
  learn_temperature: bool = True,
  initial_alpha: Array | float = 1.0,
  log_alpha_bounds: tuple[float, float] | None = None,
  target_entropy: Array | float | None = None,
  tau: Array | float = 0.005,
  actor_update_period: int = 1,
  entropy_backup: bool = True,
  pointwise_loss: Callable[[Array, Array], Array] = optax.l2_loss,
  normalize_observations: bool = False,
  updates_per_call: int = 1,
  axis_name: str | None = None,
) -> Algorithm:
  """Soft Actor-Critic with a learned or fixed temperature, for networks of any library.

  One update moves the critics, then the actor against the new critics, then the temperature by the entropy
  that the actor's step saw, then the target critics. The batch is a `Transition`.

  Args:
    networks: actor and an ensemble of N critics, whose minimum is used.
    critic_optimizer: any optax transform; Adam at 3e-4 by default, and likewise for the next two.
    actor_optimizer: that of the actor.
    temperature_optimizer: that of `log_alpha`; keep weight decay out of it.
    learn_temperature: False keeps alpha at `initial_alpha`.
    initial_alpha: the temperature at the start, positive, in units of reward per nat.
    log_alpha_bounds: lowest and highest value of a learned `log_alpha`, or None for no bounds.
    target_entropy: in nats; None takes minus the number of action dimensions.
    tau: step size of the target critics per update, in [0, 1].
    actor_update_period: critic updates per update of actor and temperature.
    entropy_backup: whether the critics' target counts the entropy of the next action.
    pointwise_loss: the critics' regression loss, for example `optax.huber_loss`.
    normalize_observations: as in `algorithm`.
    updates_per_call: as in `algorithm`.
    axis_name: the mapped axis of a data-parallel update, over which gradients, statistics and metrics are
      averaged.

  Returns:
    The algorithm, with the components `actor`, `critic`, `target_critic`, `log_alpha` and, if asked for,
    `observation_statistics`.

  Raises:
    ValueError: an option is out of range.

  Reference: Haarnoja et al. 2018, algorithm 1, arXiv 1812.05905.
  """
  checks.in_range('tau', tau, 0.0, 1.0)
  if target_entropy is None:
    target_entropy = continuous_target_entropy(networks.action_size)

  def step(component: str, objective: Objective, optimizer: optax.GradientTransformation | None) -> Block:
    optimizer = optax.adam(3e-4) if optimizer is None else optimizer
    return gradient_step(component, objective, optimizer, axis_name=axis_name)

  critic = critic_objective(networks, entropy_backup=entropy_backup, pointwise_loss=pointwise_loss)
  actor_steps = [step('actor', actor_objective(networks), actor_optimizer)]
  if learn_temperature:
    actor_steps.append(step('log_alpha', temperature_objective(target_entropy), temperature_optimizer))
  if log_alpha_bounds is not None:
    low, high = log_alpha_bounds
    if not low <= high:
      raise ValueError(f'log_alpha_bounds must be (low, high) with low <= high, got {(low, high)}.')
    if not learn_temperature:
      raise ValueError(
        f'log_alpha_bounds={(low, high)} has no meaning for a temperature that is not learned.'
      )
    checks.in_range('initial_alpha', initial_alpha, math.exp(low) * (1 - 1e-6), math.exp(high) * (1 + 1e-6))
    actor_steps.append(map_component('log_alpha', lambda params: jnp.clip(params['log_alpha'], low, high)))
  if actor_update_period != 1:
    actor_steps = [every(actor_update_period, chain(*actor_steps))]
  return algorithm(
    networks,
    chain(
      step('critic', critic, critic_optimizer),
      *actor_steps,
      polyak_step('critic', 'target_critic', tau),
    ),
    initial_alpha=initial_alpha,
    normalize_observations=normalize_observations,
    updates_per_call=updates_per_call,
    axis_name=axis_name,
  )
