"""An agent that learns nothing but counts everything, for the tests of the loops around it."""

from __future__ import annotations

import dataclasses
import importlib.util
from collections.abc import Callable
from typing import Any

import dm_env
import jax
import jax.numpy as jnp
import numpy as np
import pytest

pytest.importorskip('acme')

from agents import experiments
from agents.acme import compat

import reverb  # isort: skip
import tensorflow as tf  # isort: skip
from acme import core, specs  # isort: skip
from acme.adders import reverb as reverb_adders  # isort: skip
from acme.utils import loggers  # isort: skip

TABLE = 'toy'
AT_HEAD = importlib.util.find_spec('acme.jax.experiments') is not None


class Environment(dm_env.Environment):
  """Episodes of a fixed length whose observation is the step's number."""

  def __init__(self, episode_length: int = 10, on_step: Callable[[int], None] | None = None):
    self.episode_length = episode_length
    self.total_steps = 0
    self.closed = False
    self._on_step = on_step
    self._step = 0

  def observation_spec(self) -> specs.Array:
    return specs.Array((1,), np.float32)

  def action_spec(self) -> specs.BoundedArray:
    return specs.BoundedArray((1,), np.float32, -1.0, 1.0)

  def reset(self) -> dm_env.TimeStep:
    self._step = 0
    return dm_env.restart(self._observation())

  def step(self, action: np.ndarray) -> dm_env.TimeStep:
    self._step += 1
    self.total_steps += 1
    if self._on_step is not None:
      self._on_step(self.total_steps)
    step_type = dm_env.StepType.LAST if self._step == self.episode_length else dm_env.StepType.MID
    return dm_env.TimeStep(step_type, np.float32(1.0), np.float32(1.0), self._observation())

  def reward_spec(self) -> specs.Array:
    return specs.Array((), np.float32)

  def discount_spec(self) -> specs.BoundedArray:
    return specs.BoundedArray((), np.float32, 0.0, 1.0)

  def close(self) -> None:
    self.closed = True

  def _observation(self) -> np.ndarray:
    return np.array([self._step], np.float32)


class Actor(core.Actor):
  """Takes the policy's constant action."""

  def __init__(self, policy: float, adder: Any):
    self.policy = policy
    self.num_updates = 0
    self._adder = adder

  def select_action(self, observation: np.ndarray) -> np.ndarray:
    return np.array([self.policy], np.float32)

  def observe_first(self, timestep: dm_env.TimeStep) -> None:
    if self._adder:
      self._adder.add_first(timestep)

  def observe(self, action: np.ndarray, next_timestep: dm_env.TimeStep) -> None:
    if self._adder:
      self._adder.add(action, next_timestep)

  def update(self, wait: bool = False) -> None:
    self.num_updates += 1


class Learner(core.Learner):
  """Counts its batches, and adds up what is in them."""

  def __init__(self, random_key: jax.Array, dataset: Any, counter: Any, batches_per_step: int):
    self.num_steps = 0
    self.total = jnp.zeros((), jnp.float32)
    self.noise = jax.random.normal(random_key, (3,))
    self._dataset = dataset
    self._counter = counter
    self._batches_per_step = batches_per_step

  def step(self) -> None:
    for _ in range(self._batches_per_step):
      sample = next(self._dataset)
      self.total += jnp.sum(sample.data.reward)
    self.num_steps += 1
    self._counter.increment(steps=1)

  def get_variables(self, names: list[str]) -> list[Any]:
    return [self.total for _ in names]

  def save(self) -> dict[str, Any]:
    return {'num_steps': self.num_steps, 'total': self.total, 'noise': self.noise}

  def restore(self, state: dict[str, Any]) -> None:
    self.num_steps = state['num_steps']
    self.total = jnp.asarray(state['total'])
    self.noise = jnp.asarray(state['noise'])


@dataclasses.dataclass
class Builder(compat.ActorLearnerBuilder[None, float, reverb.ReplaySample]):
  """Builds the agent, and remembers what it has built."""

  batch_size: int = 4
  rate_limiter: Callable[[], Any] = lambda: reverb.rate_limiters.SampleToInsertRatio(4.0, 20, 16.0)
  max_size: int = 1000
  batches_per_step: int = 1
  make_dataset: Callable[[reverb.Client], Any] | None = None
  learner: Learner | None = None
  actors: list[Actor] = dataclasses.field(default_factory=list)
  client: reverb.Client | None = None

  def make_replay_tables(self, environment_spec, policy) -> list[reverb.Table]:
    return [
      reverb.Table(
        TABLE,
        reverb.selectors.Uniform(),
        reverb.selectors.Fifo(),
        self.max_size,
        self.rate_limiter(),
        signature=reverb_adders.NStepTransitionAdder.signature(environment_spec),
      )
    ]

  def make_dataset_iterator(self, replay_client) -> Any:
    self.client = replay_client
    if self.make_dataset is not None:
      return self.make_dataset(replay_client)
    dataset = reverb.TrajectoryDataset.from_table_signature(
      replay_client.server_address,
      TABLE,
      max_in_flight_samples_per_worker=self.batch_size,
      num_workers_per_iterator=1,
    ).batch(self.batch_size, drop_remainder=True)
    options = tf.data.Options()
    # TensorFlow would add a buffer of its own, of a size that it changes at will.
    options.autotune.enabled = False
    options.experimental_optimization.inject_prefetch = False
    return dataset.with_options(options).as_numpy_iterator()

  def make_adder(self, replay_client, environment_spec, policy) -> Any:
    return reverb_adders.NStepTransitionAdder(
      replay_client, n_step=1, discount=1.0, priority_fns={TABLE: None}
    )

  def make_actor(self, random_key, policy, environment_spec, variable_source=None, adder=None) -> Actor:
    self.actors.append(Actor(policy, adder))
    return self.actors[-1]

  def make_learner(
    self,
    random_key,
    networks,
    dataset,
    logger_fn,
    environment_spec,
    replay_client=None,
    counter=None,
  ) -> Learner:
    self.learner = Learner(random_key, dataset, counter, self.batches_per_step)
    return self.learner

  def make_policy(self, networks, environment_spec, evaluation=False) -> float:
    return 1.0 if evaluation else 0.5


class Log:
  """A factory of loggers that keeps the rows of all of them, in order."""

  def __init__(self) -> None:
    self.rows: list[tuple[str, dict[str, Any]]] = []

  def __call__(self, label: str, steps_key: str | None = None, task_instance: int = 0) -> loggers.Logger:
    rows = self.rows

    class _Logger(loggers.Logger):
      def write(self, data: Any) -> None:
        rows.append((label, dict(data)))

      def close(self) -> None:
        pass

    return _Logger()


def make_experiment(
  builder: Builder, environment: Environment, max_num_actor_steps: int, **options: Any
) -> experiments.ExperimentConfig:
  """Returns an experiment of the toy agent that writes nothing to disk, unless told to."""
  options = {'checkpointing': None, 'logger_factory': Log(), **options}
  return experiments.ExperimentConfig(
    builder=builder,
    network_factory=lambda environment_spec: None,
    environment_factory=lambda seed: environment,
    max_num_actor_steps=max_num_actor_steps,
    seed=0,
    **options,
  )
