"""Steps that the recipes of the family share, as blocks."""

from __future__ import annotations

import math
from typing import Any

import jax
import jax.numpy as jnp
import optax

from sac_blocks import checks
from sac_blocks.blocks import Block, chain, every, gradient_step, map_component, polyak_step
from sac_blocks.objectives import temperature_objective
from sac_blocks.types import Array, Components, Info, Objective, PyTree


def descend(
  component: str,
  objective: Objective,
  optimizer: optax.GradientTransformation | None = None,
  axis_name: str | None = None,
) -> Block:
  """Descends an objective in one component, by Adam at 3e-4 where no optimiser is given.

  Args:
    component: its name in `params`.
    objective: what to descend.
    optimizer: any optax transform.
    axis_name: as in `gradient_step`.

  Returns:
    The block.

  >>> descend('actor', Objective(lambda params, batch, key, info: (params['actor'] ** 2, {}))).metrics
  ('actor_loss',)

  Reference: Haarnoja et al. 2018, table 1 (appendix D), arXiv 1812.05905.
  """
  optimizer = optax.adam(3e-4) if optimizer is None else optimizer
  return gradient_step(component, objective, optimizer, axis_name=axis_name)


def delayed(period: int, *blocks: Block) -> tuple[Block, ...]:
  """Runs blocks together at every so many updates, the first among them.

  Args:
    period: in updates, at least 1.
    *blocks: in their order.

  Returns:
    The blocks as they are for a period of 1, else the one that delays them.

  Raises:
    ValueError: the period is below 1.

  >>> from sac_blocks.blocks import polyak_step
  >>> len(delayed(1, polyak_step('a', 'b', 0.1), polyak_step('c', 'd', 0.1)))
  2

  Reference: Fujimoto et al. 2018, section 5.2, arXiv 1802.09477.
  """
  return blocks if period == 1 else (every(period, chain(*blocks)),)


def temperature_steps(
  target_entropy: Any,
  optimizer: optax.GradientTransformation | None = None,
  *,
  learn: bool = True,
  initial_alpha: PyTree = 1.0,
  bounds: tuple[Array | float, Array | float] | None = None,
  axis_name: str | None = None,
) -> tuple[Block, ...]:
  """Learns the temperature, behind the actor's step, whose entropy it reads.

  Args:
    target_entropy: as in `temperature_objective`.
    optimizer: Adam at 3e-4 by default; keep weight decay out of it.
    learn: False leaves the temperature as it is.
    initial_alpha: where the temperature starts, a scalar or a dict of them, to be held against the bounds.
    bounds: lowest and highest value of a learned `log_alpha`, scalars, or None.
    axis_name: as in `gradient_step`.

  Returns:
    The blocks, none where nothing is learned.

  Raises:
    ValueError: the bounds are out of order, exclude the start, or bound what isn't learned.

  >>> len(temperature_steps(-1.0)), len(temperature_steps(-1.0, learn=False))
  (1, 0)

  Reference: Haarnoja et al. 2018, section 5, arXiv 1812.05905.
  """
  if bounds is not None and not learn:
    raise ValueError(f'log_alpha_bounds={bounds} has no meaning for a temperature that is not learned.')
  if not learn:
    return ()
  step = descend('log_alpha', temperature_objective(target_entropy), optimizer, axis_name)
  if bounds is None:
    return (step,)
  low, high = bounds
  if not checks.traced(low, high):
    if not low <= high:
      raise ValueError(f'log_alpha_bounds must be (low, high) with low <= high, got {(low, high)}.')
    least, most = math.exp(low) * (1 - 1e-6), math.exp(high) * (1 + 1e-6)
    jax.tree.map(lambda alpha: checks.in_range('initial_alpha', alpha, least, most), initial_alpha)

  def clip(params: Components, info: Info) -> PyTree:
    del info
    return jax.tree.map(lambda x: jnp.clip(x, low, high), params['log_alpha'])

  return step, map_component('log_alpha', clip)


def target_step(tau: Array | float, period: int = 1) -> Block:
  """Moves the target critics towards the critics.

  Args:
    tau: step size, a scalar in [0, 1]; 1 copies.
    period: updates per step, at least 1.

  Returns:
    The block.

  Raises:
    ValueError: an option is out of range.

  >>> target_step(tau=2.0)
  Traceback (most recent call last):
  ...
  ValueError: tau must lie in [0.0, 1.0], got 2.0.

  Reference: Haarnoja et al. 2018, algorithm 1, arXiv 1812.05905.
  """
  checks.in_range('tau', tau, 0.0, 1.0)
  step = polyak_step('critic', 'target_critic', tau)
  return step if period == 1 else every(period, step)
