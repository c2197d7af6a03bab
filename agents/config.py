"""Configuration that the agents share: data, replay and rate limits, and the options of Soft Actor-Critic."""

from __future__ import annotations

import dataclasses
import math
from typing import Any, Literal

import jax
import optax

from agents import data_parallel
from sac_blocks import reductions


def check_option(name: str, value: Any, condition: Any, expected: str) -> None:
  """Raises unless an option's value is as expected, if that can be seen.

  Args:
    name: the option's name.
    value: what was given.
    condition: whether it is acceptable. That of a traced value is traced, too, and passes: join such by `&`,
      since chained comparisons and `and` ask for a plain bool.
    expected: what would be, for the message.

  Raises:
    ValueError: it is not.
  """
  if not isinstance(condition, jax.core.Tracer) and not condition:
    raise ValueError(f'{name} must be {expected}, got {value!r}.')


@dataclasses.dataclass(frozen=True)
class ReplayConfig:
  """How experience is stored, sampled and limited.

  Attributes:
    batch_size: transitions per update, over all devices.
    num_sgd_steps_per_step: updates per learner step, made in one compiled loop from one larger read.
    num_learner_devices: devices of the learner over which each batch is split, a divisor of `batch_size`;
      None takes all that its processes have.
    discount: gamma, per environment step, in [0, 1].
    n_step: steps per transition, at least 1.
    reward_scale: factor on rewards, positive.
    min_replay_size: transitions in replay before the first update.
    max_replay_size: transitions kept; the oldest go first.
    samples_per_insert: transitions sampled per transition inserted, held by Reverb's rate limiter; None
      lifts the limit. The default makes one update of 256 per environment step.
    samples_per_insert_tolerance_rate: how far the ratio may be off, as a part of
      `min_replay_size * samples_per_insert`.
    replay_table_name: the name of the Reverb table.
    prefetch_size: batches read ahead of the learner.
    variable_update_period: environment steps between an actor's fetches of params from another process; a
      learner in the same one is followed step by step.
    random_steps: steps that each actor takes uniformly at random over the (legal) actions before it follows
      the policy, counted from its start.
  """

  batch_size: int = 256
  num_sgd_steps_per_step: int = 1
  num_learner_devices: int | None = 1
  discount: float = 0.99
  n_step: int = 1
  reward_scale: float = 1.0
  min_replay_size: int = 1000
  max_replay_size: int = 1_000_000
  samples_per_insert: float | None = 256.0
  samples_per_insert_tolerance_rate: float = 0.1
  replay_table_name: str = 'replay'
  prefetch_size: int = 2
  variable_update_period: int = 10
  random_steps: int = 0

  def __post_init__(self) -> None:
    for name in (
      'batch_size',
      'num_sgd_steps_per_step',
      'n_step',
      'min_replay_size',
      'max_replay_size',
      'prefetch_size',
      'variable_update_period',
    ):
      value = getattr(self, name)
      check_option(name, value, type(value) is int and value >= 1, 'an integer of at least 1')
    devices = self.num_learner_devices
    check_option(
      'num_learner_devices',
      devices,
      devices is None or (type(devices) is int and devices >= 1),
      'an integer of at least 1, or None for all devices',
    )
    if devices is not None:
      check_divisible(self, devices)
    steps = self.random_steps
    check_option('random_steps', steps, type(steps) is int and steps >= 0, 'an integer of at least 0')
    check_option('discount', self.discount, (self.discount >= 0.0) & (self.discount <= 1.0), 'in [0, 1]')
    check_option(
      'reward_scale',
      self.reward_scale,
      (self.reward_scale > 0.0) & (self.reward_scale < math.inf),
      'positive',
    )
    check_option(
      'samples_per_insert',
      self.samples_per_insert,
      self.samples_per_insert is None or 0.0 < self.samples_per_insert < math.inf,
      'positive, or None for no limit',
    )
    rate = self.samples_per_insert_tolerance_rate
    check_option('samples_per_insert_tolerance_rate', rate, 0.0 < rate < math.inf, 'positive')
    check_option(
      'min_replay_size',
      self.min_replay_size,
      self.min_replay_size <= self.max_replay_size,
      f'at most max_replay_size ({self.max_replay_size})',
    )


def check_divisible(config: ReplayConfig, num_devices: int) -> None:
  """Raises unless a batch can be split evenly.

  Args:
    config: names the batch size.
    num_devices: over how many devices it is split.

  Raises:
    ValueError: the batch size doesn't divide by their number.
  """
  check_option(
    'batch_size',
    config.batch_size,
    config.batch_size % num_devices == 0,
    f'a multiple of the {num_devices} learner devices (num_learner_devices={config.num_learner_devices})',
  )


