"""The formulas: arrays in, arrays out."""

from sac_blocks.losses.actor import (
  ActorSample,
  categorical_actor_loss,
  soft_policy_loss,
  tanh_gaussian_actor_loss,
)
from sac_blocks.losses.critic import (
  categorical_twin_critic_loss,
  q_at_action,
  soft_td_error,
  twin_critic_loss,
)
from sac_blocks.losses.hybrid import (
  HybridEntropies,
  hybrid_actor_loss,
  hybrid_soft_q_target,
  hybrid_soft_value,
)
from sac_blocks.losses.targets import periodic_update, polyak_update
from sac_blocks.losses.temperature import (
  continuous_target_entropy,
  discrete_target_entropy,
  temperature_loss,
)
from sac_blocks.losses.values import (
  bellman_target,
  categorical_soft_q_target,
  categorical_soft_value,
  n_step_soft_q_target,
  soft_q_target,
  soft_value,
)

__all__ = [
  'ActorSample',
  'HybridEntropies',
  'bellman_target',
  'categorical_actor_loss',
  'categorical_soft_q_target',
  'categorical_soft_value',
  'categorical_twin_critic_loss',
  'continuous_target_entropy',
  'discrete_target_entropy',
  'hybrid_actor_loss',
  'hybrid_soft_q_target',
  'hybrid_soft_value',
  'n_step_soft_q_target',
  'periodic_update',
  'polyak_update',
  'q_at_action',
  'soft_policy_loss',
  'soft_q_target',
  'soft_td_error',
  'soft_value',
  'tanh_gaussian_actor_loss',
  'temperature_loss',
  'twin_critic_loss',
]
