"""Configuration of the discrete SAC agent."""

from __future__ import annotations

import dataclasses
from typing import Any

import optax

from agents.config import SoftActorCriticConfig, check_option, recipe_options
from sac_blocks import ActorCritic, Algorithm, recipes


@dataclasses.dataclass(frozen=True)
class SACDiscreteConfig(SoftActorCriticConfig):
  """Options of discrete Soft Actor-Critic; most are `SoftActorCriticConfig`'s and `ReplayConfig`'s.

  Some defaults differ from theirs: faster learning from smaller batches suits tasks whose expectations over
  actions are exact.

  Attributes:
    target_entropy_ratio: the target entropy as a part of the largest that each state allows, the log of its
      number of legal actions, in [0, 1]; unless `target_entropy` gives one for all states, in nats.
    final_target_entropy_ratio: the ratio that `target_entropy_ratio` goes to, linearly, or None to stay.
    target_entropy_ratio_updates: the number of updates that it takes for that.
  """

  batch_size: int = 64
  samples_per_insert: float | None = 64.0
  actor_learning_rate: float | optax.Schedule = 1e-3
  critic_learning_rate: float | optax.Schedule = 1e-3
  temperature_learning_rate: float | optax.Schedule = 1e-3
  tau: float = 0.01
  target_entropy_ratio: float = 0.5
  final_target_entropy_ratio: float | None = None
  target_entropy_ratio_updates: int = 50_000

  def __post_init__(self) -> None:
    super().__post_init__()
    for name in ('target_entropy_ratio', 'final_target_entropy_ratio'):
      ratio = getattr(self, name)
      missing = ratio is None and name.startswith('final')
      check_option(name, ratio, missing or (ratio >= 0.0) & (ratio <= 1.0), 'in [0, 1]')
    target = self.target_entropy
    check_option('target_entropy', target, target is None or target >= 0.0, 'at least 0, or None')
    if target is not None:
      final = self.final_target_entropy_ratio
      check_option('final_target_entropy_ratio', final, final is None, 'None where target_entropy is given')
    updates = self.target_entropy_ratio_updates
    check_option(
      'target_entropy_ratio_updates',
      updates,
      type(updates) is int and updates >= 1,
      'an integer of at least 1',
    )


def make_algorithm(config: SACDiscreteConfig, networks: ActorCritic) -> Algorithm:
  """Makes the recipe that a configuration describes.

  Args:
    config: the options.
    networks: actor and critics.

  Returns:
    The algorithm; one call of its update makes `num_sgd_steps_per_step` updates.
  """
  ratio: Any = config.target_entropy_ratio
  if config.final_target_entropy_ratio is not None:
    ratio = optax.linear_schedule(
      ratio, config.final_target_entropy_ratio, config.target_entropy_ratio_updates
    )
  return recipes.sac_discrete(
    networks,
    target_entropy_ratio=ratio,
    **recipe_options(config),
  )