@dataclasses.dataclass(frozen=True)
class SoftActorCriticConfig(ReplayConfig):
  """Options of every agent of the family; those of data and replay are `ReplayConfig`'s.

  Attributes:
    actor_learning_rate: Adam's step size for the actor, per update, or an optax schedule from the number of
      the actor's updates to it; likewise for the next two.
    critic_learning_rate: that of the critics.
    temperature_learning_rate: that of log alpha.
    max_gradient_norm: global norm to which actor and critic gradients are clipped; None doesn't clip.
    learn_temperature: False keeps alpha at `initial_alpha`.
    initial_alpha: the temperature at the start, positive, in units of (scaled) reward per nat.
    log_alpha_bounds: lowest and highest log alpha where it is learned, or None.
    target_entropy: in nats; None takes the agent's default for the action space.
    tau: step size of the target critics, in [0, 1]; 1 copies.
    target_update_period: updates per step of the target critics.
    actor_update_period: critic updates per update of actor and temperature.
    entropy_backup: whether the critics' target counts the entropy of the next action.
    critic_loss: 'l2', half the square of the error, or 'huber', linear beyond an error of 1.
    reduce: what stands for Q of several critics, the name of a function of `sac_blocks.reductions`.
    input_normalization: whether networks see observations normalised by running statistics.
  """

  actor_learning_rate: float | optax.Schedule = 3e-4
  critic_learning_rate: float | optax.Schedule = 3e-4
  temperature_learning_rate: float | optax.Schedule = 3e-4
  max_gradient_norm: float | None = None
  learn_temperature: bool = True
  initial_alpha: float = 1.0
  log_alpha_bounds: tuple[float, float] | None = None
  target_entropy: float | None = None
  tau: float = 0.005
  target_update_period: int = 1
  actor_update_period: int = 1
  entropy_backup: bool = True
  critic_loss: Literal['l2', 'huber'] = 'l2'
  reduce: Literal['minimum', 'mean'] = 'minimum'
  input_normalization: bool = False

  def __post_init__(self) -> None:
    super().__post_init__()
    for name in (
      'actor_learning_rate',
      'critic_learning_rate',
      'temperature_learning_rate',
    ):
      value = getattr(self, name)
      positive = callable(value) or (value > 0.0) & (value < math.inf)
      check_option(name, value, positive, 'positive, or an optax schedule')
    alpha = self.initial_alpha
    check_option('initial_alpha', alpha, (alpha > 0.0) & (alpha < math.inf), 'positive')
    norm, bounds = self.max_gradient_norm, self.log_alpha_bounds
    check_option('max_gradient_norm', norm, norm is None or norm > 0.0, 'positive, or None')
    check_option(
      'log_alpha_bounds',
      bounds,
      bounds is None or (len(bounds) == 2 and bounds[0] <= bounds[1]),
      '(low, high) with low <= high, or None',
    )
    if bounds is not None:
      low, high = bounds
      # Powers, unlike `math.exp`, are there for traced numbers as well.
      least, most = math.e ** (low - 1e-6), math.e ** (high + 1e-6)
      inside = (self.initial_alpha >= least) & (self.initial_alpha <= most)
      check_option('initial_alpha', self.initial_alpha, inside, f'within exp of log_alpha_bounds {bounds}')
      check_option('log_alpha_bounds', bounds, self.learn_temperature, 'None where learn_temperature=False')
    target = self.target_entropy
    check_option('target_entropy', target, target is None or abs(target) < math.inf, 'finite, or None')
    check_option('tau', self.tau, (self.tau >= 0.0) & (self.tau <= 1.0), 'in [0, 1]')
    for name in ('target_update_period', 'actor_update_period'):
      period = getattr(self, name)
      check_option(name, period, type(period) is int and period >= 1, 'an integer of at least 1')
    check_option('critic_loss', self.critic_loss, self.critic_loss in ('l2', 'huber'), "'l2' or 'huber'")
    check_option('reduce', self.reduce, self.reduce in ('minimum', 'mean'), "'minimum' or 'mean'")


def recipe_options(config: SoftActorCriticConfig) -> dict[str, Any]:
  """Turns a configuration into the keyword arguments that the recipes of the family share.

  Args:
    config: the options.

  Returns:
    Arguments for `recipes.sac` or `recipes.sac_discrete`; one call of the resulting update makes
    `num_sgd_steps_per_step` updates, averaged over `data_parallel.AXIS` if the learner is to have
    several devices.
  """

  def optimizer(learning_rate: float | optax.Schedule) -> optax.GradientTransformation:
    adam = optax.adam(learning_rate)
    if config.max_gradient_norm is None:
      return adam
    return optax.chain(optax.clip_by_global_norm(config.max_gradient_norm), adam)

  return {
    'critic_optimizer': optimizer(config.critic_learning_rate),
    'actor_optimizer': optimizer(config.actor_learning_rate),
    'temperature_optimizer': optax.adam(config.temperature_learning_rate),
    'learn_temperature': config.learn_temperature,
    'initial_alpha': config.initial_alpha,
    'log_alpha_bounds': config.log_alpha_bounds,
    'target_entropy': config.target_entropy,
    'tau': config.tau,
    'target_update_period': config.target_update_period,
    'actor_update_period': config.actor_update_period,
    'entropy_backup': config.entropy_backup,
    'pointwise_loss': optax.huber_loss if config.critic_loss == 'huber' else optax.l2_loss,
    'normalize_observations': config.input_normalization,
    'reduce': getattr(reductions, config.reduce),
    'updates_per_call': config.num_sgd_steps_per_step,
    'axis_name': None if config.num_learner_devices == 1 else data_parallel.AXIS,
  }
