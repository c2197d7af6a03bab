"""Builder of the discrete SAC agent."""

from __future__ import annotations

import functools

from agents.acme.builder import BlocksBuilder
from agents.sac_discrete.config import SACDiscreteConfig, make_algorithm
from sac_blocks import ActorCritic


class SACDiscreteBuilder(BlocksBuilder[ActorCritic]):
  """Builds Soft Actor-Critic for discrete actions for Acme's experiments and programs.

  Args:
    config: the options.
  """

  def __init__(self, config: SACDiscreteConfig):
    super().__init__(config, functools.partial(make_algorithm, config))
