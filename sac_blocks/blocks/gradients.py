"""Blocks that learn by gradients."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import optax

from sac_blocks import checks
from sac_blocks.blocks.base import Block, scalars
from sac_blocks.types import Array, Components, Info, LossFn, Objective, PRNGKey, PyTree


def gradient_step(
  component: str,
  objective: Objective | LossFn,
  optimizer: optax.GradientTransformation,
  *,
  axis_name: str | None = None,
) -> Block:
  """Descends an objective in one component; the others are held constant.

  Args:
    component: the name in `params` to differentiate and update.
    objective: `objective(params, batch, key, info) -> (scalar, aux)`, or an `Objective`, which also names
      the scalars in aux.
    optimizer: any optax transform; it is given the component's params, so weight decay works.
    axis_name: the mapped axis of a data-parallel update: gradients, before the optimiser sees them, and
      the reported scalars are averaged over its devices; per-example entries stay with their device.

  Returns:
    A block that reports the scalar `{component}_loss` and what is in aux.

  Raises:
    KeyError: `params` has no such component, or the objective reads what no block before has reported.

  >>> loss = lambda params, batch, key, info: (jnp.mean((params['w'] - batch) ** 2), {})
  >>> block = gradient_step('w', loss, optax.sgd(0.5))
  >>> params = {'w': jnp.array(0.0)}
  >>> key = jax.random.key(0)
  >>> params, state, info = block.update(params, block.init(params), jnp.ones(3), key, {})
  >>> params['w'], info['w_loss']
  (Array(1., dtype=float32), Array(1., dtype=float32))
  """
  objective = objective if isinstance(objective, Objective) else Objective(objective)

  def select(params: Components) -> PyTree:
    if component not in params:
      raise KeyError(f"gradient_step('{component}', ...) finds only {sorted(params)} in params.")
    return params[component]

  def init(params: Components) -> optax.OptState:
    return optimizer.init(select(params))

  def update(
    params: Components, state: optax.OptState, batch: Any, key: PRNGKey, info: Info
  ) -> tuple[Components, optax.OptState, Info]:
    readable = checks.ReadableInfo(info, f"gradient_step('{component}')")

    def loss_fn(value: PyTree) -> tuple[Array, dict[str, Any]]:
      return objective.loss({**params, component: value}, batch, key, readable)

    (loss, aux), gradients = jax.value_and_grad(loss_fn, has_aux=True)(select(params))
    if axis_name is not None:
      # Not by a chain with `pmean_gradients`, so that the optimiser's state is that of a single device.
      gradients = jax.lax.pmean(gradients, axis_name)
    updates, state = optimizer.update(gradients, state, params[component])
    params = {**params, component: optax.apply_updates(params[component], updates)}
    added = {**jax.tree.map(jnp.asarray, aux), f'{component}_loss': loss}
    if axis_name is not None:
      added.update(jax.lax.pmean(scalars(added), axis_name))
    return params, state, added

  return Block(init, update, (f'{component}_loss', *objective.metrics))


def pmean_gradients(axis_name: str) -> optax.GradientTransformation:
  """Averages gradients over the devices of a mapped axis.

  Put before the optimiser, `optax.chain(pmean_gradients('devices'), optax.adam(3e-4))`, it makes every
  device take the step of the whole batch. Clipping by the global norm belongs behind it. `gradient_step`
  does the same itself where it is told the axis.

  Args:
    axis_name: the name of the axis in the surrounding `pmap`, `vmap` or `shard_map`.

  Returns:
    An optax transform without state.

  >>> transform = optax.chain(pmean_gradients('i'), optax.sgd(1.0))
  >>> step = lambda g: transform.update(g, transform.init(g))[0]
  >>> jax.vmap(step, axis_name='i')(jnp.array([1.0, 3.0]))
  Array([-2., -2.], dtype=float32)
  """

  def update(updates: PyTree, params: PyTree | None) -> PyTree:
    del params
    return jax.lax.pmean(updates, axis_name)

  return optax.stateless(update)
