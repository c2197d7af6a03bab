"""The Soft Actor-Critic agent: configuration, networks, and the builder for Acme."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from agents.sac.config import SACConfig, make_algorithm
from agents.sac.networks import make_networks

if TYPE_CHECKING:
  from agents.sac.builder import SACBuilder

__all__ = ['SACBuilder', 'SACConfig', 'make_algorithm', 'make_networks']


def __getattr__(name: str) -> Any:
  # On demand, since it brings in Acme and TensorFlow: seconds of start-up, and absent from the modern stack.
  if name == 'SACBuilder':
    from agents.sac.builder import SACBuilder

    return SACBuilder
  raise AttributeError(f'module {__name__!r} has no attribute {name!r}')
