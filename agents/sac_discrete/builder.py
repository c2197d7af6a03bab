"""Builder of the discrete SAC agent."""

from __future__ import annotations

from agents.acme.builder import BlocksBuilder
from agents.sac_discrete.config import SACDiscreteConfig, make_algorithm
from sac_blocks import ActorCritic, Algorithm


class SACDiscreteBuilder(BlocksBuilder[ActorCritic]):
  """Builds Soft Actor-Critic for discrete actions for Acme's experiments and programs.

  Args:
    config: the options.
  """

  _config: SACDiscreteConfig

  def __init__(self, config: SACDiscreteConfig):
    super().__init__(config)

  def make_algorithm(self, networks: ActorCritic) -> Algorithm:
    """Makes the recipe that the configuration describes."""
    return make_algorithm(self._config, networks)
