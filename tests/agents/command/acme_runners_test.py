from __future__ import annotations

import copy
import dataclasses

import pytest

pytest.importorskip('acme')

from agents import environments
from agents.command.acme_runners import LocalRunner, WatchedBuilder
from agents.command.options import AGENTS
from agents.command.reporting import CURVE_FILE_NAME
from agents.command.settings import Settings
from agents.records import metrics

_AGENT = AGENTS['sac']()


def _settings(**config):
  return Settings(
    agent='sac',
    env='gymnasium:Pendulum-v1',
    seed=0,
    steps=400,
    eval_every=200,
    num_eval_episodes=1,
    checkpoint_minutes=5.0,
    config=dataclasses.asdict(_AGENT.config(**config)),
    networks={'hidden_sizes': (16, 16)},
  )


@pytest.mark.slow
def test_a_run_returns_its_last_evaluation(tmp_path, capsys):
  settings = _settings(min_replay_size=200, batch_size=16, samples_per_insert=16.0)
  runner = LocalRunner(settings, _AGENT, environments.make(settings.env))
  assert list(tmp_path.iterdir()) == []
  assert runner.device
  evaluation = runner.run(tmp_path)
  evaluations = metrics.evaluations(metrics.read(tmp_path / metrics.FILE_NAME))
  assert [e.step for e in evaluations] == [0, 200, 400]
  assert evaluation[2:] == evaluations[-1][2:]
  assert len(capsys.readouterr().out.splitlines()) == 4
  assert (tmp_path / CURVE_FILE_NAME).exists()


def test_limits_that_can_never_be_met_are_refused():
  settings = _settings(min_replay_size=10, samples_per_insert=1.0)
  with pytest.raises(ValueError, match='learning would wait for ever'):
    LocalRunner(settings, _AGENT, environments.make(settings.env))


class _Actor:
  def __init__(self, key):
    self.calls = [key]

  def select_action(self, observation):
    return 2 * observation

  def observe_first(self, timestep):
    self.calls.append(('first', timestep))

  def observe(self, action, next_timestep):
    self.calls.append((action, next_timestep))

  def update(self, wait=False):
    self.calls.append(('update', wait))


class _Builder:
  config = 'config'

  def make_actor(self, random_key, policy, environment_spec, variable_source=None, adder=None):
    assert (policy, environment_spec, variable_source) == ('policy', 'spec', 'source')
    self.actor = _Actor(random_key)
    return self.actor

  def make_learner(self):
    return 'learner'


def test_steps_of_training_are_reported_after_the_actor_has_seen_them():
  inner = _Builder()
  reported = []
  builder = WatchedBuilder(inner, lambda: reported.append(len(inner.actor.calls)))
  actor = builder.make_actor('key', 'policy', 'spec', 'source', 'adder')
  assert actor.select_action(3) == 6
  actor.observe_first('t0')
  actor.observe(1, next_timestep='t1')
  actor.update(wait=True)
  actor.observe(2, 't2')
  assert inner.actor.calls == ['key', ('first', 't0'), (1, 't1'), ('update', True), (2, 't2')]
  assert reported == [3, 5]


def test_an_actor_that_only_evaluates_is_left_as_it_is():
  inner = _Builder()
  builder = WatchedBuilder(inner, lambda: pytest.fail('reported'))
  actor = builder.make_actor(
    random_key='key', policy='policy', environment_spec='spec', variable_source='source'
  )
  assert actor is inner.actor


def test_everything_else_is_the_builders():
  builder = WatchedBuilder(_Builder(), lambda: None)
  assert builder.make_learner() == 'learner'
  assert builder.config == 'config'
  assert copy.copy(builder).config == 'config'
