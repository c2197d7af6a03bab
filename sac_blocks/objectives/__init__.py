"""Objectives: losses bound to networks, for every kind of action, ready for `gradient_step`."""

from sac_blocks.objectives.actor import actor_objective
from sac_blocks.objectives.critic import critic_objective
from sac_blocks.objectives.sums import weighted_sum
from sac_blocks.objectives.temperature import temperature_objective

__all__ = ['actor_objective', 'critic_objective', 'temperature_objective', 'weighted_sum']
