"""The SAC agent: configuration, networks from specs, and the builder's parts together."""

from __future__ import annotations

from typing import Any
from unittest import mock

import jax
import numpy as np
import optax
import pytest

pytest.importorskip('acme')

import reverb
from acme import core, specs

from agents import environments
from agents.acme import actors
from agents.sac import SACBuilder, SACConfig, make_networks
from sac_blocks import Transition, recipes

SMALL: dict[str, Any] = {'batch_size': 8, 'min_replay_size': 20, 'samples_per_insert': 8.0}


def box(low: float = -1.0, high: float = 1.0, shape: tuple[int, ...] = (2,)) -> specs.EnvironmentSpec:
  return specs.EnvironmentSpec(
    observations=specs.Array((3,), np.float32),
    actions=specs.BoundedArray(shape, np.float32, low, high),
    rewards=specs.Array((), np.float32),
    discounts=specs.BoundedArray((), np.float32, 0.0, 1.0),
  )


@pytest.mark.parametrize(
  ('options', 'message'),
  [
    ({'actor_learning_rate': 0.0}, 'actor_learning_rate must be positive, or an optax schedule, got 0.0'),
    ({'initial_alpha': -1.0}, 'initial_alpha must be positive'),
    ({'max_gradient_norm': 0.0}, 'max_gradient_norm must be positive, or None'),
    ({'log_alpha_bounds': (1.0, 0.0)}, 'log_alpha_bounds must be'),
    ({'log_alpha_bounds': (-5.0, -1.0)}, 'initial_alpha must be within exp of log_alpha_bounds'),
    (
      {'log_alpha_bounds': (-5.0, 1.0), 'learn_temperature': False},
      'log_alpha_bounds must be None where learn_temperature=False',
    ),
    ({'target_entropy': float('nan')}, 'target_entropy must be finite, or None, got nan'),
    ({'tau': 2.0}, r'tau must be in \[0, 1\], got 2.0'),
    ({'actor_update_period': 0}, 'actor_update_period must be an integer of at least 1'),
    ({'target_update_period': 0}, 'target_update_period must be an integer of at least 1'),
    ({'critic_loss': 'l1'}, "critic_loss must be 'l2' or 'huber', got 'l1'"),
    ({'batch_size': 0}, 'batch_size'),
  ],
)
def test_wrong_options_are_named(options: dict[str, Any], message: str):
  with pytest.raises(ValueError, match=message):
    SACConfig(**options)


def test_networks_refuse_what_sac_cannot_act_in():
  for actions in (specs.DiscreteArray(3), specs.BoundedArray((2,), np.int32, 0, 3)):
    with pytest.raises(ValueError, match='SAC needs continuous, bounded actions, but the environment has'):
      make_networks(box()._replace(actions=actions))
  with pytest.raises(ValueError, match=r'canonical box \[-1, 1\]'):
    make_networks(box(-2.0, 2.0))
  with pytest.raises(ValueError, match=r'actions of shape \(D,\)'):
    make_networks(box(shape=(2, 2)))
  assert make_networks(box()).actions.num_dimensions == 2


def test_every_option_reaches_the_recipe(monkeypatch: pytest.MonkeyPatch):
  given: dict[str, Any] = {}
  original = recipes.sac

  def record(networks: Any, **options: Any) -> Any:
    given.update(options)
    return original(networks, **options)

  monkeypatch.setattr(recipes, 'sac', record)
  config = SACConfig(
    initial_alpha=0.3,
    log_alpha_bounds=(-4.0, 1.0),
    target_entropy=-7.0,
    tau=0.02,
    actor_update_period=2,
    target_update_period=5,
    entropy_backup=False,
    critic_loss='huber',
    input_normalization=True,
    num_sgd_steps_per_step=3,
    max_gradient_norm=1.0,
  )
  SACBuilder(config).make_algorithm(make_networks(box(), hidden_sizes=(8,)))
  expected = {
    'initial_alpha': 0.3,
    'log_alpha_bounds': (-4.0, 1.0),
    'target_entropy': -7.0,
    'tau': 0.02,
    'actor_update_period': 2,
    'target_update_period': 5,
    'pointwise_loss': optax.huber_loss,
    'entropy_backup': False,
    'normalize_observations': True,
    'updates_per_call': 3,
  }
  assert {name: given[name] for name in expected} == expected


def adam_states(tree: Any) -> list[optax.ScaleByAdamState]:
  is_adam = lambda x: isinstance(x, optax.ScaleByAdamState)  # noqa: E731
  return [x for x in jax.tree.leaves(tree, is_leaf=is_adam) if is_adam(x)]


