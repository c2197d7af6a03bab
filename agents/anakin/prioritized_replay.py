"""Prioritised draws from the ring: a sum tree over its steps, which every update changes."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from agents.anakin import replay as replay_lib
from sac_blocks import Transition

# Added to errors, so that a step whose error is 0 can be drawn again.
_LEAST_PRIORITY = 1e-6


class Priorities(NamedTuple):
  """The priorities of the steps in a ring.

  Attributes:
    tree: `[2 M]`, with M a power of two and no less than the steps that the ring holds. Its places M to
      2 M - 1 are the p^alpha of the steps, row by row, 0 where none can be drawn; place i < M is the sum of
      the places 2 i and 2 i + 1, so the sum of all is at 1. Place 0 is idle.
    largest: the largest p^alpha so far, 1 at first.
  """

  tree: jax.Array
  largest: jax.Array


def init(num_steps: int) -> Priorities:
  """Makes the priorities of an empty ring.

  Args:
    num_steps: that the ring holds, over all environments.
  """
  return Priorities(jnp.zeros(_tree_size(num_steps), jnp.float32), jnp.ones((), jnp.float32))


def projected_bytes(num_steps: int) -> int:
  """Returns the bytes of the priorities of a ring that holds a number of steps."""
  return 4 * _tree_size(num_steps)


def _tree_size(num_steps: int) -> int:
  return 2 << (num_steps - 1).bit_length()


def add(priorities: Priorities, replay: replay_lib.Replay, length: int, n_step: int) -> Priorities:
  """Gives new steps the largest priority so far, as soon as an n-step window that starts there is full.

  The newest n - 1 rows wait for that, with a priority of 0. The rows that were written over lose theirs.

  Args:
    priorities: of the ring as it was.
    replay: the ring with the new rows.
    length: the number of them.
    n_step: n, at least 1.
  """
  capacity, num_envs = replay.rows.reward.shape
  from_head = jnp.arange(-(length + n_step - 1), 0)
  fits = (from_head <= -n_step) & (from_head >= -replay.size)
  rows = (replay.head + from_head) % capacity
  index = rows[:, None] * num_envs + jnp.arange(num_envs)
  leaves = jnp.where(fits, priorities.largest, 0.0)
  # Where the rows are more than the ring has, those that coincide are all 0.
  node = priorities.tree.shape[0] // 2 + index.ravel()
  tree = priorities.tree.at[node].set(jnp.repeat(leaves, num_envs))
  return priorities._replace(tree=_sum(tree, node))


def sample(
  priorities: Priorities,
  replay: replay_lib.Replay,
  key: jax.Array,
  batch_size: int,
  *,
  importance_exponent: float | jax.Array,
  n_step: int = 1,
  discount: float | jax.Array = 0.99,
  reward_scale: float | jax.Array = 1.0,
) -> tuple[Transition, jax.Array]:
  r"""Draws n-step transitions in proportion to their priorities, with replacement.

    P(i) = p_i^alpha / sum_k p_k^alpha,   w_i = (N P(i))^-beta / max_j (N P(j))^-beta  with j in the batch.

  The cost grows with the logarithm of the capacity.

  Args:
    priorities: those of the ring, at least one of them positive.
    replay: the ring.
    key: of the draw.
    batch_size: B.
    importance_exponent: beta, in [0, 1].
    n_step: as in `add`.
    discount: gamma, per step.
    reward_scale: factor on the rewards.

  Returns:
    A batch `[B, ...]` with `weights`, and int32 `[B]` for `update`, which says what was drawn.

  Reference: Schaul et al. 2016, eq. 1 and section 3.4, arXiv 1511.05952.
  """
  tree = priorities.tree
  num_leaves = tree.shape[0] // 2

  # A number for each branch: a single one has 2^23 values, too few to deal out evenly to a million steps.
  # A sum of 0 is never entered: 0 >= 0 goes right, and a number below 1 times the left sum is below that.
  # The leaf is kept on the way: nothing would order reading it afterwards before the writing of `update`, so
  # the compiler would copy the whole tree.
  def down(carry: Any, uniform: jax.Array) -> tuple[Any, None]:
    node, _ = carry
    left, right = tree[2 * node], tree[2 * node + 1]
    goes_right = uniform * (left + right) >= left
    return (2 * node + goes_right, jnp.where(goes_right, right, left)), None

  root = jnp.ones(batch_size, jnp.int32)
  uniform = jax.random.uniform(key, (_depth(num_leaves), batch_size), jnp.float32)
  (node, leaf), _ = jax.lax.scan(down, (root, tree[root]), uniform)
  index = node - num_leaves
  start, env = jnp.divmod(index, replay.rows.reward.shape[1])
  batch = replay_lib.windows(replay, start, env, n_step=n_step, discount=discount, reward_scale=reward_scale)
  # N and the sum of all cancel.
  weights = (jnp.min(leaf) / leaf) ** importance_exponent
  return batch._replace(weights=weights), index


def update(
  priorities: Priorities, index: jax.Array, td_error: jax.Array, priority_exponent: float | jax.Array
) -> Priorities:
  """Makes |error| + 1e-6 the priority of what was drawn, of several errors of one step the largest.

  Args:
    priorities: those of the draw.
    index: `[B]`, as `sample` returned it.
    td_error: `[B]`, or that of N critics, `[N, B]`, whose absolute values are averaged.
    priority_exponent: alpha, at least 0; 0 draws uniformly.

  Reference: Schaul et al. 2016, section 3.3, arXiv 1511.05952.
  """
  error = jnp.mean(jnp.abs(td_error).reshape(-1, index.shape[0]), axis=0)
  leaves = ((error + _LEAST_PRIORITY) ** priority_exponent).astype(jnp.float32)
  node = priorities.tree.shape[0] // 2 + index
  # The largest, since it does not depend on the order in which a device writes.
  tree = priorities.tree.at[node].set(0.0).at[node].max(leaves)
  return Priorities(_sum(tree, node), jnp.maximum(priorities.largest, jnp.max(leaves)))


def _depth(num_leaves: int) -> int:
  return num_leaves.bit_length() - 1


def _sum(tree: jax.Array, node: jax.Array) -> jax.Array:
  """Makes the sums above the given leaves anew, level by level; not by differences, which would drift."""

  def up(_: int, carry: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, jax.Array]:
    tree, node = carry
    node = node // 2
    return tree.at[node].set(tree[2 * node] + tree[2 * node + 1]), node

  return jax.lax.fori_loop(0, _depth(tree.shape[0] // 2), up, (tree, node))[0]
