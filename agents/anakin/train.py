"""Training from a host that looks in at every evaluation."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np

from agents.anakin.config import AnakinConfig
from agents.anakin.environments import Environment
from agents.anakin.trainer import Evaluation, Trainer, TrainState, make_trainer
from sac_blocks import Algorithm


class Report(NamedTuple):
  """How far training is; arrays have a leading axis of seeds where there are several.

  Attributes:
    num_steps: environment steps so far, over all environments of a seed.
    num_updates: updates so far, of a seed.
    seconds: since `train` was called.
    evaluation: episodes of the greedy policy, NumPy `[episodes]`; None between evaluations.
    metrics: means since the report before, by name.
    state: to go on from; it is gone once training goes on, so what is kept of it has to be copied.
  """

  num_steps: int
  num_updates: int
  seconds: float
  evaluation: Evaluation | None
  metrics: Mapping[str, np.ndarray]
  state: TrainState


Callback: TypeAlias = Callable[[Report], bool | None]
"""Is given each report, and ends training by returning True; at the end its `close()` is called, if any."""


class Result(NamedTuple):
  """What training has come to.

  Attributes:
    state: after the last iteration.
    num_steps: environment steps at each evaluation, `[evaluations]`.
    episode_return: of each of their episodes, `[evaluations, (seeds,) episodes]`.
  """

  state: TrainState
  num_steps: np.ndarray
  episode_return: np.ndarray


def train(
  environment: Environment,
  algorithm: Algorithm,
  config: AnakinConfig,
  key: jax.Array,
  callbacks: Sequence[Callback] = (),
  *,
  state: TrainState | None = None,
) -> Result:
  """Trains to the end of the budget, with an evaluation before, every `eval_every` steps, and after.

  Between two reports nothing but the device works.

  Args:
    environment: what to train in, with actions as the algorithm gives them, see `canonical_actions`.
    algorithm: what learns.
    config: the options of the loop.
    key: a typed random key, or several, `[S]`, for as many seeds side by side in one compiled loop.
    callbacks: are given a report each time.
    state: to go on from, instead of a new one; what follows then is as if training had not stopped, but
      that an empty replay is warmed up anew.

  Returns:
    The last state and all evaluations.

  Raises:
    TypeError: the key is not a typed one.
    ValueError: replay would take more memory than `max_replay_bytes`.
  """
  if not jnp.issubdtype(key.dtype, jax.dtypes.prng_key):
    raise TypeError(f'train needs a key of jax.random.key, got dtype {key.dtype}.')
  trainer = make_trainer(environment, algorithm, config)
  map_seeds: Callable[..., Any] = jax.vmap if key.ndim else lambda function, **_: function
  init = jax.jit(map_seeds(trainer.init))
  warm_up = jax.jit(map_seeds(trainer.warm_up), donate_argnums=0)
  epoch = jax.jit(map_seeds(_make_epoch(trainer), in_axes=(0, None)), donate_argnums=0)
  evaluate = jax.jit(map_seeds(_evaluate(trainer)))

  start = time.perf_counter()
  num_steps, returns = [], []

  def report(state: TrainState, metrics: Mapping[str, Any], *, evaluated: bool) -> bool:
    steps, evaluation = int(np.ravel(state.num_steps)[0]), None
    if evaluated:
      # Not from the state's own keys, so that evaluations leave training as it is.
      evaluation = jax.tree.map(np.asarray, evaluate(state))
      num_steps.append(steps)
      returns.append(evaluation.episode_return)
    given = Report(
      steps,
      int(np.ravel(state.num_updates)[0]),
      time.perf_counter() - start,
      evaluation,
      jax.tree.map(np.asarray, dict(metrics)),
      state,
    )
    # All of them, also after one that ends training.
    ends = [callback(given) for callback in callbacks]
    return any(ends)

  stopped = False
  with contextlib.ExitStack() as stack:
    for callback in callbacks:
      stack.callback(getattr(callback, 'close', lambda: None))
    if state is None:
      state = init(key)
      stopped = report(state, {}, evaluated=True)
    # As in a new state, or in one that was saved without its replay.
    if not stopped and not np.ravel(state.replay.size)[0]:
      state = warm_up(state)
    while not stopped:
      assert state is not None
      steps = int(np.ravel(state.num_steps)[0])
      if steps >= config.num_steps:
        break
      next_evaluation = min(_next_multiple(steps, config.eval_every), config.num_steps)
      goal = min(next_evaluation, _next_multiple(steps, config.report_every or config.eval_every))
      iterations = -(-(goal - steps) // config.steps_per_iteration)
      state, metrics = epoch(state, iterations)
      steps += iterations * config.steps_per_iteration
      stopped = report(state, metrics, evaluated=steps >= next_evaluation)
  # Training that goes on may be stopped again before the next evaluation.
  episodes = np.reshape(returns, (len(returns), *key.shape, config.num_eval_episodes))
  return Result(state, np.asarray(num_steps), episodes)


def _next_multiple(number: int, of: int) -> int:
  return (number // of + 1) * of


def _make_epoch(trainer: Trainer) -> Callable[[TrainState, Any], tuple[TrainState, dict[str, jax.Array]]]:
  """Returns a function that makes a number of iterations, and averages their metrics."""
  per_episode = ('episode_return', 'episode_length')

  def weigh(metrics: Mapping[str, jax.Array]) -> dict[str, jax.Array]:
    weights = dict.fromkeys(per_episode, metrics['episodes'])
    return {name: weights.get(name, 1) * value.astype(jnp.float32) for name, value in metrics.items()}

  def epoch(state: TrainState, iterations: Any) -> tuple[TrainState, dict[str, jax.Array]]:
    def body(
      _: Any, carry: tuple[TrainState, dict[str, jax.Array]]
    ) -> tuple[TrainState, dict[str, jax.Array]]:
      state, sums = carry
      state, metrics = trainer.iteration(state)
      return state, jax.tree.map(jnp.add, sums, weigh(metrics))

    _, shapes = jax.eval_shape(trainer.iteration, state)
    sums = {name: jnp.zeros((), jnp.float32) for name in shapes}
    state, sums = jax.lax.fori_loop(0, iterations, body, (state, sums))
    episodes = sums['episodes']
    means = {name: value / jnp.maximum(iterations, 1) for name, value in sums.items()}
    means |= {name: sums[name] / episodes for name in per_episode}  # NaN where no episode has ended.
    return state, {**means, 'episodes': episodes}

  return epoch


def _evaluate(trainer: Trainer) -> Callable[[TrainState], Evaluation]:
  def evaluate(state: TrainState) -> Evaluation:
    key = jax.random.fold_in(state.key, state.num_steps)
    return trainer.evaluate(state.algorithm.params, key)

  return evaluate
