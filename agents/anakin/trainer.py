"""Environment, replay and learning as one compiled loop."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from agents.anakin import prioritized_replay, rollout
from agents.anakin import replay as replay_lib
from agents.anakin.config import AnakinConfig
from agents.anakin.environments import Environment
from sac_blocks import Algorithm, TrainingState, blocks


class TrainState(NamedTuple):
  """All that the next iterations depend on.

  Attributes:
    algorithm: params, optimiser states and key of the algorithm.
    acting: where the environments are.
    replay: the experience.
    key: for acting and sampling.
    num_steps: environment steps so far, over all environments.
    num_updates: updates so far.
    priorities: of the experience, or None where it is drawn uniformly.
  """

  algorithm: TrainingState
  acting: rollout.ActingState
  replay: replay_lib.Replay
  key: jax.Array
  num_steps: jax.Array
  num_updates: jax.Array
  priorities: prioritized_replay.Priorities | None = None


class Evaluation(NamedTuple):
  """Episodes of the greedy policy, side by side: `[episodes]` each.

  Attributes:
    episode_return: the sum of rewards.
    episode_length: steps.
  """

  episode_return: jax.Array
  episode_length: jax.Array


class Trainer(NamedTuple):
  """The loop as pure functions, to be compiled, scanned, or mapped over seeds and options.

  Attributes:
    init: `init(key) -> TrainState`, before any step.
    warm_up: `warm_up(state) -> TrainState` takes the steps before learning starts, rounded up to whole
      iterations.
    iteration: `iteration(state) -> (TrainState, metrics)`; the metrics are scalars.
    evaluate: `evaluate(params, key) -> Evaluation`, with the params of `TrainState.algorithm`.
  """

  init: Callable[[jax.Array], TrainState]
  warm_up: Callable[[TrainState], TrainState]
  iteration: Callable[[TrainState], tuple[TrainState, Mapping[str, jax.Array]]]
  evaluate: Callable[[Any, jax.Array], Evaluation]


def make_trainer(environment: Environment, algorithm: Algorithm, config: AnakinConfig) -> Trainer:
  """Makes the pure functions of the loop.

  Args:
    environment: what to train in; the algorithm's actions are passed on as they are.
    algorithm: what learns; each of its updates is of `batch_size` transitions, drawn for all the updates of a
      call at once.
    config: how they take turns.

  Returns:
    The trainer.

  Raises:
    ValueError: replay would take more memory than `max_replay_bytes`, or it is to be prioritised and the
      algorithm gives no TD errors, or makes several updates a call, or its updates a call don't divide
      `num_updates`.
  """
  if config.num_updates % algorithm.updates_per_call:
    raise ValueError(
      f'num_updates={config.num_updates} must be a multiple of the updates_per_call='
      f'{algorithm.updates_per_call} that the algorithm makes, each of batch_size transitions.'
    )
  if config.priority_exponent is not None:
    if algorithm.update_with_info is None:
      raise ValueError('Prioritised replay needs algorithm.update_with_info, for its TD errors; got None.')
    if algorithm.updates_per_call != 1:
      raise ValueError(
        'Prioritised replay needs an algorithm of one update a call, whose TD errors set the priorities of '
        f'the next draw, got updates_per_call={algorithm.updates_per_call}: set it to 1.'
      )
  rows = jax.eval_shape(lambda key: _random_rows(environment, algorithm, config, key), jax.random.key(0))
  num_bytes = replay_lib.projected_bytes(rows, config.capacity)
  if config.priority_exponent is not None:
    num_bytes += prioritized_replay.projected_bytes(config.capacity * config.num_envs)
  if num_bytes > config.max_replay_bytes:
    raise ValueError(
      f'Replay would take {num_bytes / 1e6:,.1f} MB, more than max_replay_bytes={config.max_replay_bytes:g}: '
      f'lower buffer_size={config.buffer_size}, or raise the limit.'
    )

  def init(key: jax.Array) -> TrainState:
    algorithm_key, acting_key, key = jax.random.split(key, 3)
    return TrainState(
      algorithm.init(algorithm_key),
      rollout.start(environment, config.num_envs, acting_key),
      replay_lib.init(rows, config.capacity),
      key,
      jnp.zeros((), jnp.int32),
      jnp.zeros((), jnp.int32),
      None
      if config.priority_exponent is None
      else prioritized_replay.init(config.capacity * config.num_envs),
    )

  def act(policy: Callable[..., Any], state: TrainState) -> tuple[TrainState, rollout.Step]:
    key, rollout_key = jax.random.split(state.key)

    def select_action(observation: Any, key: jax.Array) -> Any:
      return policy(state.algorithm.params, observation, key)

    acting, steps = rollout.rollout(
      environment, select_action, state.acting, rollout_key, config.rollout_length
    )
    state = state._replace(
      acting=acting,
      replay=replay_lib.add(state.replay, replay_lib.from_steps(steps)),
      key=key,
      num_steps=state.num_steps + config.steps_per_iteration,
    )
    if state.priorities is not None:
      priorities = prioritized_replay.add(
        state.priorities, state.replay, config.rollout_length, config.n_step
      )
      state = state._replace(priorities=priorities)
    return state, steps

  def warm_up(state: TrainState) -> TrainState:
    random = math.ceil(config.random_steps / config.steps_per_iteration)
    least = math.ceil(config.n_step / config.rollout_length)
    rest = max(least, math.ceil(config.learning_starts / config.steps_per_iteration)) - random
    for policy, iterations in ((algorithm.random_policy, random), (algorithm.policy, rest)):
      state = jax.lax.fori_loop(0, iterations, lambda _, s, policy=policy: act(policy, s)[0], state)
    return state

  def iteration(state: TrainState) -> tuple[TrainState, Mapping[str, jax.Array]]:
    state, steps = act(algorithm.policy, state)
    key, sample_key = jax.random.split(state.key)

    window = {'n_step': config.n_step, 'discount': config.discount, 'reward_scale': config.reward_scale}

    # The rows stay outside of what the scans carry, since they do not change in there.
    def body(learned: TrainingState, key: jax.Array) -> tuple[TrainingState, Mapping[str, jax.Array]]:
      batch = replay_lib.sample(state.replay, key, algorithm.updates_per_call * config.batch_size, **window)
      return algorithm.update(learned, batch)

    def prioritized_body(carry: Any, key: jax.Array) -> tuple[Any, Mapping[str, jax.Array]]:
      learned, priorities, num_updates = carry
      beta = config.importance_exponent
      batch, index = prioritized_replay.sample(
        priorities,
        state.replay,
        key,
        config.batch_size,
        importance_exponent=beta(num_updates) if callable(beta) else beta,
        **window,
      )
      assert algorithm.update_with_info is not None
      assert config.priority_exponent is not None
      learned, info = algorithm.update_with_info(learned, batch)
      if 'td_error' not in info:
        raise ValueError(
          "Prioritised replay reads 'td_error' from what the algorithm's blocks report, which is "
          f"{sorted(info)}: let the critics' objective return 'td_error' in its aux, outside `every` and "
          '`repeat`.'
        )
      priorities = prioritized_replay.update(priorities, index, info['td_error'], config.priority_exponent)
      return (learned, priorities, num_updates + 1), blocks.scalars(info)

    keys = jax.random.split(sample_key, config.num_updates // algorithm.updates_per_call)
    if state.priorities is None:
      learned, metrics = jax.lax.scan(body, state.algorithm, keys)
    else:
      carry = (state.algorithm, state.priorities, state.num_updates)
      (learned, priorities, _), metrics = jax.lax.scan(prioritized_body, carry, keys)
      state = state._replace(priorities=priorities)
    last = steps.timestep.last
    episodes = jnp.sum(last)

    def mean(values: jax.Array) -> jax.Array:
      return jnp.sum(jnp.where(last, values, 0)) / jnp.maximum(episodes, 1)

    state = state._replace(algorithm=learned, key=key, num_updates=state.num_updates + config.num_updates)
    return state, {
      **jax.tree.map(lambda x: jnp.mean(x, axis=0), dict(metrics)),
      'num_steps': state.num_steps,
      'num_updates': state.num_updates,
      'episodes': episodes,
      # 0 where no episode has ended.
      'episode_return': mean(steps.episode_return),
      'episode_length': mean(steps.episode_length),
    }

  def evaluate(params: Any, key: jax.Array) -> Evaluation:
    num_episodes = config.num_eval_episodes
    start_key, key = jax.random.split(key)

    class Carry(NamedTuple):
      acting: rollout.ActingState
      key: jax.Array
      done: jax.Array
      evaluation: Evaluation
      steps: jax.Array

    def select_action(observation: Any, key: jax.Array) -> Any:
      return algorithm.evaluation_policy(params, observation, key)

    def body(carry: Carry) -> Carry:
      key, step_key = jax.random.split(carry.key)
      acting, taken = rollout.step(environment, select_action, carry.acting, step_key)
      # Episodes that start after the first one count for nothing.
      new = Evaluation(taken.episode_return, taken.episode_length)
      evaluation = jax.tree.map(lambda old, new: jnp.where(carry.done, old, new), carry.evaluation, new)
      return Carry(acting, key, carry.done | taken.timestep.last, evaluation, carry.steps + 1)

    def goes_on(carry: Carry) -> jax.Array:
      return ~jnp.all(carry.done) & (carry.steps < config.max_eval_steps)

    acting = rollout.start(environment, num_episodes, start_key)
    carry = Carry(
      acting,
      key,
      jnp.zeros(num_episodes, bool),
      Evaluation(acting.episode_return, acting.episode_length),
      jnp.zeros((), jnp.int32),
    )
    return jax.lax.while_loop(goes_on, body, carry).evaluation

  return Trainer(init, warm_up, iteration, evaluate)


def _random_rows(
  environment: Environment, algorithm: Algorithm, config: AnakinConfig, key: jax.Array
) -> replay_lib.Rows:
  """Returns a rollout of uniform actions, whose shapes are those of replay."""
  params = algorithm.init(key).params
  acting = rollout.start(environment, config.num_envs, key)

  def select_action(observation: Any, key: jax.Array) -> Any:
    return algorithm.random_policy(params, observation, key)

  _, steps = rollout.rollout(environment, select_action, acting, key, config.rollout_length)
  return replay_lib.from_steps(steps)
