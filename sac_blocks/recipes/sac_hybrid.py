"""Soft Actor-Critic for hybrid actions."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

import optax

from sac_blocks import checks, reductions
from sac_blocks.actions import TARGET_ENTROPY_RATIO, continuous_target
from sac_blocks.blocks import chain
from sac_blocks.objectives import actor_objective, critic_objective
from sac_blocks.recipes.algorithm import actor_critic_components, algorithm
from sac_blocks.recipes.sac_discrete import entropy_of_ratio
from sac_blocks.recipes.steps import delayed, descend, target_step, temperature_steps
from sac_blocks.types import ActorCritic, Algorithm, Array, ReduceFn


def sac_hybrid(
  networks: ActorCritic,
  *,
  target_entropy_ratio: Array | float | optax.Schedule = TARGET_ENTROPY_RATIO,
  target_entropy_scale: Array | float = 1.0,
  reduce: ReduceFn = reductions.minimum,
  entropy_backup: bool = True,
  pointwise_loss: Callable[[Array, Array], Array] = optax.l2_loss,
  critic_optimizer: optax.GradientTransformation | None = None,
  actor_optimizer: optax.GradientTransformation | None = None,
  temperature_optimizer: optax.GradientTransformation | None = None,
  learn_temperature: bool = True,
  initial_alpha: Mapping[str, Array | float] | Array | float = 1.0,
  log_alpha_bounds: tuple[Array | float, Array | float] | None = None,
  tau: Array | float = 0.005,
  target_update_period: int = 1,
  actor_update_period: int = 1,
  normalize_observations: bool = False,
  updates_per_call: int = 1,
  axis_name: str | None = None,
) -> Algorithm:
  """Soft Actor-Critic for hybrid actions: a discrete choice together with a continuous action.

  It is `sac` with a temperature and a target entropy for each part. The expectation over the choice is exact,
  that over the continuous action is estimated by one sample for every branch. Illegal branches, those with a
  logit of minus infinity, take no part in anything.

  Args:
    networks: an actor that gives a `Hybrid`, and an ensemble of N critics of all branches.
    target_entropy_ratio: the choice's target entropy as a part of the largest that each state allows, the log
      of its number of legal branches; a scalar in [0, 1], or an optax schedule from the number of updates to
      one.
    target_entropy_scale: that of the continuous action, a scalar, in nats below zero for each of its D
      dimensions.
    reduce: what stands for Q in targets and in the actor's loss, a function of all critics' values:
      `reductions.minimum`, `mean`, `random_subset(m)`, or your own.
    entropy_backup: whether the critics' target counts the entropy of the next policy.
    pointwise_loss: the critics' regression loss, for example `optax.huber_loss`.
    critic_optimizer: any optax transform; Adam at 3e-4 by default, and likewise for the next two.
    actor_optimizer: that of the actor.
    temperature_optimizer: that of `log_alpha`; keep weight decay out of it.
    learn_temperature: False keeps alpha at `initial_alpha`.
    initial_alpha: the temperature at the start, a positive scalar, in units of reward per nat:
      a dict of `discrete` and `continuous`, or a scalar for both.
    log_alpha_bounds: lowest and highest value of a learned `log_alpha`, scalars, or None for no bounds.
    tau: step size of the target critics, a scalar in [0, 1]; 1 copies.
    target_update_period: updates per step of the target critics; with tau = 1 a periodic hard copy.
    actor_update_period: critic updates per update of actor and temperature.
    normalize_observations: as in `algorithm`, and likewise for the next two.
    updates_per_call: the number of minibatches that one call of `update` learns from, one after the other.
    axis_name: the mapped axis of a data-parallel update, over which gradients, statistics and metrics are
      averaged.

  Returns:
    The algorithm, with the components `actor`, `critic`, `target_critic`, `log_alpha`, a dict of `discrete`
    and `continuous`, and, if asked for, `observation_statistics`. Its actions, and `a_tm1` of its batches,
    are dicts of `discrete`, int32, and `continuous`, in [-1, 1].

  Raises:
    ValueError: an option is out of range, a target entropy is one that no policy has, or
      the networks' actions are not hybrid.

  >>> import jax
  >>> from sac_blocks.networks import make_hybrid_networks
  >>> spec = jax.ShapeDtypeStruct((4,), 'float32')
  >>> networks = make_hybrid_networks(spec, num_actions=3, action_size=2, hidden_sizes=(8,))
  >>> algorithm = sac_hybrid(networks)
  >>> state = jax.eval_shape(algorithm.init, jax.random.key(0))  # the shapes alone
  >>> action = jax.eval_shape(algorithm.policy, state.params, jax.numpy.zeros((5, 4)), state.key)
  >>> action['discrete'].shape, action['continuous'].shape
  ((5,), (5, 2))

  Reference: Delalleau et al. 2019, arXiv 1912.11077; Haarnoja et al. 2018, algorithm 1, arXiv 1812.05905.
  """
  if set(networks.actions.parts) != {'discrete', 'continuous'}:
    raise ValueError('sac_hybrid needs networks of hybrid actions, got others: use sac or sac_discrete.')
  schedule, discrete = entropy_of_ratio(target_entropy_ratio)
  # The uniform law has log 2 nats a dimension.
  checks.in_range('target_entropy_scale', target_entropy_scale, -math.log(2.0))
  num_dimensions = networks.actions.num_dimensions
  assert num_dimensions is not None
  continuous = continuous_target(num_dimensions, target_entropy_scale)
  target_entropy = {'discrete': discrete, 'continuous': continuous}
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
