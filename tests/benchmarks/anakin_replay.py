"""Times draws from the on-device replay at two capacities.

uv run python -m tests.benchmarks.anakin_replay
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

from agents.anakin import prioritized_replay
from agents.anakin import replay as replay_lib

CAPACITIES = (10_000, 1_000_000)
BATCH_SIZE = 256
NUM_DRAWS = 500
REPETITIONS = 5


def full_ring(capacity: int) -> tuple[replay_lib.Replay, prioritized_replay.Priorities]:
  """A ring of Pendulum's rows, all written, and its priorities."""
  shapes = {'observation': (3,), 'action': (1,), 'reward': (), 'discount': (), 'next_observation': (3,)}
  rows = {name: jnp.ones((capacity, 1, *shape)) for name, shape in shapes.items()}
  rows = replay_lib.Rows(last=jnp.zeros((capacity, 1), bool), **rows)
  replay = replay_lib.add(replay_lib.init(rows, capacity), rows)
  return replay, prioritized_replay.add(prioritized_replay.init(capacity), replay, capacity, 1)


def uniform(replay: replay_lib.Replay, state: Any, key: jax.Array) -> tuple[Any, Any]:
  """One draw."""
  return state, replay_lib.sample(replay, key, BATCH_SIZE)


def prioritized(replay: replay_lib.Replay, state: Any, key: jax.Array) -> tuple[Any, Any]:
  """One draw, and new priorities for it."""
  draw_key, error_key = jax.random.split(key)
  batch, index = prioritized_replay.sample(state, replay, draw_key, BATCH_SIZE, importance_exponent=0.4)
  errors = jax.random.normal(error_key, (BATCH_SIZE,))
  return prioritized_replay.update(state, index, errors, 0.6), batch


def microseconds(draw: Callable[..., Any], capacity: int) -> float:
  """The least mean time of a draw within one compiled loop, over some repetitions."""

  @jax.jit
  def loop(replay: Any, state: Any, key: jax.Array) -> Any:
    def body(carry: Any, key: jax.Array) -> Any:
      state, total = carry
      state, batch = draw(replay, state, key)
      # All of it is read, or the compiler would leave it out.
      return (state, sum((jnp.sum(x) for x in jax.tree.leaves(batch)), total)), None

    return jax.lax.scan(body, (state, 0.0), jax.random.split(key, NUM_DRAWS))[0]

  arguments = (*full_ring(capacity), jax.random.key(0))
  jax.block_until_ready(loop(*arguments))
  times = []
  for _ in range(REPETITIONS):
    start = time.perf_counter()
    jax.block_until_ready(loop(*arguments))
    times.append(time.perf_counter() - start)
  return 1e6 * min(times) / NUM_DRAWS


def main() -> None:
  print(f'microseconds for a batch of {BATCH_SIZE}, on {jax.devices()[0].device_kind}')
  print('| capacity | uniform | prioritised, with the update of priorities |\n|---|---|---|')
  for capacity in CAPACITIES:
    print(
      f'| {capacity:,} | {microseconds(uniform, capacity):.0f} | {microseconds(prioritized, capacity):.0f} |'
    )


if __name__ == '__main__':
  main()
