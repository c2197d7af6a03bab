"""Steps of training as they happen; the environment loop logs whole episodes only."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


class WatchedBuilder:
  """An agent's builder that reports each environment step of training.

  An actor that trains is known by its adder; those that evaluate have none.

  Args:
    builder: of any agent.
    on_step: called after each environment step of training.
  """

  def __init__(self, builder: Any, on_step: Callable[[], None]):
    self._builder = builder
    self._on_step = on_step

  def make_actor(
    self,
    random_key: Any,
    policy: Any,
    environment_spec: Any,
    variable_source: Any = None,
    adder: Any = None,
  ) -> Any:
    """Makes the builder's actor, watched if it trains."""
    actor = self._builder.make_actor(random_key, policy, environment_spec, variable_source, adder)
    return actor if adder is None else _WatchedActor(actor, self._on_step)

  def __getattr__(self, name: str) -> Any:
    # Without this guard, copying a half-built object would recurse for ever.
    if name.startswith('_'):
      raise AttributeError(name)
    return getattr(self._builder, name)


class _WatchedActor:
  def __init__(self, actor: Any, on_step: Callable[[], None]):
    self.select_action = actor.select_action
    self.observe_first = actor.observe_first
    self.update = actor.update
    self._observe = actor.observe
    self._on_step = on_step

  def observe(self, action: Any, next_timestep: Any) -> None:
    self._observe(action, next_timestep)
    self._on_step()
