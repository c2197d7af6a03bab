"""Recipes: whole algorithms as short chains of blocks."""

from sac_blocks.recipes.algorithm import actor_critic_components, algorithm
from sac_blocks.recipes.sac import sac
from sac_blocks.recipes.sac_discrete import sac_discrete
from sac_blocks.recipes.sac_hybrid import sac_hybrid
from sac_blocks.recipes.steps import delayed, descend, target_step, temperature_steps

__all__ = [
  'actor_critic_components',
  'algorithm',
  'delayed',
  'descend',
  'sac',
  'sac_discrete',
  'sac_hybrid',
  'target_step',
  'temperature_steps',
]
