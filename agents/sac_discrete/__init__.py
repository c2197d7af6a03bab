"""The discrete Soft Actor-Critic agent: configuration, networks, and the builder for Acme."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from agents.sac_discrete.config import SACDiscreteConfig, make_algorithm
from agents.sac_discrete.networks import make_networks

if TYPE_CHECKING:
  from agents.sac_discrete.builder import SACDiscreteBuilder

__all__ = ['SACDiscreteBuilder', 'SACDiscreteConfig', 'make_algorithm', 'make_networks']


def __getattr__(name: str) -> Any:
  # On demand, since it brings in Acme and TensorFlow: seconds of start-up, and absent from the modern stack.
  if name == 'SACDiscreteBuilder':
    from agents.sac_discrete.builder import SACDiscreteBuilder

    return SACDiscreteBuilder
  raise AttributeError(f'module {__name__!r} has no attribute {name!r}')
