"""Blocks: pure transforms of named parameter components, and how they combine."""

from sac_blocks.blocks.base import Block, scalars
from sac_blocks.blocks.combinators import chain, every, map_batch, repeat
from sac_blocks.blocks.components import (
  Start,
  constant,
  copied,
  drawn,
  init_components,
  num_keys,
  reset_every,
)
from sac_blocks.blocks.gradients import gradient_step, pmean_gradients
from sac_blocks.blocks.schedules import scheduled_value
from sac_blocks.blocks.statistics import (
  RunningStatistics,
  init_statistics,
  normalize,
  normalize_transition,
  observation_statistics,
  update_statistics,
)
from sac_blocks.blocks.targets import map_component, polyak_step

__all__ = [
  'Block',
  'RunningStatistics',
  'Start',
  'chain',
  'constant',
  'copied',
  'drawn',
  'every',
  'gradient_step',
  'init_components',
  'init_statistics',
  'map_batch',
  'map_component',
  'normalize',
  'normalize_transition',
  'num_keys',
  'observation_statistics',
  'pmean_gradients',
  'polyak_step',
  'repeat',
  'reset_every',
  'scalars',
  'scheduled_value',
  'update_statistics',
]
