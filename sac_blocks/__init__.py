"""Soft Actor-Critic as pure loss primitives, update blocks and whole algorithms."""

from sac_blocks import blocks, distributions, losses, objectives, recipes
from sac_blocks.distributions import Categorical, FactoredCategorical, TanhGaussian
from sac_blocks.losses import (
  categorical_actor_loss,
  categorical_soft_q_target,
  categorical_soft_value,
  categorical_twin_critic_loss,
  continuous_target_entropy,
  discrete_target_entropy,
  n_step_soft_q_target,
  periodic_update,
  polyak_update,
  q_at_action,
  soft_policy_loss,
  soft_q_target,
  soft_td_error,
  soft_value,
  tanh_gaussian_actor_loss,
  temperature_loss,
  twin_critic_loss,
)
from sac_blocks.types import ActorCritic, Algorithm, Network, Objective, TrainingState, Transition

__version__ = '0.1.0'

__all__ = [
  'ActorCritic',
  'Algorithm',
  'Categorical',
  'FactoredCategorical',
  'Network',
  'Objective',
  'TanhGaussian',
  'TrainingState',
  'Transition',
  'blocks',
  'categorical_actor_loss',
  'categorical_soft_q_target',
  'categorical_soft_value',
  'categorical_twin_critic_loss',
  'continuous_target_entropy',
  'discrete_target_entropy',
  'distributions',
  'losses',
  'n_step_soft_q_target',
  'objectives',
  'periodic_update',
  'polyak_update',
  'q_at_action',
  'recipes',
  'soft_policy_loss',
  'soft_q_target',
  'soft_td_error',
  'soft_value',
  'tanh_gaussian_actor_loss',
  'temperature_loss',
  'twin_critic_loss',
]
