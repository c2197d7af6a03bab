"""Configuration of the on-device trainer."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

from agents.config import check_option


@dataclasses.dataclass(frozen=True)
class AnakinConfig:
  """How environments, replay and updates take turns in the compiled loop.

  An iteration takes `rollout_length` steps in each of `num_envs` environments, stores them, and makes
  `num_updates` updates: `num_updates / (num_envs * rollout_length)` updates a step, exactly.

  Attributes:
    num_steps: environment steps to train for, over all environments, warm-up included.
    num_envs: environments side by side.
    rollout_length: steps of each environment in an iteration.
    num_updates: updates in an iteration.
    batch_size: transitions per update.
    buffer_size: steps that replay holds, over all environments.
    learning_starts: steps before the first update, over all environments.
    random_steps: of these, the steps that are uniformly random, over all environments.
    n_step: steps per transition, at least 1.
    discount: gamma, per environment step, in [0, 1].
    reward_scale: factor on rewards, positive.
    eval_every: steps between evaluations, over all environments.
    num_eval_episodes: episodes of an evaluation, side by side.
    max_eval_steps: steps after which an episode of an evaluation is cut off.
    max_replay_bytes: memory that replay may take at the most.
    priority_exponent: alpha of prioritised replay, at least 0: transitions are drawn in proportion to the
      alpha-th power of their TD errors, 0.6 in the paper; None draws uniformly, at no cost for priorities.
    importance_exponent: beta of prioritised replay, in [0, 1], or an optax schedule from the number of
      updates to it: how far weights on the critic loss make up for the draw, 1 for wholly.
  """

  num_steps: int = 10_000
  num_envs: int = 1
  rollout_length: int = 1
  num_updates: int = 1
  batch_size: int = 256
  buffer_size: int = 1_000_000
  learning_starts: int = 1000
  random_steps: int = 0
  n_step: int = 1
  discount: Any = 0.99
  reward_scale: Any = 1.0
  eval_every: int = 1000
  num_eval_episodes: int = 10
  max_eval_steps: int = 1000
  max_replay_bytes: float = 8e9
  priority_exponent: Any = None
  importance_exponent: Any = 0.4

  def __post_init__(self) -> None:
    for name in (
      'num_steps',
      'num_envs',
      'rollout_length',
      'num_updates',
      'batch_size',
      'buffer_size',
      'n_step',
      'eval_every',
      'num_eval_episodes',
      'max_eval_steps',
    ):
      value = getattr(self, name)
      check_option(name, value, type(value) is int and value >= 1, 'an integer of at least 1')
    for name in ('learning_starts', 'random_steps'):
      value = getattr(self, name)
      check_option(name, value, type(value) is int and value >= 0, 'an integer of at least 0')
    check_option(
      'random_steps', self.random_steps, self.random_steps <= self.learning_starts, 'at most learning_starts'
    )
    alpha, beta = self.priority_exponent, self.importance_exponent
    if isinstance(alpha, (int, float)):
      check_option('priority_exponent', alpha, 0.0 <= alpha < math.inf, 'at least 0, or None')
    if isinstance(beta, (int, float)):
      check_option('importance_exponent', beta, 0.0 <= beta <= 1.0, 'in [0, 1], or a schedule')
    check_option(
      'buffer_size',
      self.buffer_size,
      self.capacity >= self.rollout_length * -(-self.n_step // self.rollout_length),
      f'room for rollouts of {self.rollout_length} steps and windows of {self.n_step} in each environment',
    )

  @property
  def steps_per_iteration(self) -> int:
    """Environment steps of an iteration, over all environments."""
    return self.num_envs * self.rollout_length

  @property
  def capacity(self) -> int:
    """Time rows of replay: the most that `buffer_size` allows, in whole rollouts."""
    return self.buffer_size // self.steps_per_iteration * self.rollout_length
