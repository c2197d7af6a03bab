"""Objectives: losses bound to networks, ready for `gradient_step`."""

from sac_blocks.objectives.sac import actor_objective, critic_objective, temperature_objective

__all__ = ['actor_objective', 'critic_objective', 'temperature_objective']
