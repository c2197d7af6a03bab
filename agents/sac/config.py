"""Configuration of the SAC agent."""

from __future__ import annotations

import dataclasses

from agents.config import SoftActorCriticConfig, recipe_options
from sac_blocks import ActorCritic, Algorithm, recipes


@dataclasses.dataclass(frozen=True)
class SACConfig(SoftActorCriticConfig):
  """Options of Soft Actor-Critic, all of them `SoftActorCriticConfig`'s and `ReplayConfig`'s.

  Where `target_entropy` is None it is minus the number of action dimensions.
  """


def make_algorithm(config: SACConfig, networks: ActorCritic) -> Algorithm:
  """Makes the recipe that a configuration describes.

  Args:
    config: the options.
    networks: actor and critics.

  Returns:
    The algorithm; one call of its update makes `num_sgd_steps_per_step` updates.
  """
  return recipes.sac(networks, **recipe_options(config))
