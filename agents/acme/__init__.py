"""An agent with Acme, Reverb and Launchpad: what it acts, stores and learns with on hosts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
  from agents.acme.builder import BlocksBuilder

__all__ = ['BlocksBuilder']


def __getattr__(name: str) -> Any:
  # On demand, since it brings in Reverb and TensorFlow, which not all that is below needs.
  if name == 'BlocksBuilder':
    from agents.acme.builder import BlocksBuilder

    return BlocksBuilder
  raise AttributeError(f'module {__name__!r} has no attribute {name!r}')
