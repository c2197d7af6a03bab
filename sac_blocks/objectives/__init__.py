"""Objectives: losses bound to networks, ready for `gradient_step`."""

from sac_blocks.objectives.sac import actor_objective, critic_objective, temperature_objective
from sac_blocks.objectives.sac_discrete import discrete_actor_objective, discrete_critic_objective
from sac_blocks.objectives.sac_hybrid import (
  hybrid_actor_objective,
  hybrid_critic_objective,
  hybrid_temperature_objective,
)

__all__ = [
  'actor_objective',
  'critic_objective',
  'discrete_actor_objective',
  'discrete_critic_objective',
  'hybrid_actor_objective',
  'hybrid_critic_objective',
  'hybrid_temperature_objective',
  'temperature_objective',
]
