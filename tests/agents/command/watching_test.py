from __future__ import annotations

import copy

import pytest

from agents.command.watching import WatchedBuilder


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
