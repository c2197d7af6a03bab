"""Blocks made of blocks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from sac_blocks.blocks.base import Block, scalars
from sac_blocks.types import Array, Components, Info, PRNGKey, PyTree


def chain(*blocks: Block) -> Block:
  """Applies blocks in the order given, which is the order of the updates.

  Every block sees the params that the ones before it left, and what they put into `info`.

  Args:
    *blocks: at least one block.

  Returns:
    The block that applies them all; its state is the tuple of theirs.

  Raises:
    ValueError: no block is given, or `update` gets a state of another length.

  >>> from sac_blocks.blocks import polyak_step
  >>> chain(polyak_step('critic', 'target_critic', tau=0.005)).metrics
  ()

  Reference: `optax.chain`.
  """
  if not blocks:
    raise ValueError('chain needs at least one block, got none.')

  def init(params: Components) -> tuple[PyTree, ...]:
    return tuple(block.init(params) for block in blocks)

  def update(
    params: Components, state: PyTree, batch: Any, key: PRNGKey, info: Info
  ) -> tuple[Components, PyTree, Info]:
    if len(state) != len(blocks):
      raise ValueError(f'chain of {len(blocks)} blocks got a state of {len(state)}: not its own.')
    keys = jax.random.split(key, len(blocks))
    states: list[PyTree] = []
    reported: dict[str, Any] = {}
    for block, block_state, block_key in zip(blocks, state, keys, strict=True):
      seen = {**info, **reported}
      params, block_state, added = block.update(params, block_state, batch, block_key, seen)
      states.append(block_state)
      reported.update(added)
    return params, tuple(states), reported

  return Block(init, update, tuple(name for block in blocks for name in block.metrics))


class EveryState(NamedTuple):
  """State of `every`.

  Attributes:
    calls: int32 scalar in [0, n), the calls since the block last ran.
    block: the state of the block inside.
    metrics: its metrics when it last ran, scalars by name.
  """

  calls: Array
  block: PyTree
  metrics: dict[str, Array]


def every(n: int, block: Block) -> Block:
  """Runs a block at the first call and every n-th after it, and skips its work in between.

  A skipped call leaves params and state alone and reports the block's metrics as they last were. Only
  metrics leave it: per-example entries of `info` don't exist in a skipped call, so a block that reads
  them belongs inside, `every(n, chain(actor, temperature))`.

  Args:
    n: the period in calls, at least 1.
    block: what to run; the scalars that it reports must be named in `block.metrics`.

  Returns:
    The delayed block.

  Raises:
    ValueError: `n` is below 1, or the block reports scalars that it doesn't name.

  >>> from sac_blocks.blocks import polyak_step
  >>> every(2, polyak_step('critic', 'target_critic', tau=0.005)).metrics
  ()

  Reference: delayed policy updates, Fujimoto et al. 2018, section 5.2, arXiv 1802.09477.
  """
  if n < 1:
    raise ValueError(f'every(n, ...) needs n of at least 1, got {n}.')

  def init(params: Components) -> EveryState:
    # Overwritten by the first call, which always runs.
    unseen = {name: jnp.zeros((), jnp.float32) for name in block.metrics}
    return EveryState(jnp.zeros((), jnp.int32), block.init(params), unseen)

  def update(
    params: Components, state: EveryState, batch: Any, key: PRNGKey, info: Info
  ) -> tuple[Components, EveryState, Info]:
    def run() -> tuple[Components, PyTree, dict[str, Array]]:
      new_params, block_state, reported = block.update(params, state.block, batch, key, info)
      return new_params, block_state, _metrics(block, reported)

    def skip() -> tuple[Components, PyTree, dict[str, Array]]:
      return params, state.block, state.metrics

    new_params, block_state, metrics = jax.lax.cond(state.calls == 0, run, skip)
    calls = (state.calls + 1) % n
    return new_params, EveryState(calls, block_state, metrics), metrics

  return Block(init, update, block.metrics)


def repeat(n: int, block: Block) -> Block:
  """Runs a block n times in one compiled loop, each time on its own part of the batch.

  Args:
    n: the number of runs, at least 1.
    block: what to run; the scalars that it reports must be named in `block.metrics`.

  Returns:
    A block whose batch leads with `[n B]`: n minibatches of B examples, one behind the other. Its metrics
    are means over the n runs; per-example entries of `info` stay inside. The compiled program doesn't grow
    with n.

  Raises:
    ValueError: `n` is below 1, the batch can't be split evenly, or scalars are reported but not named.

  >>> from sac_blocks.blocks import polyak_step
  >>> repeat(64, polyak_step('critic', 'target_critic', tau=0.005)).metrics
  ()

  Reference: the update-to-data ratio of Chen et al. 2021, arXiv 2101.05982.
  """
  if n < 1:
    raise ValueError(f'repeat(n, ...) needs n of at least 1, got {n}.')

  def split(leaf: Array) -> Array:
    if leaf.ndim < 1 or leaf.shape[0] % n:
      raise ValueError(f'repeat({n}, ...) needs batch leaves [{n} B, ...], got shape {leaf.shape}.')
    return leaf.reshape(n, leaf.shape[0] // n, *leaf.shape[1:])

  def update(
    params: Components, state: PyTree, batch: Any, key: PRNGKey, info: Info
  ) -> tuple[Components, PyTree, Info]:
    def body(carry: Any, step: Any) -> tuple[Any, dict[str, Array]]:
      minibatch, step_key = step
      loop_params, loop_state = carry
      new_params, new_state, reported = block.update(loop_params, loop_state, minibatch, step_key, info)
      return (new_params, new_state), _metrics(block, reported)

    steps = (jax.tree.map(split, batch), jax.random.split(key, n))
    (params, state), metrics = jax.lax.scan(body, (params, state), steps, length=n)
    return params, state, jax.tree.map(lambda x: jnp.mean(x, axis=0), metrics)

  return Block(block.init, update, block.metrics)


def map_batch(function: Callable[[Components, Any], Any], block: Block) -> Block:
  """Hands a block a changed batch.

  Args:
    function: `function(params, batch) -> batch`, for example normalisation by running statistics.
    block: what to run on the result.

  Returns:
    The block; blocks beside it in a chain go on seeing the batch as it was.

  >>> from sac_blocks.blocks import polyak_step
  >>> half = map_batch(lambda params, batch: 0.5 * batch, polyak_step('critic', 'target', tau=1.0))
  >>> half.metrics
  ()
  """

  def update(
    params: Components, state: PyTree, batch: Any, key: PRNGKey, info: Info
  ) -> tuple[Components, PyTree, Info]:
    return block.update(params, state, function(params, batch), key, info)

  return Block(block.init, update, block.metrics)


def _metrics(block: Block, reported: Info) -> dict[str, Array]:
  """The scalars that the block reports, in one dtype, since a loop has to carry them."""
  found = scalars(reported)
  if unnamed := sorted(set(found) - set(block.metrics)):
    raise ValueError(
      f'The block reports {unnamed}, which its metrics {block.metrics} do not name: inside `every` or '
      '`repeat` name them, for example by Objective(loss, metrics=(...)).'
    )
  if missing := sorted(set(block.metrics) - set(found)):
    raise ValueError(f'The block names the metrics {missing} but does not report them as scalars.')
  return {name: value.astype(jnp.float32) for name, value in found.items()}
