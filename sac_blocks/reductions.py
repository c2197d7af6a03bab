"""What stands for Q where there are several critics: functions `reduce(q, key) -> q`.

They take the critics' axis away, `q [N, ...]` to `[...]`, for every action by itself where `q` holds several.
A reduction of one's own is a function like these; `key` is None where the caller has no randomness to give.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp

from sac_blocks import checks
from sac_blocks.types import Array, PRNGKey, ReduceFn

__all__ = ['apply', 'mean', 'minimum', 'random_subset']


def minimum(q: Array, key: PRNGKey | None = None) -> Array:
  r"""Takes the minimum over critics, with a gradient that compilation can't lose.

  $$\min_i q_i$$

  The slope of `jnp.min` asks where q equals the minimum. XLA may compute q a second time for that, rounded
  otherwise, and where nothing is equal any more the gradient is 0: seen on the CPU for hundreds of entries of
  a batch. An index has no such gap.

  Args:
    q: `[N, ...]`, values under N critics.
    key: not used.

  Returns:
    `[...]`; the gradient goes to the smallest, where several are to the first of them.

  >>> minimum(jnp.array([[1.0, 4.0], [3.0, 2.0]]))
  Array([1., 2.], dtype=float32)

  Reference: clipped double Q-learning, Fujimoto et al. 2018, eq. 10, arXiv 1802.09477.
  """
  del key
  heads = jnp.arange(q.shape[0]).reshape(-1, *[1] * (q.ndim - 1))
  return jnp.sum(jnp.where(heads == jnp.argmin(q, axis=0)[None], q, 0.0), axis=0)


def mean(q: Array, key: PRNGKey | None = None) -> Array:
  r"""Takes the mean over critics.

  $$\tfrac{1}{N} \sum_i q_i$$

  Args:
    q: `[N, ...]`, values under N critics.
    key: not used.

  Returns:
    `[...]`; every critic gets an N-th of the gradient.

  >>> mean(jnp.array([[1.0, 4.0], [3.0, 2.0]]))
  Array([2., 3.], dtype=float32)

  Reference: the actor's loss of Chen et al. 2021, algorithm 1, arXiv 2101.05982; the double average of Zhou
  et al. 2022, arXiv 2209.10081.
  """
  del key
  return jnp.mean(q, axis=0)


def random_subset(m: int) -> ReduceFn:
  r"""Makes the minimum over m critics that are drawn anew at each use.

  $$\min_{i \in M} q_i, \quad M \subseteq \{1, \dots, N\},\ |M| = m$$

  Args:
    m: the number of critics drawn, without replacement, at least 1.

  Returns:
    The reduction. One subset serves all examples of a batch, as in the paper.

  Raises:
    ValueError: m is below 1; or, when it is used, there are fewer critics, or no key to draw by.

  >>> random_subset(2)(jnp.array([[5.0], [1.0]]), jax.random.key(0))  # of two critics both
  Array([1.], dtype=float32)

  Reference: Chen et al. 2021, algorithm 1, arXiv 2101.05982.
  """
  if m < 1:
    raise ValueError(f'random_subset(m) needs m of at least 1, got {m}.')

  def reduce(q: Array, key: PRNGKey | None = None) -> Array:
    if m > q.shape[0]:
      raise ValueError(
        f'random_subset({m}) draws {m} critics, but q has {q.shape[0]} on its first axis: {q.shape}.'
      )
    if key is None:
      raise ValueError(f'random_subset({m}) needs a key to draw the critics by, got None.')
    return minimum(q[jax.random.choice(key, q.shape[0], (m,), replace=False)])

  return reduce


def apply(reduce: ReduceFn, q: Array, key: PRNGKey | None) -> Array:
  """Applies a reduction and holds it to its contract.

  Args:
    reduce: `reduce(q, key) -> q`.
    q: `[N, ...]`.
    key: consumed, or None.

  Returns:
    `[...]`.

  Raises:
    ValueError: the result has another shape.

  >>> apply(lambda q, key: q[0], jnp.array([[1.0, 4.0], [3.0, 2.0]]), None)
  Array([1., 4.], dtype=float32)
  """
  reduced = reduce(q, key)
  checks.reduced_shape(q, reduced)
  return reduced
