"""Uniform replay over Reverb: one row of bytes per transition, read and written in bulk."""

from agents.acme.replay.adder import TransitionAdder
from agents.acme.replay.dataset import ReplayIterator, make_dataset_iterator
from agents.acme.replay.layout import RowLayout
from agents.acme.replay.table import make_rate_limiter, make_table, projected_bytes

__all__ = [
  'ReplayIterator',
  'RowLayout',
  'TransitionAdder',
  'make_dataset_iterator',
  'make_rate_limiter',
  'make_table',
  'projected_bytes',
]
