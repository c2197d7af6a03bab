"""The formulas: arrays in, arrays out."""

from sac_blocks.losses.actor import ActorSample, soft_policy_loss, tanh_gaussian_actor_loss
from sac_blocks.losses.critic import soft_td_error, twin_critic_loss
from sac_blocks.losses.targets import periodic_update, polyak_update
from sac_blocks.losses.temperature import continuous_target_entropy, temperature_loss
from sac_blocks.losses.values import n_step_soft_q_target, soft_q_target, soft_value

__all__ = [
  'ActorSample',
  'continuous_target_entropy',
  'n_step_soft_q_target',
  'periodic_update',
  'polyak_update',
  'soft_policy_loss',
  'soft_q_target',
  'soft_td_error',
  'soft_value',
  'tanh_gaussian_actor_loss',
  'temperature_loss',
  'twin_critic_loss',
]
