"""Running statistics of observations, and normalisation by them."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from sac_blocks.blocks.base import Block
from sac_blocks.types import Array, Components, Info, PRNGKey, PyTree, Transition

# Beyond this many observations the mean becomes an exponential moving one; int32 holds it with room to spare,
# whereas a float32 counter would stop by itself at 2^24.
_MAX_COUNT = 2**30


class RunningStatistics(NamedTuple):
  """Moments of all observations seen.

  Attributes:
    num_observations: int32 scalar, saturating at 2^30.
    mean: tree of float arrays, of one observation's structure.
    variance: a tree like `mean`, the population variance; 1 before anything is seen.
  """

  num_observations: Array
  mean: PyTree
  variance: PyTree


def init_statistics(observation_spec: PyTree) -> RunningStatistics:
  """Makes the statistics before the first observation: mean 0, variance 1.

  Args:
    observation_spec: a tree whose leaves have the `shape` of one observation's.

  Returns:
    The empty statistics, under which normalisation changes nothing.

  >>> init_statistics(jax.ShapeDtypeStruct((2,), 'float32')).mean
  Array([0., 0.], dtype=float32)
  """
  mean = jax.tree.map(lambda spec: jnp.zeros(spec.shape, jnp.float32), observation_spec)
  return RunningStatistics(jnp.zeros((), jnp.int32), mean, jax.tree.map(jnp.ones_like, mean))


def update_statistics(
  statistics: RunningStatistics, observation: PyTree, *, axis_name: str | None = None
) -> RunningStatistics:
  r"""Merges a batch of observations into the moments.

  $$w = \tfrac{m}{n + m},\quad \mu' = \mu + w \delta,\quad
    \sigma'^2 = (1 - w)\sigma^2 + w \sigma_b^2 + w (1 - w) \delta^2,\quad \delta = \mu_b - \mu$$

  Neither sums nor sums of squares are kept, so that a large offset costs no digits of the variance.

  Args:
    statistics: of the n observations before.
    observation: tree of `[..., *shape]`; the m observations stand along all leading axes.
    axis_name: a mapped axis over whose devices the batch is spread, each with an equal part.

  Returns:
    The moments of all n + m observations.

  >>> seen = update_statistics(init_statistics(jnp.zeros(1)), jnp.array([[1.0], [3.0]]))
  >>> seen.num_observations, seen.mean, seen.variance
  (Array(2, dtype=int32), Array([2.], dtype=float32), Array([1.], dtype=float32))

  Reference: Chan, Golub and LeVeque 1983, 'Algorithms for computing the sample variance', eq. 2.1.
  """
  examples = math.prod(_leading_shape(statistics, observation))
  # psum of a Python number is a Python number: the size of the axis.
  examples *= 1 if axis_name is None else jax.lax.psum(1, axis_name)
  total = jnp.minimum(statistics.num_observations + examples, _MAX_COUNT)
  weight = jnp.where(statistics.num_observations == 0, 1.0, examples / total.astype(jnp.float32))

  def moments(mean: Array, variance: Array, x: Array) -> tuple[Array, Array]:
    axes = tuple(range(x.ndim - mean.ndim))
    x = x.astype(mean.dtype)
    batch_mean = jnp.mean(x, axis=axes)
    if axis_name is not None:
      batch_mean = jax.lax.pmean(batch_mean, axis_name)
    batch_variance = jnp.mean(jnp.square(x - jnp.expand_dims(batch_mean, axes)), axis=axes)
    if axis_name is not None:
      batch_variance = jax.lax.pmean(batch_variance, axis_name)
    delta = batch_mean - mean
    # Not as variance + weight * (...), which would leave rounding of the initial 1 in a tiny variance.
    new_variance = (1.0 - weight) * (variance + weight * jnp.square(delta)) + weight * batch_variance
    return mean + weight * delta, new_variance

  pairs = jax.tree.map(moments, statistics.mean, statistics.variance, observation)
  mean, variance = jax.tree.transpose(jax.tree.structure(statistics.mean), jax.tree.structure((0, 0)), pairs)
  return RunningStatistics(total, mean, variance)


def normalize(
  statistics: RunningStatistics,
  observation: PyTree,
  *,
  max_abs: float = 10.0,
  min_scale: float = 1e-6,
) -> PyTree:
  r"""Brings observations to mean 0 and variance 1.

  $$\mathrm{clip}\big((x - \mu) / \max(\sigma, s),\ -c,\ c\big)$$

  Args:
    statistics: the running moments.
    observation: tree of `[..., *shape]`.
    max_abs: c, the bound on the result.
    min_scale: the smallest scale divided by. The scale is also no smaller than the mean's own rounding
      error, so that a constant feature gives 0 and not amplified rounding.

  Returns:
    The normalised tree, in floating point; bool leaves, such as action masks, as they are.

  >>> seen = RunningStatistics(jnp.array(9), jnp.array([8.0]), jnp.array([4.0]))
  >>> normalize(seen, jnp.array([10.0]))
  Array([1.], dtype=float32)

  Reference: Andrychowicz et al. 2020, arXiv 2006.05990, observation normalisation.
  """
  _leading_shape(statistics, observation)

  def leaf(mean: Array, variance: Array, x: Array) -> Array:
    if jnp.asarray(x).dtype == jnp.bool_:
      return x
    x = jnp.asarray(x, mean.dtype)
    scale = jnp.maximum(jnp.sqrt(variance), min_scale)
    # Rounding can move the mean by a few units in its last place, and x has its own.
    scale = jnp.maximum(scale, 16.0 * jnp.finfo(mean.dtype).eps * jnp.abs(mean))
    axes = tuple(range(x.ndim - mean.ndim))
    centred = x - jnp.expand_dims(mean, axes)
    return jnp.clip(centred / jnp.expand_dims(scale, axes), -max_abs, max_abs)

  return jax.tree.map(leaf, statistics.mean, statistics.variance, observation)


def _leading_shape(statistics: RunningStatistics, observation: PyTree) -> tuple[int, ...]:
  """Returns the leading shape that all leaves of an observation share; raises unless they fit."""

  def leading(mean: Array, x: Array) -> tuple[int, ...]:
    start = jnp.ndim(x) - mean.ndim
    if start < 0 or jnp.shape(x)[start:] != mean.shape:
      raise ValueError(f'Expected observations of shape [..., *{mean.shape}], got {jnp.shape(x)}.')
    return jnp.shape(x)[:start]

  shapes = jax.tree.leaves(
    jax.tree.map(leading, statistics.mean, observation), is_leaf=lambda x: isinstance(x, tuple)
  )
  if len(set(shapes)) != 1:
    raise ValueError(f'Expected one leading shape for all parts of an observation, got {shapes}.')
  return shapes[0]


def observation_statistics(
  component: str = 'observation_statistics', *, axis_name: str | None = None
) -> Block:
  """Merges the batch's observations `obs_tm1` into the running statistics.

  Args:
    component: the name in `params` of the `RunningStatistics`.
    axis_name: a mapped axis over whose devices the batch is spread.

  Returns:
    A block without state; put `map_batch(normalize_transition, ...)` behind it to use the result.

  >>> params = {'observation_statistics': init_statistics(jnp.zeros(1))}
  >>> obs = jnp.array([[1.0], [3.0]])
  >>> batch = Transition(obs, a_tm1=None, r_t=None, discount_t=None, obs_t=obs)
  >>> params, _, _ = observation_statistics().update(params, (), batch, None, {})
  >>> params['observation_statistics'].mean
  Array([2.], dtype=float32)

  Reference: `sac_blocks.blocks.update_statistics`.
  """

  def init(params: Components) -> tuple[()]:
    del params
    return ()

  def update(
    params: Components, state: tuple[()], batch: Transition, key: PRNGKey, info: Info
  ) -> tuple[Components, tuple[()], Info]:
    del key, info
    statistics = update_statistics(params[component], batch.obs_tm1, axis_name=axis_name)
    return {**params, component: statistics}, state, {}

  return Block(init, update)


def normalize_transition(params: Components, batch: Transition) -> Any:
  """Normalises both observations of a batch by `params['observation_statistics']`.

  Args:
    params: the named components, trees of arrays.
    batch: with raw observations, as replay holds them.

  Returns:
    The batch with `obs_tm1` and `obs_t` normalised by the same, current statistics.

  >>> seen = RunningStatistics(jnp.array(9), jnp.array([8.0]), jnp.array([4.0]))
  >>> batch = Transition(jnp.array([[10.0]]), a_tm1=None, r_t=None, discount_t=None, obs_t=jnp.array([[6.0]]))
  >>> batch = normalize_transition({'observation_statistics': seen}, batch)
  >>> batch.obs_tm1, batch.obs_t
  (Array([[1.]], dtype=float32), Array([[-1.]], dtype=float32))

  Reference: `sac_blocks.blocks.normalize`.
  """
  statistics = params['observation_statistics']
  return batch._replace(
    obs_tm1=normalize(statistics, batch.obs_tm1), obs_t=normalize(statistics, batch.obs_t)
  )
