"""Sums of objectives."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sac_blocks.types import Array, Components, Info, Objective, PRNGKey


def weighted_sum(
  objectives: Sequence[Objective], weights: Sequence[Array | float] | None = None
) -> Objective:
  r"""Adds objectives of one component, for example a regulariser to the critics' loss.

  $$L = \sum_i w_i L_i$$

  Each sees the same batch, key and `info`.

  Args:
    objectives: at least one.
    weights: a scalar for each; None for 1.

  Returns:
    The objective, which reports what they all do.

  Raises:
    ValueError: none is given, the numbers of objectives and weights differ, or, when it is used, two report
      an entry of one name.

  >>> import jax.numpy as jnp
  >>> square = Objective(lambda params, batch, key, info: (params['w'] ** 2, {}))
  >>> linear = Objective(lambda params, batch, key, info: (params['w'], {'w_now': params['w']}), ('w_now',))
  >>> total = weighted_sum([square, linear], weights=[1.0, 0.5])
  >>> total.loss({'w': jnp.array(2.0)}, None, None, {})[0], total.metrics
  (Array(5., dtype=float32...), ('w_now',))
  """
  if not objectives:
    raise ValueError('weighted_sum needs at least one objective, got none.')
  factors = [1.0] * len(objectives) if weights is None else list(weights)
  if len(factors) != len(objectives):
    raise ValueError(f'weighted_sum got {len(objectives)} objectives and {len(factors)} weights.')

  def loss(params: Components, batch: Any, key: PRNGKey, info: Info) -> tuple[Array, dict[str, Any]]:
    total: Any = 0.0
    reported: dict[str, Any] = {}
    for objective, weight in zip(objectives, factors, strict=True):
      value, aux = objective.loss(params, batch, key, info)
      if twice := sorted(set(reported) & set(aux)):
        raise ValueError(f'weighted_sum: two objectives report {twice}; an entry of info needs one owner.')
      total = total + weight * value
      reported.update(aux)
    return total, reported

  return Objective(loss, tuple(name for objective in objectives for name in objective.metrics))
