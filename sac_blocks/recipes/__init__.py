"""Recipes: whole algorithms as short chains of blocks."""

from sac_blocks.recipes.algorithm import algorithm
from sac_blocks.recipes.sac import sac
from sac_blocks.recipes.sac_discrete import sac_discrete
from sac_blocks.recipes.sac_hybrid import sac_hybrid
from sac_blocks.recipes.soft_actor_critic import soft_actor_critic

__all__ = ['algorithm', 'sac', 'sac_discrete', 'sac_hybrid', 'soft_actor_critic']