def test_gradient_clipping_is_part_of_the_optimisers():
  """Adam hides the scale of a gradient from its step, but not from its first moment."""
  batch = Transition(
    np.ones((4, 3), np.float32),
    np.zeros((4, 2), np.float32),
    np.full(4, 1e3, np.float32),
    np.zeros(4, np.float32),
    np.ones((4, 3), np.float32),
  )
  norms = {}
  for limit in (None, 1e-3):
    builder = SACBuilder(SACConfig(max_gradient_norm=limit))
    algorithm = builder.make_algorithm(make_networks(box(), hidden_sizes=(8,)))
    state, _ = jax.jit(algorithm.update)(algorithm.init(jax.random.key(0)), batch)
    norms[limit] = [float(optax.global_norm(adam.mu)) for adam in adam_states(state.blocks)]
  # The first moment after one step is (1 - 0.9) times the gradient.
  critic, actor, _ = norms[1e-3]
  np.testing.assert_allclose([critic, actor], 0.1 * 1e-3, rtol=1e-3)
  assert norms[None][0] > 1.0


def test_only_a_learner_in_another_process_is_followed_now_and_then(monkeypatch: pytest.MonkeyPatch):
  monkeypatch.setattr(actors, 'make_actor', lambda *args, update_period: update_period)
  builder = SACBuilder(SACConfig(variable_update_period=7))
  elsewhere, adder = mock.Mock(spec=core.VariableSource), mock.Mock()
  assert builder.make_actor(None, None, None, elsewhere, adder) == 7
  assert builder.make_actor(None, None, None, mock.Mock(spec=core.Learner), adder) == 1
  # Without an adder it evaluates, and asks when it needs to.
  assert builder.make_actor(None, None, None, elsewhere, None) == 1


class NoLogger:
  def write(self, data: Any) -> None:
    pass

  def close(self) -> None:
    pass


@pytest.mark.parametrize(
  ('name', 'observations'), [('gymnasium:Pendulum-v1', 'flat'), ('dm_control:cartpole:swingup', 'native')]
)
def test_the_parts_work_together(name: str, observations: Any):
  """Actor, adder, table, dataset and learner, by hand, with 2 updates a step and n-step data."""
  config = SACConfig(
    **SMALL,
    num_sgd_steps_per_step=2,
    n_step=3,
    input_normalization=True,
    # Wide enough for a whole episode to be inserted before the first sample is taken.
    samples_per_insert_tolerance_rate=10.0,
  )
  builder = SACBuilder(config)
  environment = environments.make(name, observations=observations, max_episode_steps=30)
  spec = specs.make_environment_spec(environment)
  keys = {'policy_keys': ('position',), 'critic_keys': ('position', 'velocity')}
  networks = make_networks(spec, hidden_sizes=(8,), **(keys if observations == 'native' else {}))
  policy = builder.make_policy(networks, spec)
  server = reverb.Server(builder.make_replay_tables(spec, policy))
  client = reverb.Client(f'localhost:{server.port}')
  dataset = builder.make_dataset_iterator(client)
  learner = builder.make_learner(
    jax.random.PRNGKey(0), networks, dataset, lambda label: NoLogger(), spec, client
  )
  adder = builder.make_adder(client, spec, policy)
  actor = builder.make_actor(jax.random.PRNGKey(1), policy, spec, learner, adder)
  evaluator = builder.make_actor(
    jax.random.PRNGKey(1), builder.make_policy(networks, spec, evaluation=True), spec, learner
  )

  timestep = environment.reset()
  actor.observe_first(timestep)
  while not timestep.last():
    action = actor.select_action(timestep.observation)
    timestep = environment.step(action)
    actor.observe(action, timestep)
  assert client.server_info()['replay'].current_size == 30
  for _ in range(3):
    learner.step()
  actor.update()

  saved = learner.save().training_state
  # Three calls of two updates; normalisation saw each of the 8 observations of each.
  assert int(saved.params['observation_statistics'].num_observations) == 3 * 2 * 8
  evaluator.observe_first(timestep)
  greedy = evaluator.select_action(timestep.observation)
  np.testing.assert_array_equal(greedy, evaluator.select_action(timestep.observation))
  dataset.close()
  server.stop()


def test_projected_memory_is_that_of_the_steps_or_of_a_full_table():
  builder = SACBuilder(SACConfig(min_replay_size=20, max_replay_size=1000))
  small, full, beyond = (builder.projected_replay_bytes(box(), steps) for steps in (100, 1000, 10**7))
  assert full == beyond == 10 * small
  # Two observations of 3, an action of 2, reward and discount, in float32.
  assert small > 100 * 4 * (3 + 2 + 1 + 1 + 3)


def test_an_actor_needs_a_source_of_params():
  builder = SACBuilder(SACConfig(**SMALL))
  networks = make_networks(box(), hidden_sizes=(8,))
  policy = builder.make_policy(networks, box())
  with pytest.raises(ValueError, match='variable_source'):
    builder.make_actor(jax.random.PRNGKey(0), policy, box())


def test_a_rate_limit_that_cannot_be_met_is_refused_with_its_numbers():
  config = SACConfig(batch_size=256, min_replay_size=10, samples_per_insert=1.0)
  with pytest.raises(ValueError, match=r'256.*learning would wait for ever'):
    SACBuilder(config).make_replay_tables(box(), None)
