"""Recipes: whole algorithms as short chains of blocks."""

from sac_blocks.recipes.algorithm import algorithm
from sac_blocks.recipes.sac import sac

__all__ = ['algorithm', 'sac']
