"""The temperature's objective."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

import jax
import jax.numpy as jnp

from sac_blocks.losses.temperature import temperature_loss
from sac_blocks.objectives import parts
from sac_blocks.types import Array, Components, Info, Objective, PRNGKey, Transition


def temperature_objective(
  target_entropy: Any, *, parameterization: Literal['alpha', 'log_alpha'] = 'alpha'
) -> Objective:
  """Binds the temperature's loss to a target entropy, of any kind of action.

  Args:
    target_entropy: in nats, a scalar or `[B]`; or a function of `info`, where it depends on the state or
      changes in training; or a dict of such, one for each part of an action that has a temperature of its
      own.
    parameterization: as in `temperature_loss`.

  Returns:
    The mean over examples of `temperature_loss`, summed over parts. It reads the component `log_alpha` and
    the `entropy` that the actor's block has put into `info`, so that the actor doesn't run again, both dicts
    where the target is one; it reports `alpha`, as it was before the step, and where the target is a function
    its mean, `target_entropy`; of parts `alpha_discrete` and so on.

  >>> params, info = {'log_alpha': jnp.float32(0.0)}, {'entropy': jnp.array([-1.5, -2.0])}
  >>> loss = lambda params: temperature_objective(-1.0).loss(params, None, None, info)[0]
  >>> jax.grad(loss)(params)  # descent raises the temperature while the entropy is too low
  {'log_alpha': Array(-0.75, dtype=float32)}

  Reference: Haarnoja et al. 2018, eq. 18, arXiv 1812.05905; a temperature for each part: Delalleau et al.
    2019,
  arXiv 1912.11077.
  """
  targets = parts.named('target_entropy', target_entropy)
  functions = [name for name, target in targets.items() if callable(target)]

  def loss(params: Components, batch: Transition, key: PRNGKey, info: Info) -> tuple[Array, dict[str, Any]]:
    del batch, key
    log_alpha, entropy = params['log_alpha'], info['entropy']
    values = jax.tree.map(lambda target: target(info) if callable(target) else target, target_entropy)
    if not parts.of(log_alpha) == parts.of(entropy) == parts.of(values):
      raise ValueError(
        'log_alpha, entropy and target_entropy must have the same parts, got '
        f'{parts.of(log_alpha)}, {parts.of(entropy)} and {parts.of(values)}.'
      )

    def part_loss(log_alpha: Array, entropy: Array, target: Array) -> Array:
      return temperature_loss(log_alpha, entropy, target, parameterization=parameterization)

    losses = jax.tree.leaves(jax.tree.map(part_loss, log_alpha, entropy, values))
    reported = parts.named('target_entropy', jax.tree.map(jnp.mean, values))
    aux = {**parts.named('alpha', parts.alpha(params)), **{name: reported[name] for name in functions}}
    return jnp.mean(sum(losses)), aux

  names = parts.names('alpha', target_entropy if isinstance(target_entropy, Mapping) else ())
  return Objective(loss, metrics=(*names, *functions))
