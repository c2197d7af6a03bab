"""Training from a host that looks in at every evaluation."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np

from agents import data_parallel
from agents.anakin.config import AnakinConfig
from agents.anakin.devices import Devices
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
    metrics: of training by name, `[reports, (seeds,)]`: means since the report before; those of episodes are
      NaN where none has ended.
    metrics_num_steps: environment steps at each of these reports, `[reports]`.
  """

  state: TrainState
  num_steps: np.ndarray
  episode_return: np.ndarray
  metrics: Mapping[str, np.ndarray]
  metrics_num_steps: np.ndarray


def train(
  environment: Environment,
  algorithm: Algorithm | Callable[[Any], Algorithm],
  config: AnakinConfig | Callable[[Any], AnakinConfig],
  key: jax.Array,
  callbacks: Sequence[Callback] = (),
  *,
  state: TrainState | None = None,
  options: Any = None,
  num_devices: int | None = 1,
) -> Result:
  """Trains to the end of the budget, with an evaluation before, every `eval_every` steps, and after.

  Hyper-parameters may differ from seed to seed, in the same compiled loop, here three learning rates with two
  seeds each:

    options = {'learning_rate': jnp.repeat(jnp.array([1e-4, 3e-4, 1e-3]), 2)}

    def algorithm(row):
      return recipes.sac(networks, critic_optimizer=optax.adam(row['learning_rate']))

    train(environment, algorithm, config, jax.random.split(key, 6), options=options)

  On several devices each acts in its part of the environments, keeps their part of replay, and draws its part
  of every batch from there; gradients, statistics and metrics are averaged. That takes a recipe that is made
  with `axis_name=agents.data_parallel.AXIS`.

  Between two reports nothing but the device works.

  Args:
    environment: what to train in, with actions as the algorithm gives them, see `canonical_actions`.
    algorithm: what learns; with `options` a function of a row of them.
    config: the options of the loop; with `options` it may be a function of a row, too, of which only
      `discount` and `reward_scale` depend on the row.
    key: a typed random key, or several, `[S]`, for as many seeds side by side in one compiled loop.
    callbacks: are given a report each time.
    state: to go on from, instead of a new one; what follows then is as if training had not stopped, but
      that an empty replay is warmed up anew.
    options: a tree of arrays `[S, ...]`, with a row for each key; None for the same options everywhere. All
      rows are checked before they are compiled into one program, in which they are traced.
    num_devices: over how many devices each seed is spread, a divisor of `num_envs` and of `batch_size`; None
      for all that there are. The state has the same shapes on any number of them.

  Returns:
    The last state, all evaluations, and the metrics of all reports.

  Raises:
    TypeError: the key is not a typed one, or there is a function without options, or the other way round.
    ValueError: replay would take more memory than `max_replay_bytes`, the options don't fit the keys, one of
      them is out of range, the devices are too few or no divisor, or they come to different params.
  """
  if not jnp.issubdtype(key.dtype, jax.dtypes.prng_key):
    raise TypeError(f'train needs a key of jax.random.key, got dtype {key.dtype}.')
  options, parts, static = _per_row(algorithm, config, key, options)
  # With None also where there is one only, so that the same algorithm does on any machine.
  devices = None if num_devices == 1 else Devices(num_devices, seeds=bool(key.ndim))
  map_seeds: Callable[..., Any] = jax.vmap if key.ndim else lambda function, **_: function

  def make(row: Any) -> Trainer:
    return make_trainer(environment, *parts(row))

  def make_share(row: Any) -> Trainer:
    if devices is None:
      return make(row)
    algorithm, config = parts(row)
    return devices.join(make_trainer(environment, algorithm, devices.share(config)))

  if options is None:
    # Made once, rather than for each of the functions below.
    make, make_share = functools.cache(make), functools.cache(make_share)

  def advance(function: Callable[..., Any]) -> Callable[..., Any]:
    mapped = map_seeds(function, in_axes=(0, 0, None))
    return jax.jit(mapped if devices is None else devices.map(mapped), donate_argnums=1)

  shardings = {} if devices is None else {'out_shardings': devices.shardings}
  init = jax.jit(map_seeds(lambda row, key: make(row).init(key)), **shardings)
  warm_up = advance(lambda row, state, _: (make_share(row).warm_up(state), {}))
  epoch = advance(lambda row, state, iterations: _epoch(make_share(row), state, iterations))
  evaluate = jax.jit(map_seeds(lambda row, *inputs: _evaluate(make(row), *inputs)))
  if devices is not None:
    devices.share(static)
    options, key = devices.replicate((options, key))
    state = None if state is None else devices.place(state)

  start = time.perf_counter()
  num_steps, returns = [], []
  metrics_num_steps, history = [], []

  def report(state: TrainState, metrics: Mapping[str, Any], *, evaluated: bool) -> bool:
    steps, evaluation = int(np.ravel(state.num_steps)[0]), None
    if evaluated:
      # Not from the state's own keys, so that evaluations leave training as it is.
      inputs = (options, state.algorithm.params, state.key, state.num_steps)
      evaluation = evaluate(*(inputs if devices is None else devices.first(inputs)))
      evaluation = jax.tree.map(np.asarray, evaluation)
      num_steps.append(steps)
      returns.append(evaluation.episode_return)
    metrics = jax.tree.map(np.asarray, dict(metrics))
    if metrics:
      metrics_num_steps.append(steps)
      history.append(metrics)
    given = Report(
      steps,
      int(np.ravel(state.num_updates)[0]),
      time.perf_counter() - start,
      evaluation,
      metrics,
      state,
    )
    # All of them, also after one that ends training.
    ends = [callback(given) for callback in callbacks]
    return any(ends)

  stopped = learned = False
  with contextlib.ExitStack() as stack:
    for callback in callbacks:
      stack.callback(getattr(callback, 'close', lambda: None))
    if state is None:
      state = init(options, key)
      stopped = report(state, {}, evaluated=True)
    # As in a new state, or in one that was saved without its replay.
    if not stopped and not np.ravel(state.replay.size)[0]:
      state, _ = warm_up(options, state, 0)
      if np.ravel(state.num_steps)[0] >= static.num_steps:
        # There is nothing to learn from it, but what is left of it is reported as ever.
        stopped = report(state, {}, evaluated=True)
    while not stopped:
      assert state is not None
      steps = int(np.ravel(state.num_steps)[0])
      if steps >= static.num_steps:
        break
      next_evaluation = min(_next_multiple(steps, static.eval_every), static.num_steps)
      goal = min(next_evaluation, _next_multiple(steps, static.report_every or static.eval_every))
      iterations = -(-(goal - steps) // static.steps_per_iteration)
      state, metrics = epoch(options, state, iterations)
      if devices is not None and not learned:
        data_parallel.check_equal(state.algorithm)
        learned = True
      steps += iterations * static.steps_per_iteration
      stopped = report(state, metrics, evaluated=steps >= next_evaluation)
  # Training that goes on may be stopped again before the next evaluation.
  episodes = np.reshape(returns, (len(returns), *key.shape, static.num_eval_episodes))
  metrics = jax.tree.map(lambda *rows: np.stack(rows), *history) if history else {}
  return Result(state, np.asarray(num_steps, int), episodes, metrics, np.asarray(metrics_num_steps, int))


def _next_multiple(number: int, of: int) -> int:
  return (number // of + 1) * of


def _per_row(
  algorithm: Any, config: Any, key: jax.Array, options: Any
) -> tuple[Any, Callable[[Any], tuple[Algorithm, AnakinConfig]], AnakinConfig]:
  """Returns the options as arrays, what is made of a row of them, and a configuration for what all share."""
  if options is None:
    if callable(algorithm) or callable(config):
      raise TypeError(
        'train got a function for algorithm or config but no options: call it yourself, or give the options '
        'that it is to be called with.'
      )
    return None, lambda row: (algorithm, config), config
  if not callable(algorithm):
    raise TypeError(
      'With options, algorithm must be a function of a row of them, got an Algorithm: if it is the same for '
      'all rows, give `lambda row: algorithm`.'
    )
  if key.ndim != 1:
    raise ValueError(
      f'Options need a key [S], one for each of their rows, got shape {key.shape}: give '
      'jax.random.split(key, S).'
    )
  for path, leaf in jax.tree_util.tree_flatten_with_path(options)[0]:
    if jnp.shape(leaf)[:1] != key.shape:
      raise ValueError(
        f'options{jax.tree_util.keystr(path)} must be an array with a row for each of the {key.size} keys, '
        f'[{key.size}, ...], got shape {jnp.shape(leaf)}: repeat its values, or split the key in as many.'
      )
  options = jax.tree.map(jnp.asarray, options)

  def config_of(row: Any) -> AnakinConfig:
    return config(row) if callable(config) else config

  # Once with the numbers themselves, for the checks that let traced ones pass.
  host, shared = jax.device_get(options), []
  for i in range(key.size):
    row = jax.tree.map(lambda x, i=i: x[i], host)
    algorithm(row)
    shared.append(dataclasses.replace(config_of(row), discount=1.0, reward_scale=1.0))
    if shared[i] != shared[0]:
      raise ValueError(
        f'Of the config only discount and reward_scale may depend on the options, got {shared[0]} for the '
        f'first row and {shared[i]} for row {i}: train these apart.'
      )
  return options, lambda row: (algorithm(row), config_of(row)), shared[0]


def _epoch(trainer: Trainer, state: TrainState, iterations: Any) -> tuple[TrainState, dict[str, jax.Array]]:
  """Makes a number of iterations, and averages their metrics."""
  per_episode = ('episode_return', 'episode_length')
  # Of the state, so a mean of them means nothing.
  counts = ('num_steps', 'num_updates')

  def weigh(metrics: Mapping[str, jax.Array]) -> dict[str, jax.Array]:
    weights = dict.fromkeys(per_episode, metrics['episodes'])
    return {
      name: weights.get(name, 1) * value.astype(jnp.float32)
      for name, value in metrics.items()
      if name not in counts
    }

  def body(_: Any, carry: tuple[TrainState, dict[str, jax.Array]]) -> tuple[TrainState, dict[str, jax.Array]]:
    state, sums = carry
    state, metrics = trainer.iteration(state)
    return state, jax.tree.map(jnp.add, sums, weigh(metrics))

  shapes = jax.eval_shape(lambda state: weigh(trainer.iteration(state)[1]), state)
  sums = jax.tree.map(lambda _: jnp.zeros((), jnp.float32), shapes)
  state, sums = jax.lax.fori_loop(0, iterations, body, (state, sums))
  episodes = sums['episodes']
  means = {name: value / jnp.maximum(iterations, 1) for name, value in sums.items()}
  means |= {name: sums[name] / episodes for name in per_episode}  # NaN where no episode has ended.
  return state, {**means, 'episodes': episodes}


def _evaluate(trainer: Trainer, params: Any, key: jax.Array, num_steps: jax.Array) -> Evaluation:
  return trainer.evaluate(params, jax.random.fold_in(key, num_steps))
