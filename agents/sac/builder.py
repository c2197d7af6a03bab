"""Builder of the SAC agent."""

from __future__ import annotations

import functools

from agents.acme.builder import BlocksBuilder
from agents.sac.config import SACConfig, make_algorithm
from sac_blocks import ActorCritic


class SACBuilder(BlocksBuilder[ActorCritic]):
  """Builds Soft Actor-Critic for Acme's experiments and programs.

  Args:
    config: the options.
  """

  def __init__(self, config: SACConfig):
    super().__init__(config, functools.partial(make_algorithm, config))
