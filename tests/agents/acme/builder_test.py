"""A builder for an algorithm of one's own is one call, and samples what the algorithm's updates take."""

from __future__ import annotations

from typing import Any

import jax
import numpy as np
import pytest

pytest.importorskip('acme')

import dm_env
import reverb
from acme import specs, types

from agents.acme import BlocksBuilder
from agents.config import ReplayConfig
from sac_blocks import recipes
from tests.plain_networks import ACTION_SIZE, OBSERVATION_SIZE, make_plain_networks

SPEC = specs.EnvironmentSpec(
  observations=specs.Array((OBSERVATION_SIZE,), np.float32),
  actions=specs.BoundedArray((ACTION_SIZE,), np.float32, -1.0, 1.0),
  rewards=specs.Array((), np.float32),
  discounts=specs.BoundedArray((), np.float32, 0.0, 1.0),
)


class NoLogger:
  def write(self, data: Any) -> None:
    pass

  def close(self) -> None:
    pass


def make_builder(updates_per_call: int, **options: Any) -> BlocksBuilder:
  config = ReplayConfig(batch_size=16, min_replay_size=1, samples_per_insert=None, **options)
  return BlocksBuilder(config, lambda networks: recipes.sac(networks, updates_per_call=updates_per_call))


def test_each_update_of_many_a_step_is_of_a_whole_batch():
  """From the table to the learner, with four updates a step and sixteen transitions an update."""
  builder, networks = make_builder(4, num_sgd_steps_per_step=4), make_plain_networks()
  policy = builder.make_policy(networks, SPEC)
  server = reverb.Server(builder.make_replay_tables(SPEC, policy))
  client = reverb.Client(f'localhost:{server.port}')
  adder = builder.make_adder(client, SPEC, policy)
  rng = np.random.default_rng(0)
  timestep = specs_timesteps(rng)
  adder.add_first(timestep(0))
  for i in range(1, 9):
    adder.add(np.zeros(ACTION_SIZE, np.float32), timestep(i))
  dataset = builder.make_dataset_iterator(client)
  shapes = []

  def recorded() -> Any:
    while True:
      sample = next(dataset)
      shapes.append(types.Transition(*sample.data).reward.shape)
      yield sample

  learner = builder.make_learner(
    jax.random.PRNGKey(0), networks, recorded(), lambda label: NoLogger(), SPEC, client
  )
  for _ in range(3):
    learner.step()
  counts = [x for x in jax.tree.leaves(learner.save().training_state.blocks) if x.dtype == np.int32]
  dataset.close()
  server.stop()
  assert set(shapes) == {(4 * 16,)}
  # Three steps of four updates, by the count of each Adam.
  assert {int(x) for x in counts} == {12}


def specs_timesteps(rng: np.random.Generator) -> Any:
  def timestep(i: int) -> dm_env.TimeStep:
    observation = rng.normal(size=OBSERVATION_SIZE).astype(np.float32)
    if i == 0:
      return dm_env.restart(observation)
    last = dm_env.StepType.LAST if i == 8 else dm_env.StepType.MID
    return dm_env.TimeStep(last, np.float32(1.0), np.float32(1.0), observation)

  return timestep


def test_an_algorithm_that_makes_another_number_of_updates_is_refused():
  builder = make_builder(4)
  expected = r'updates_per_call=4 updates of a sample that holds 1 x .*: set num_sgd_steps_per_step=4'
  with pytest.raises(ValueError, match=expected):
    builder.make_policy(make_plain_networks(), SPEC)
