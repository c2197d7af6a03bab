"""Builder of the SAC agent."""

from __future__ import annotations

from agents.acme.builder import BlocksBuilder
from agents.sac.config import SACConfig, make_algorithm
from sac_blocks import ActorCritic, Algorithm


class SACBuilder(BlocksBuilder[ActorCritic]):
  """Builds Soft Actor-Critic for Acme's experiments and programs.

  Args:
    config: the options.
  """

  _config: SACConfig

  def __init__(self, config: SACConfig):
    super().__init__(config)

  def make_algorithm(self, networks: ActorCritic) -> Algorithm:
    """Makes the recipe that the configuration describes."""
    return make_algorithm(self._config, networks)
