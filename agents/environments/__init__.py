"""Environments by name, behind one interface: `dm_env` with actions in [-1, 1] and float32 data.

Time limits and terminal states stay apart: the last step of an episode has discount 1 where a limit
cut it and 0 only where the task ended, so that values are bootstrapped through the cut.

Discrete actions are counted from zero. Where only some of them are legal, the observation is a dict with
the key `action_mask`: a bool array, True for legal, `[A]` for a discrete action; for a MultiDiscrete one the
masks of its factors concatenated, `[sum of the numbers of values]`, as sb3-contrib's MaskablePPO has them.
"""

from agents.environments.gymnasium_adapter import GymnasiumEnvironment
from agents.environments.loaders import make
from agents.environments.wrappers import (
  ActionMasks,
  CanonicalActions,
  DiscreteActions,
  FlatObservations,
  SinglePrecision,
  TimeLimit,
  Wrapper,
)

__all__ = [
  'ActionMasks',
  'CanonicalActions',
  'DiscreteActions',
  'FlatObservations',
  'GymnasiumEnvironment',
  'SinglePrecision',
  'TimeLimit',
  'Wrapper',
  'make',
]
