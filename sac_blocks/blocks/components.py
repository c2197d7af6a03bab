"""Which components an algorithm has and how each of them starts, as data; and starting some of them anew."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from sac_blocks.blocks.base import Block
from sac_blocks.types import Array, Components, Info, PRNGKey, PyTree


class Start(NamedTuple):
  """How a component starts.

  Attributes:
    make: `make(key, components) -> params`, with the components that started before it.
    random: whether it uses the key; one that doesn't is given None.
  """

  make: Callable[[PRNGKey | None, Components], PyTree]
  random: bool = False


def drawn(init: Callable[[PRNGKey], PyTree]) -> Start:
  """Starts a component at random, as networks do.

  Args:
    init: `init(key) -> params`, for example `networks.actor.init`.

  Returns:
    The start.

  >>> drawn(lambda key: jax.random.normal(key, (2,))).random
  True
  """
  return Start(lambda key, components: init(key), random=True)


def copied(component: str) -> Start:
  """Starts a component equal to one before it, in memory of its own.

  A buffer that stood in the state twice could not be donated.

  Args:
    component: the name of the one before.

  Returns:
    The start.

  >>> copied('critic').make(None, {'critic': jnp.ones(2)})
  Array([1., 1.], dtype=float32)
  """
  return Start(lambda key, components: jax.tree.map(lambda x: jnp.array(x, copy=True), components[component]))


def constant(value: PyTree) -> Start:
  """Starts a component at given numbers.

  Args:
    value: an array, or a tree of arrays of any shape.

  Returns:
    The start.

  >>> constant(0.5).make(None, {})
  Array(0.5, dtype=float32, weak_type=True)
  """
  return Start(lambda key, components: jax.tree.map(lambda x: jnp.array(x, copy=True), value))


def num_keys(starts: Mapping[str, Start]) -> int:
  """Returns how many of the components start at random.

  Args:
    starts: how components start, by name.

  Returns:
    The number of keys that `init_components` takes.

  >>> num_keys({'critic': drawn(lambda key: key), 'target_critic': copied('critic')})
  1
  """
  return sum(start.random for start in starts.values())


def init_components(
  starts: Mapping[str, Start], keys: Sequence[PRNGKey] | Array, components: Components | None = None
) -> Components:
  """Starts components in the order given.

  Args:
    starts: how, by name.
    keys: `[num_keys(starts)]` random keys, consumed.
    components: others that there are already, trees of arrays.

  Returns:
    The components of `starts`, trees of arrays by name.

  >>> starts = {'critic': drawn(lambda key: jax.random.normal(key, (2,))), 'target_critic': copied('critic')}
  >>> components = init_components(starts, jax.random.split(jax.random.key(0), num_keys(starts)))
  >>> bool(jnp.all(components['critic'] == components['target_critic']))
  True
  """
  remaining = iter(keys)
  started: Components = {}
  for name, start in starts.items():
    key = next(remaining) if start.random else None
    started[name] = start.make(key, {**(components or {}), **started})
  return started


class ResetState(NamedTuple):
  """State of `reset_every`.

  Attributes:
    calls: int32 scalar in [0, period), the calls since the last reset.
    block: the state of the block inside.
  """

  calls: Array
  block: PyTree


def reset_every(period: int, starts: Mapping[str, Start], block: Block) -> Block:
  """Starts components anew every so many calls, together with the state of the block that learns them.

  What the block inside knows of them, optimiser states and counters, starts anew, too, so wrap what belongs
  to the components and no more. Replay is no component and stays.

  Args:
    period: calls between resets, at least 1; the first comes after that many.
    starts: how the components start, by name.
    block: what learns them.

  Returns:
    The block.

  Raises:
    ValueError: `period` is below 1.

  >>> from sac_blocks.blocks import map_component
  >>> count = map_component('n', lambda params, info: params['n'] + 1.0)
  >>> block, params, seen = reset_every(3, {'n': constant(0.0)}, count), {'n': jnp.array(0.0)}, []
  >>> state = block.init(params)
  >>> for i in range(5):
  ...   params, state, _ = block.update(params, state, None, jax.random.key(i), {})
  ...   seen.append(float(params['n']))
  >>> seen
  [1.0, 2.0, 3.0, 1.0, 2.0]

  Reference: Nikishin et al. 2022, section 4, arXiv 2205.07802.
  """
  if period < 1:
    raise ValueError(f'reset_every(period, ...) needs a period of at least 1, got {period}.')

  def init(params: Components) -> ResetState:
    return ResetState(jnp.zeros((), jnp.int32), block.init(params))

  def update(
    params: Components, state: ResetState, batch: Any, key: PRNGKey, info: Info
  ) -> tuple[Components, ResetState, Info]:
    block_key, *keys = jax.random.split(key, 1 + num_keys(starts))

    def anew() -> tuple[Components, PyTree]:
      fresh = init_components(starts, keys, params)
      changed = {**params, **jax.tree.map(lambda new, old: new.astype(old.dtype), fresh, _chosen(params))}
      return changed, block.init(changed)

    def as_before() -> tuple[Components, PyTree]:
      return params, state.block

    def _chosen(params: Components) -> Components:
      return {name: params[name] for name in starts}

    due = state.calls == period
    params, block_state = jax.lax.cond(due, anew, as_before)
    params, block_state, reported = block.update(params, block_state, batch, block_key, info)
    calls = jnp.where(due, 1, state.calls + 1)
    return params, ResetState(calls, block_state), reported

  return Block(init, update, block.metrics)
