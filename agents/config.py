"""Configuration that all agents share: data, replay and rate limits."""

from __future__ import annotations

import dataclasses
import math
from typing import Any


def check_option(name: str, value: Any, condition: bool, expected: str) -> None:
  """Raises unless an option's value is as expected.

  Args:
    name: the option's name.
    value: what was given.
    condition: whether it is acceptable.
    expected: what would be, for the message.

  Raises:
    ValueError: it is not.
  """
  if not condition:
    raise ValueError(f'{name} must be {expected}, got {value!r}.')


@dataclasses.dataclass(frozen=True)
class ReplayConfig:
  """How experience is stored, sampled and limited.

  Attributes:
    batch_size: transitions per update.
    num_sgd_steps_per_step: updates per learner step, made in one compiled loop from one larger read.
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
    variable_update_period: environment steps between an actor's fetches of params from another process.
  """

  batch_size: int = 256
  num_sgd_steps_per_step: int = 1
  discount: float = 0.99
  n_step: int = 1
  reward_scale: float = 1.0
  min_replay_size: int = 1000
  max_replay_size: int = 1_000_000
  samples_per_insert: float | None = 256.0
  samples_per_insert_tolerance_rate: float = 0.1
  replay_table_name: str = 'replay'
  prefetch_size: int = 2
  variable_update_period: int = 1

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
    check_option('discount', self.discount, 0.0 <= self.discount <= 1.0, 'in [0, 1]')
    check_option('reward_scale', self.reward_scale, 0.0 < self.reward_scale < math.inf, 'positive')
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
