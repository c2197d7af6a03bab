"""Actors: which params they follow, and that acting is random and evaluation is not."""

from __future__ import annotations

from typing import Any

import dm_env
import jax
import jax.numpy as jnp
import numpy as np
import pytest

pytest.importorskip('acme')

from agents.acme import actors
from agents.acme.learner import BlocksLearner
from sac_blocks import ActorCritic, Network, recipes
from sac_blocks import actions as kinds
from sac_blocks.distributions import Categorical
from tests.plain_networks import make_plain_networks
from tests.recipes.sac_test import make_batch

OBSERVATION = np.array([0.5, -1.0, 2.0], np.float32)


class RemoteSource:
  """Stands for a learner in another process."""

  def __init__(self, params: Any):
    self.params, self.fetches = params, 0

  def get_variables(self, names: Any) -> Any:
    assert list(names) == ['policy']
    self.fetches += 1
    return [self.params]


def start(actor: Any) -> None:
  actor.observe_first(dm_env.restart(OBSERVATION))


def test_acting_is_random_and_evaluation_is_greedy():
  algorithm = recipes.sac(make_plain_networks(random=True))
  params = {'actor': algorithm.init(jax.random.key(0)).params['actor']}
  source = RemoteSource(params)
  explorer = actors.make_actor(
    actors.make_actor_core(algorithm, evaluation=False), jax.random.PRNGKey(0), source
  )
  start(explorer)
  drawn = [explorer.select_action(OBSERVATION) for _ in range(3)]
  assert len({tuple(action.tolist()) for action in drawn}) == 3
  assert all(isinstance(a, np.ndarray) and a.shape == (2,) and np.abs(a).max() <= 1.0 for a in drawn)

  greedy = actors.make_actor(
    actors.make_actor_core(algorithm, evaluation=True), jax.random.PRNGKey(0), source
  )
  start(greedy)
  expected = np.tanh(OBSERVATION @ np.asarray(params['actor']['loc']))
  for _ in range(2):
    np.testing.assert_allclose(greedy.select_action(OBSERVATION), expected, rtol=1e-5)


def test_a_remote_source_is_asked_every_update_period():
  algorithm = recipes.sac(make_plain_networks())
  first, second = (algorithm.init(jax.random.key(i)).params['actor'] for i in range(2))
  source = RemoteSource({'actor': first})
  actor = actors.make_actor(
    actors.make_actor_core(algorithm, evaluation=True), jax.random.PRNGKey(0), source, update_period=3
  )
  start(actor)
  before = actor.select_action(OBSERVATION)
  source.params = {'actor': second}
  for _ in range(2):
    actor.update(wait=True)
    np.testing.assert_array_equal(actor.select_action(OBSERVATION), before)
  actor.update(wait=True)
  np.testing.assert_allclose(
    actor.select_action(OBSERVATION), np.tanh(OBSERVATION @ np.asarray(second['loc'])), rtol=1e-5
  )
  assert source.fetches == 2


def test_a_learner_beside_the_actor_is_followed_update_by_update():
  algorithm = recipes.sac(make_plain_networks())
  learner = BlocksLearner(algorithm, jax.random.PRNGKey(0), iter([make_batch()] * 3))
  actor = actors.make_actor(
    actors.make_actor_core(algorithm, evaluation=True), jax.random.PRNGKey(0), learner
  )
  start(actor)
  seen = [actor.select_action(OBSERVATION)]
  for _ in range(3):
    learner.step()
    # Without waiting it may see the update before.
    actor.update(wait=True)
    seen.append(actor.select_action(OBSERVATION))
    params = learner.save().training_state.params
    np.testing.assert_allclose(seen[-1], np.tanh(OBSERVATION @ params['actor']['loc']), rtol=1e-5)
  assert len({tuple(action.tolist()) for action in seen}) == 4


def test_a_warm_up_is_uniform_for_as_long_as_it_lasts_and_not_in_evaluation():
  def init(key: Any) -> Any:
    # The policy never takes action 1, and 3 is illegal.
    return jnp.array([9.0, -9.0, 9.0, 30.0])

  def policy(logits: Any, obs: Any) -> Categorical:
    shape = (*obs.shape[:-1], 4)
    return Categorical(jnp.broadcast_to(logits, shape), jnp.broadcast_to(jnp.arange(4) < 3, shape))

  networks = ActorCritic(Network(init, policy), Network(init, lambda p, obs: p), actions=kinds.enumerated(4))
  algorithm = recipes.sac_discrete(networks)
  source = RemoteSource({'actor': init(None)})

  def actions(evaluation: bool) -> list[int]:
    core = actors.make_actor_core(algorithm, evaluation=evaluation, random_steps=300)
    actor = actors.make_actor(core, jax.random.PRNGKey(0), source)
    taken = []
    # In episodes of 100 steps.
    for _ in range(4):
      start(actor)
      taken += [int(actor.select_action(OBSERVATION)) for _ in range(100)]
    return taken

  taken = actions(evaluation=False)
  # 100 of each, with a standard deviation of 8.
  np.testing.assert_allclose(np.bincount(taken[:300], minlength=4), [100, 100, 100, 0], atol=33)
  assert set(taken[300:]) == {0, 2}
  assert set(actions(evaluation=True)) == {0}
