"""One builder for every algorithm: replay, data, actor and learner around an opaque `Algorithm`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Generic

import jax

from agents import data_parallel
from agents.acme import actors, compat, replay
from agents.acme.learner import BlocksLearner
from agents.config import ReplayConfig, check_divisible

import reverb  # isort: skip
from acme import adders, core, specs, types  # isort: skip
from acme.agents.jax import actor_core  # isort: skip
from acme.utils import counting  # isort: skip

from sac_blocks import Algorithm, Transition

__all__ = ['BlocksBuilder']


class BlocksBuilder(
  compat.ActorLearnerBuilder[compat.Networks, actor_core.ActorCore, reverb.ReplaySample],
  Generic[compat.Networks],
):
  """Builds an agent's parts for Acme's experiments and programs, for any algorithm.

  Args:
    config: of data, replay and rate limits.
    make_algorithm: `make_algorithm(networks) -> Algorithm`, for example a recipe. One update call takes one
      sample of the dataset, so that it makes `num_sgd_steps_per_step` updates; where `num_learner_devices` is
      not 1 it averages over `axis_name=data_parallel.AXIS`. `config.recipe_options` tells recipes both.
  """

  def __init__(self, config: ReplayConfig, make_algorithm: Callable[[compat.Networks], Algorithm]):
    self._config = config
    self._make_algorithm = make_algorithm

  @property
  def config(self) -> Any:
    """What the builder was made with, for `make_algorithm` to read its options."""
    return self._config

  def make_algorithm(self, networks: compat.Networks) -> Algorithm:
    """Makes the algorithm for given networks.

    Raises:
      ValueError: its updates per call are not those that the configuration samples for.
    """
    algorithm = self._make_algorithm(networks)
    sampled = self._config.num_sgd_steps_per_step
    if algorithm.updates_per_call != sampled:
      raise ValueError(
        f'The algorithm makes updates_per_call={algorithm.updates_per_call} updates of a sample that holds '
        f'{sampled} x batch_size transitions: set num_sgd_steps_per_step={algorithm.updates_per_call}.'
      )
    return algorithm

  @property
  def _items_per_step(self) -> int:
    return self._config.batch_size * self._config.num_sgd_steps_per_step

  def make_policy(
    self,
    networks: compat.Networks,
    environment_spec: specs.EnvironmentSpec,
    evaluation: bool = False,
  ) -> actor_core.ActorCore:
    """Makes the policy that explores, or the greedy one, as an actor core."""
    del environment_spec
    return actors.make_actor_core(
      self.make_algorithm(networks), evaluation=evaluation, random_steps=self._config.random_steps
    )

  def make_replay_tables(
    self, environment_spec: specs.EnvironmentSpec, policy: actor_core.ActorCore
  ) -> list[reverb.Table]:
    """Makes the uniform replay table.

    Raises:
      ValueError: its rate limits could never be met.
    """
    del policy
    config = self._config
    error_buffer = None
    if config.samples_per_insert is not None:
      tolerance = config.samples_per_insert_tolerance_rate * config.samples_per_insert
      error_buffer = tolerance * config.min_replay_size
    return [
      replay.make_table(
        config.replay_table_name,
        environment_spec,
        max_size=config.max_replay_size,
        min_size=config.min_replay_size,
        batch_size=self._items_per_step,
        samples_per_insert=config.samples_per_insert,
        error_buffer=error_buffer,
      )
    ]

  def projected_replay_bytes(self, environment_spec: specs.EnvironmentSpec, num_steps: int) -> int:
    """Returns the bytes that replay takes after so many environment steps, if its data doesn't compress."""
    return replay.projected_bytes(environment_spec, min(num_steps, self._config.max_replay_size))

  def make_dataset_iterator(self, replay_client: reverb.Client) -> Iterator[reverb.ReplaySample]:
    """Makes the iterator over batches for one learner step each.

    Of several processes that learn as one each reads an equal part.
    """
    return replay.make_dataset_iterator(
      replay_client,
      self._config.replay_table_name,
      batch_size=self._items_per_step // jax.process_count(),
      prefetch_size=self._config.prefetch_size,
    )

  def make_adder(
    self,
    replay_client: reverb.Client,
    environment_spec: specs.EnvironmentSpec | None,
    policy: actor_core.ActorCore | None,
  ) -> adders.Adder:
    """Makes the n-step adder, the one place that multiplies gamma in."""
    del environment_spec, policy
    return replay.TransitionAdder(
      replay_client,
      self._config.replay_table_name,
      n_step=self._config.n_step,
      discount=self._config.discount,
    )

  def make_actor(
    self,
    random_key: jax.Array,
    policy: actor_core.ActorCore,
    environment_spec: specs.EnvironmentSpec,
    variable_source: core.VariableSource | None = None,
    adder: adders.Adder | None = None,
  ) -> core.Actor:
    """Makes an actor that follows the learner's params.

    Raises:
      ValueError: no source of params is given.
    """
    del environment_spec
    if variable_source is None:
      raise ValueError('make_actor needs a variable_source, the learner whose params to follow, got None.')
    period = self._config.variable_update_period
    return actors.make_actor(
      policy,
      random_key,
      variable_source,
      adder,
      # An evaluator asks for the params when it needs them, and those of a learner right here cost nothing.
      update_period=1 if adder is None or isinstance(variable_source, core.Learner) else period,
    )

  def make_learner(
    self,
    random_key: jax.Array,
    networks: compat.Networks,
    dataset: Iterator[reverb.ReplaySample],
    logger_fn: compat.LoggerFactory,
    environment_spec: specs.EnvironmentSpec,
    replay_client: reverb.Client | None = None,
    counter: counting.Counter | None = None,
  ) -> BlocksLearner:
    """Makes the learner; each of its steps takes one element of the dataset.

    Raises:
      ValueError: there are fewer devices than the learner is to use, they don't divide by its processes, or
        the batch size doesn't divide by their number.
    """
    del environment_spec, replay_client
    reward_scale, num_devices = self._config.reward_scale, self._config.num_learner_devices
    devices = data_parallel.learner_devices(num_devices)
    check_divisible(self._config, len(devices))

    def to_batch(transition: types.Transition) -> Transition:
      return Transition(
        obs_tm1=transition.observation,
        a_tm1=transition.action,
        r_t=reward_scale * transition.reward,
        discount_t=transition.discount,
        obs_t=transition.next_observation,
      )

    return BlocksLearner(
      self.make_algorithm(networks),
      random_key,
      map(_data, dataset),
      to_batch=to_batch,
      counter=counter,
      logger=logger_fn('learner'),
      devices=None if num_devices == 1 else devices,
    )


def _data(sample: reverb.ReplaySample) -> Any:
  # The keys and probabilities that come along would be transferred to the device for nothing.
  return types.Transition(*sample.data)
