from __future__ import annotations

import dataclasses
import inspect

import pytest

pytest.importorskip('acme')

from agents import experiments
from agents.acme import compat
from tests.agents.acme import toy_agent

from acme import specs  # isort: skip


def _fields(config: type) -> list[tuple[str, object]]:
  return [(field.name, field.default) for field in dataclasses.fields(config)]


def test_checkpointing_has_the_fields_and_defaults_of_the_head():
  assert _fields(experiments.CheckpointingConfig) == [
    ('max_to_keep', 1),
    ('directory', '~/acme'),
    ('add_uid', True),
    ('time_delta_minutes', 5),
    ('keep_checkpoint_every_n_hours', None),
    ('replay_checkpointing_time_delta_minutes', None),
    ('checkpoint_ttl_seconds', 432_000),
  ]


def test_experiments_have_the_fields_and_defaults_of_the_head():
  missing = dataclasses.MISSING
  assert _fields(experiments.ExperimentConfig) == [
    ('builder', missing),
    ('network_factory', missing),
    ('environment_factory', missing),
    ('max_num_actor_steps', missing),
    ('seed', missing),
    ('policy_network_factory', None),
    ('evaluator_factories', None),
    ('eval_policy_network_factory', None),
    ('environment_spec', None),
    ('observers', ()),
    ('logger_factory', missing),
    ('checkpointing', experiments.CheckpointingConfig()),
  ]
  (logger_factory,) = (
    field.default_factory
    for field in dataclasses.fields(experiments.ExperimentConfig)
    if field.name == 'logger_factory'
  )
  assert logger_factory is compat.create_experiment_logger_factory


def test_run_experiment_has_the_arguments_and_defaults_of_the_head():
  parameters = inspect.signature(experiments.run_experiment).parameters
  assert list(parameters) == ['experiment', 'eval_every', 'num_eval_episodes']
  assert (parameters['eval_every'].default, parameters['num_eval_episodes'].default) == (100, 1)


@pytest.mark.parametrize('config', ['CheckpointingConfig', 'ExperimentConfig'])
def test_configs_are_frozen(config):
  assert getattr(experiments, config).__dataclass_params__.frozen


@pytest.mark.skipif(not toy_agent.AT_HEAD, reason='this Acme has no acme.jax.experiments')
@pytest.mark.parametrize('name', experiments.__all__)
def test_every_name_is_that_of_acme_where_it_has_one(name):
  import acme.jax.experiments

  assert getattr(experiments, name) is getattr(acme.jax.experiments, name)


def test_policies_come_from_the_builder_unless_a_factory_is_given():
  builder, environment = toy_agent.Builder(), toy_agent.Environment()
  experiment = toy_agent.make_experiment(builder, environment, 10)
  spec = specs.make_environment_spec(environment)
  assert experiments.make_policy(experiment, None, spec, evaluation=False) == 0.5
  assert experiments.make_policy(experiment, None, spec, evaluation=True) == 1.0
  experiment = toy_agent.make_experiment(
    builder,
    environment,
    10,
    policy_network_factory=lambda networks: 'acting',
    eval_policy_network_factory=lambda networks: 'evaluating',
  )
  assert experiments.make_policy(experiment, None, spec, evaluation=False) == 'acting'
  assert experiments.make_policy(experiment, None, spec, evaluation=True) == 'evaluating'


def test_the_default_evaluator_runs_the_evaluation_policy_and_counts_its_episodes():
  builder, environment = toy_agent.Builder(), toy_agent.Environment(episode_length=5)
  experiment = toy_agent.make_experiment(builder, environment, 10)
  (factory,) = experiment.get_evaluator_factories()
  counter = compat.Counter(time_delta=0.0)
  key = toy_agent.jax.random.PRNGKey(0)

  def make_actor(random_key, policy, environment_spec, variable_source):
    return builder.make_actor(random_key, policy, environment_spec, variable_source)

  loop = factory(key, None, counter, make_actor)
  assert loop.run(num_episodes=2) == 10
  assert builder.actors[0].policy == 1.0
  assert [(label, row['episode_return']) for label, row in experiment.logger_factory.rows] == [
    ('evaluator', 5.0),
    ('evaluator', 5.0),
  ]


def test_evaluators_that_are_given_take_the_place_of_the_default():
  experiment = toy_agent.make_experiment(
    toy_agent.Builder(), toy_agent.Environment(), 10, evaluator_factories=[]
  )
  assert experiment.get_evaluator_factories() == []
