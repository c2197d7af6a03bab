"""The discrete SAC agent in Acme: its parts together, and masked environments end to end."""

from __future__ import annotations

from typing import Any

import jax
import numpy as np
import pytest

pytest.importorskip('acme')

import reverb
from acme import specs

from agents import environments, experiments
from agents.sac_discrete import SACDiscreteBuilder, SACDiscreteConfig, make_networks
from tests.agents import masked_environments


class Metrics:
  """Collects what is logged, by label."""

  def __init__(self):
    self.rows: dict[str, list[Any]] = {}

  def __call__(self, label: str, *args: Any, **kwargs: Any) -> Any:
    rows = self.rows.setdefault(label, [])

    class Logger:
      def write(self, data: Any) -> None:
        rows.append({name: float(np.asarray(value)) for name, value in data.items()})

      def close(self) -> None:
        pass

    return Logger()


@pytest.mark.parametrize(
  ('name', 'observations'),
  [
    ('gymnasium:CartPole-v1', 'flat'),
    ('bsuite:catch/0', 'native'),
    ('dm_env:tests.agents.image_environments:make_catch', 'flat'),
    ('dm_env:tests.agents.masked_environments:make_masked', 'flat'),
    ('dm_env:tests.agents.masked_environments:make_masked_multi', 'native'),
  ],
)
def test_the_parts_work_together(name: str, observations: Any):
  """Actor, adder, table, dataset and learner, by hand, with 2 updates a step and n-step data."""
  config = SACDiscreteConfig(
    batch_size=8,
    min_replay_size=20,
    samples_per_insert=8.0,
    num_sgd_steps_per_step=2,
    n_step=3,
    input_normalization=True,
    random_steps=5,
    # Wide enough for all to be inserted before the first sample is taken.
    samples_per_insert_tolerance_rate=10.0,
  )
  builder = SACDiscreteBuilder(config)
  environment = environments.make(name, observations=observations)
  spec = specs.make_environment_spec(environment)
  networks = make_networks(spec, hidden_sizes=(8,))
  policy = builder.make_policy(networks, spec)
  server = reverb.Server(builder.make_replay_tables(spec, policy))
  client = reverb.Client(f'localhost:{server.port}')
  dataset = builder.make_dataset_iterator(client)
  metrics = Metrics()
  learner = builder.make_learner(jax.random.PRNGKey(0), networks, dataset, metrics, spec, client)
  actor = builder.make_actor(
    jax.random.PRNGKey(1), policy, spec, learner, builder.make_adder(client, spec, policy)
  )
  evaluator = builder.make_actor(
    jax.random.PRNGKey(1), builder.make_policy(networks, spec, evaluation=True), spec, learner
  )

  steps = 0
  while steps < 30:
    timestep = environment.reset()
    actor.observe_first(timestep)
    while not timestep.last():
      action = actor.select_action(timestep.observation)
      # The environment checks the action's type, and the mazes its legality.
      timestep = environment.step(action)
      actor.observe(action, timestep)
      steps += 1
  assert client.server_info()['replay'].current_size == steps
  for _ in range(3):
    learner.step()
  actor.update()
  learner.wait()

  saved = learner.save().training_state
  assert int(saved.params['observation_statistics'].num_observations) == 3 * 2 * 8
  assert all(np.isfinite(value) for row in metrics.rows['learner'] for value in row.values())
  timestep = environment.reset()
  evaluator.observe_first(timestep)
  greedy = evaluator.select_action(timestep.observation)
  np.testing.assert_array_equal(greedy, evaluator.select_action(timestep.observation))
  environment.step(greedy)
  dataset.close()
  server.stop()


@pytest.mark.slow
@pytest.mark.parametrize(
  ('name', 'random_return', 'optimal_return'),
  [
    ('make_masked', masked_environments.RANDOM_RETURN, masked_environments.OPTIMAL_RETURN),
    ('make_masked_multi', masked_environments.RANDOM_RETURN_MULTI, masked_environments.OPTIMAL_RETURN_MULTI),
  ],
)
def test_masked_environments_are_learned_without_an_illegal_action(
  name: str, random_return: float, optimal_return: float
):
  """In warm-up, acting and evaluation alike an illegal action would raise and end the experiment."""
  metrics = Metrics()
  config = SACDiscreteConfig(
    batch_size=32,
    samples_per_insert=32.0,
    min_replay_size=300,
    random_steps=600,
    samples_per_insert_tolerance_rate=0.5,
  )
  experiment = experiments.ExperimentConfig(
    builder=SACDiscreteBuilder(config),
    network_factory=lambda spec: make_networks(spec, hidden_sizes=(32,)),
    environment_factory=lambda seed: environments.make(
      f'dm_env:tests.agents.masked_environments:{name}', seed=seed % 2**32
    ),
    max_num_actor_steps=3000,
    seed=0,
    logger_factory=metrics,
    checkpointing=None,
  )
  experiments.run_experiment(experiment, eval_every=1000, num_eval_episodes=5)

  training, evaluation = (
    [row['episode_return'] for row in metrics.rows[label]] for label in ('actor', 'evaluator')
  )
  # Uniform over the legal actions, at 20 to 25 steps an episode.
  np.testing.assert_allclose(np.mean(training[:25]), random_return, atol=2.5)
  assert evaluation[-5:] == [optimal_return] * 5
