"""Soft Actor-Critic."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import optax

from sac_blocks import reductions
from sac_blocks.blocks import chain
from sac_blocks.objectives import actor_objective, critic_objective
from sac_blocks.recipes.algorithm import actor_critic_components, algorithm
from sac_blocks.recipes.steps import delayed, descend, target_step, temperature_steps
from sac_blocks.types import ActorCritic, Algorithm, Array, PyTree, ReduceFn


def sac(
  networks: ActorCritic,
  *,
  target_entropy: Any = None,
  reduce: ReduceFn = reductions.minimum,
  entropy_backup: bool = True,
  pointwise_loss: Callable[[Array, Array], Array] = optax.l2_loss,
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
  """Soft Actor-Critic with a learned or fixed temperature, for any networks and any kind of action.

  One update moves the critics, then the actor against the new critics, then the temperature by the entropy
  that the actor's step saw, then the target critics. The batch is a `Transition`.

  Args:
    networks: actor and an ensemble of N critics.
    target_entropy: as in `temperature_objective`; None takes that of the kind of action, for continuous
      actions minus the number of dimensions.
    reduce: what stands for Q in targets and in the actor's loss, a function of all critics' values:
      `reductions.minimum`, `mean`, `random_subset(m)`, or your own.
    entropy_backup: whether the critics' target counts the entropy of the next action.
    pointwise_loss: the critics' regression loss, for example `optax.huber_loss`.
    critic_optimizer: any optax transform; Adam at 3e-4 by default, and likewise for the next two.
    actor_optimizer: that of the actor.
    temperature_optimizer: that of `log_alpha`; keep weight decay out of it.
    learn_temperature: False keeps alpha at `initial_alpha`.
    initial_alpha: the temperature at the start, a positive scalar, in units of reward per nat;
      a dict of scalars where the parts of an action have one each.
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
    ValueError: an option is out of range.

  >>> import jax
  >>> from sac_blocks.networks import make_networks
  >>> networks = make_networks(jax.ShapeDtypeStruct((3,), 'float32'), action_size=1, hidden_sizes=(8,))
  >>> algorithm = sac(networks, target_entropy=-0.5, initial_alpha=0.1)
  >>> state = jax.eval_shape(algorithm.init, jax.random.key(0))  # the shapes alone
  >>> sorted(state.params)
  ['actor', 'critic', 'log_alpha', 'target_critic']

  Reference: Haarnoja et al. 2018, algorithm 1, arXiv 1812.05905.
  """
  if target_entropy is None:
    target_entropy = networks.actions.target_entropy
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
