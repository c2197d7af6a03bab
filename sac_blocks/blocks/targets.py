"""Blocks that move a component without a gradient."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sac_blocks import checks
from sac_blocks.blocks.base import Block
from sac_blocks.losses.targets import polyak_update
from sac_blocks.types import Array, Components, Info, PRNGKey, PyTree


def polyak_step(online: str, target: str, tau: Array | float) -> Block:
  """Moves a target component a step towards the component that it follows.

  A hard copy every n updates is `every(n, polyak_step(online, target, tau=1.0))`.

  Args:
    online: the name of the component that is learned.
    target: the name of its target.
    tau: a scalar, the step size in [0, 1] per update.

  Returns:
    A block without state.

  >>> import jax.numpy as jnp
  >>> block = polyak_step('critic', 'target_critic', tau=0.25)
  >>> params = {'critic': jnp.ones(2), 'target_critic': jnp.zeros(2)}
  >>> block.update(params, block.init(params), None, None, {})[0]['target_critic']
  Array([0.25, 0.25], dtype=float32)

  Reference: `sac_blocks.polyak_update`.
  """
  return map_component(target, lambda params, _: polyak_update(params[online], params[target], tau))


def map_component(component: str, function: Callable[[Components, Info], PyTree]) -> Block:
  """Replaces a component by a function of all components, and of what was computed before.

  Args:
    component: the name in `params` to replace.
    function: `function(params, info) -> value`, for example a projection onto bounds.

  Returns:
    A block without state.

  >>> import jax.numpy as jnp
  >>> clip = map_component('log_alpha', lambda params, info: jnp.clip(params['log_alpha'], -5.0, 1.0))
  >>> clip.update({'log_alpha': jnp.float32(3.0)}, (), None, None, {})[0]
  {'log_alpha': Array(1., dtype=float32)}
  """

  def init(params: Components) -> tuple[()]:
    del params
    return ()

  def update(
    params: Components, state: tuple[()], batch: Any, key: PRNGKey, info: Info
  ) -> tuple[Components, tuple[()], Info]:
    del batch, key
    readable = checks.ReadableInfo(info, f"map_component('{component}')")
    return {**params, component: function(params, readable)}, state, {}

  return Block(init, update)
