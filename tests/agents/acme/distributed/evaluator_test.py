from __future__ import annotations

import pytest

pytest.importorskip('acme')

from agents.acme import compat
from agents.acme.distributed.evaluator import PeriodicEvaluator
from tests.agents.acme import toy_agent


class _Actor(toy_agent.Actor):
  """Lets the training go on by some steps in each of its own, and may be cut off."""

  def __init__(self, counter):
    super().__init__(0.0, None)
    self._counter = counter
    self.steps_until_cut = None

  def select_action(self, observation):
    self._counter.increment(actor_steps=7)
    if self.steps_until_cut is not None:
      self.steps_until_cut -= 1
      if self.steps_until_cut < 0:
        raise ArithmeticError
    return super().select_action(observation)


def _make(every=1000, last_step=100_000):
  log, counter = toy_agent.Log(), compat.Counter()
  actor = _Actor(counter)
  evaluator = PeriodicEvaluator(
    toy_agent.Environment(episode_length=10),
    actor,
    counter,
    log('evaluator'),
    every=every,
    num_episodes=3,
    last_step=last_step,
  )
  return evaluator, actor, counter, log


def test_an_evaluation_has_the_steps_and_the_params_of_its_beginning():
  evaluator, actor, counter, log = _make()
  counter.increment(actor_steps=2500)
  evaluator.evaluate()
  assert [row['actor_steps'] for _, row in log.rows] == [2500] * 3
  assert [row['episode_return'] for _, row in log.rows] == [10.0] * 3
  assert actor.num_updates == 1


def test_evaluations_are_due_whenever_so_many_steps_have_passed():
  evaluator, _, counter, log = _make(every=1000, last_step=5000)
  counter.increment(actor_steps=2500)
  assert evaluator.evaluate_if_due()
  # Three episodes of 10 steps meanwhile.
  assert counter.get_counts()['actor_steps'] == 2710
  assert not evaluator.evaluate_if_due()
  counter.increment(actor_steps=289)
  assert not evaluator.evaluate_if_due()
  counter.increment(actor_steps=1)
  assert evaluator.evaluate_if_due()
  assert [row['actor_steps'] for _, row in log.rows] == [2500] * 3 + [3000] * 3
  # The final one is not a matter of steps.
  counter.increment(actor_steps=2000)
  assert not evaluator.evaluate_if_due()


def test_an_evaluation_that_is_cut_off_leaves_nothing():
  evaluator, actor, _, log = _make()
  actor.steps_until_cut = 25
  with pytest.raises(ArithmeticError):
    evaluator.evaluate()
  assert not log.rows
  actor.steps_until_cut = None
  evaluator.evaluate()
  assert len(log.rows) == 3
