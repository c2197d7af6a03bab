"""Configuration of the SAC agent."""

from __future__ import annotations

import dataclasses
import math

import optax

from agents.config import ReplayConfig, check_option
from sac_blocks import ActorCritic, Algorithm, recipes


@dataclasses.dataclass(frozen=True)
class SACConfig(ReplayConfig):
  """Options of Soft Actor-Critic; those of data and replay are `ReplayConfig`'s.

  Attributes:
    actor_learning_rate: Adam's step size for the actor, per update.
    critic_learning_rate: that of the critics.
    temperature_learning_rate: that of log alpha.
    max_gradient_norm: global norm to which actor and critic gradients are clipped; None doesn't clip.
    learn_temperature: False keeps alpha at `initial_alpha`.
    initial_alpha: the temperature at the start, positive, in units of (scaled) reward per nat.
    log_alpha_bounds: lowest and highest log alpha where it is learned, or None.
    target_entropy: in nats; None takes minus the number of action dimensions.
    tau: step size of the target critics per update, in [0, 1].
    actor_update_period: critic updates per update of actor and temperature.
    entropy_backup: whether the critics' target counts the entropy of the next action.
    input_normalization: whether networks see observations normalised by running statistics.
  """

  actor_learning_rate: float = 3e-4
  critic_learning_rate: float = 3e-4
  temperature_learning_rate: float = 3e-4
  max_gradient_norm: float | None = None
  learn_temperature: bool = True
  initial_alpha: float = 1.0
  log_alpha_bounds: tuple[float, float] | None = None
  target_entropy: float | None = None
  tau: float = 0.005
  actor_update_period: int = 1
  entropy_backup: bool = True
  input_normalization: bool = False

  def __post_init__(self) -> None:
    super().__post_init__()
    for name in (
      'actor_learning_rate',
      'critic_learning_rate',
      'temperature_learning_rate',
      'initial_alpha',
    ):
      value = getattr(self, name)
      check_option(name, value, 0.0 < value < math.inf, 'positive')
    norm, bounds, period = self.max_gradient_norm, self.log_alpha_bounds, self.actor_update_period
    check_option('max_gradient_norm', norm, norm is None or norm > 0.0, 'positive, or None')
    check_option(
      'log_alpha_bounds',
      bounds,
      bounds is None or (len(bounds) == 2 and bounds[0] <= bounds[1]),
      '(low, high) with low <= high, or None',
    )
    if bounds is not None:
      low, high = bounds
      inside = low - 1e-6 <= math.log(self.initial_alpha) <= high + 1e-6
      check_option('initial_alpha', self.initial_alpha, inside, f'within exp of log_alpha_bounds {bounds}')
      check_option('log_alpha_bounds', bounds, self.learn_temperature, 'None where learn_temperature=False')
    target = self.target_entropy
    check_option('target_entropy', target, target is None or math.isfinite(target), 'finite, or None')
    check_option('tau', self.tau, 0.0 <= self.tau <= 1.0, 'in [0, 1]')
    check_option(
      'actor_update_period', period, type(period) is int and period >= 1, 'an integer of at least 1'
    )


def make_algorithm(config: SACConfig, networks: ActorCritic) -> Algorithm:
  """Makes the recipe that a configuration describes.

  Args:
    config: the options.
    networks: actor and critics.

  Returns:
    The algorithm; one call of its update makes `num_sgd_steps_per_step` updates.
  """

  def optimizer(learning_rate: float) -> optax.GradientTransformation:
    adam = optax.adam(learning_rate)
    if config.max_gradient_norm is None:
      return adam
    return optax.chain(optax.clip_by_global_norm(config.max_gradient_norm), adam)

  return recipes.sac(
    networks,
    critic_optimizer=optimizer(config.critic_learning_rate),
    actor_optimizer=optimizer(config.actor_learning_rate),
    temperature_optimizer=optax.adam(config.temperature_learning_rate),
    learn_temperature=config.learn_temperature,
    initial_alpha=config.initial_alpha,
    log_alpha_bounds=config.log_alpha_bounds,
    target_entropy=config.target_entropy,
    tau=config.tau,
    actor_update_period=config.actor_update_period,
    entropy_backup=config.entropy_backup,
    normalize_observations=config.input_normalization,
    updates_per_call=config.num_sgd_steps_per_step,
  )
