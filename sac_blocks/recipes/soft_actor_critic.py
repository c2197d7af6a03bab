"""The chain of blocks that all recipes of the family share."""

from __future__ import annotations

import math

import jax
import jax.numpy as jnp
import optax

from sac_blocks import checks
from sac_blocks.blocks import Block, chain, every, gradient_step, map_component, polyak_step
from sac_blocks.recipes.algorithm import algorithm
from sac_blocks.types import ActorCritic, Algorithm, Array, Objective, PyTree


def soft_actor_critic(
  networks: ActorCritic,
  *,
  critic: Objective,
  actor: Objective,
  temperature: Objective,
  before: tuple[Block, ...] = (),
  critic_optimizer: optax.GradientTransformation | None = None,
  actor_optimizer: optax.GradientTransformation | None = None,
  temperature_optimizer: optax.GradientTransformation | None = None,
  learn_temperature: bool = True,
  initial_alpha: PyTree = 1.0,
  log_alpha_bounds: tuple[Array | float, Array | float] | None = None,
  tau: Array | float = 0.005,
  target_update_period: int = 1,
  actor_update_period: int = 1,
  normalize_observations: bool = False,
  updates_per_call: int = 1,
  axis_name: str | None = None,
) -> Algorithm:
  """Makes a Soft Actor-Critic of three objectives.

  One update moves the critics, then the actor against the new critics, then the temperature by the entropy
  that the actor's step saw, then the target critics. The batch is a `Transition`.

  Args:
    networks: actor and an ensemble of N critics.
    critic: the objective descended in the component `critic`.
    actor: that of `actor`.
    temperature: that of `log_alpha`; it may read what `actor` reports.
    before: blocks that come first in every update, for example a schedule whose value an objective reads.
    critic_optimizer: any optax transform; Adam at 3e-4 by default, and likewise for the next two.
    actor_optimizer: that of the actor.
    temperature_optimizer: that of `log_alpha`; keep weight decay out of it.
    learn_temperature: False keeps alpha at `initial_alpha` and leaves `temperature` out.
    initial_alpha: the temperature at the start, a positive scalar, in units of reward per nat; a dict of
      scalars where the parts of an action have one each.
    log_alpha_bounds: lowest and highest value of a learned `log_alpha`, scalars, or None for no bounds.
    tau: step size of the target critics, a scalar in [0, 1]; 1 copies.
    target_update_period: updates per step of the target critics; with tau = 1 a periodic hard copy.
    actor_update_period: critic updates per update of actor and temperature.
    normalize_observations: as in `algorithm`.
    updates_per_call: as in `algorithm`.
    axis_name: the mapped axis of a data-parallel update, over which gradients, statistics and metrics are
      averaged.

  Returns:
    The algorithm, with the components `actor`, `critic`, `target_critic`, `log_alpha` and, if asked for,
    `observation_statistics`.

  Raises:
    ValueError: an option is out of range.

  >>> from sac_blocks.networks import make_networks
  >>> from sac_blocks.objectives import actor_objective, critic_objective, temperature_objective
  >>> networks = make_networks(jax.ShapeDtypeStruct((3,), 'float32'), action_size=1, hidden_sizes=(8,))
  >>> algorithm = soft_actor_critic(
  ...     networks,
  ...     critic=critic_objective(networks, pointwise_loss=optax.huber_loss),
  ...     actor=actor_objective(networks),
  ...     temperature=temperature_objective(-1.0),
  ...     actor_update_period=2)
  >>> sorted(jax.eval_shape(algorithm.init, jax.random.key(0)).params)
  ['actor', 'critic', 'log_alpha', 'target_critic']

  Reference: Haarnoja et al. 2018, algorithm 1, arXiv 1812.05905.
  """
  checks.in_range('tau', tau, 0.0, 1.0)

  def step(component: str, objective: Objective, optimizer: optax.GradientTransformation | None) -> Block:
    optimizer = optax.adam(3e-4) if optimizer is None else optimizer
    return gradient_step(component, objective, optimizer, axis_name=axis_name)

  actor_steps = [step('actor', actor, actor_optimizer)]
  if learn_temperature:
    actor_steps.append(step('log_alpha', temperature, temperature_optimizer))
  if log_alpha_bounds is not None:
    low, high = log_alpha_bounds
    if not checks.traced(low, high) and not low <= high:
      raise ValueError(f'log_alpha_bounds must be (low, high) with low <= high, got {(low, high)}.')
    if not learn_temperature:
      raise ValueError(
        f'log_alpha_bounds={(low, high)} has no meaning for a temperature that is not learned.'
      )
    if not checks.traced(low, high):
      least, most = math.exp(low) * (1 - 1e-6), math.exp(high) * (1 + 1e-6)
      jax.tree.map(lambda alpha: checks.in_range('initial_alpha', alpha, least, most), initial_alpha)
    actor_steps.append(
      map_component(
        'log_alpha', lambda params: jax.tree.map(lambda x: jnp.clip(x, low, high), params['log_alpha'])
      )
    )
  if actor_update_period != 1:
    actor_steps = [every(actor_update_period, chain(*actor_steps))]
  target_step = polyak_step('critic', 'target_critic', tau)
  if target_update_period != 1:
    target_step = every(target_update_period, target_step)
  return algorithm(
    networks,
    chain(*before, step('critic', critic, critic_optimizer), *actor_steps, target_step),
    initial_alpha=initial_alpha,
    normalize_observations=normalize_observations,
    updates_per_call=updates_per_call,
    axis_name=axis_name,
  )
