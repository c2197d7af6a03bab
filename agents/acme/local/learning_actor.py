"""An actor whose update makes the learner catch up."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import dm_env
import reverb

from agents.acme import (
  compat,  # noqa: F401  (mends Acme before it is used)
  rate_limits,
)
from agents.acme.checkpointing import Checkpointer
from agents.acme.prefetch import PrefetchingIterator
from agents.signals import Interrupts

from acme import core  # isort: skip

_POLL_SECONDS = 0.01


class LearningActor(core.Actor):
  """Acts, and after each step lets the learner take as many batches as replay gives out.

  It waits for a batch only if the tables have a backlog of samples for the learner; otherwise the
  next step is taken while the batch is being read. Where no table sets a ratio of samples to inserts
  the learner takes at most one batch a step.

  Args:
    actor: selects actions and records what it observes.
    learner: takes exactly one batch in each of its steps.
    batches: what the learner takes them from.
    tables: the replay tables behind `batches`.
    backlogs: for each table, the outstanding samples from which on to wait for the learner.
    interrupts: keeps Ctrl-C from cutting an update of the learner in two.
    checkpointer: is asked to save after each step.
    starvation_seconds: how long to wait for a batch that the tables have the samples for.
  """

  def __init__(
    self,
    actor: core.Actor,
    learner: core.Learner,
    batches: PrefetchingIterator[Any],
    tables: Sequence[reverb.Table],
    backlogs: Sequence[float],
    interrupts: Interrupts,
    checkpointer: Checkpointer | None = None,
    *,
    starvation_seconds: float = 60.0,
  ):
    self._actor = actor
    self._learner = learner
    self._batches = batches
    self._limited_tables = [
      (table, int(backlog)) for table, backlog in zip(tables, backlogs, strict=True) if backlog < math.inf
    ]
    self._interrupts = interrupts
    self._checkpointer = checkpointer
    self._max_polls = math.ceil(starvation_seconds / _POLL_SECONDS)

  def select_action(self, observation: Any) -> Any:
    """Returns the actor's action."""
    return self._actor.select_action(observation)

  def observe_first(self, timestep: dm_env.TimeStep) -> None:
    """Has the actor record the first timestep of an episode."""
    self._actor.observe_first(timestep)

  def observe(self, action: Any, next_timestep: dm_env.TimeStep) -> None:
    """Has the actor record a step."""
    self._actor.observe(action, next_timestep)

  def update(self, wait: bool = False) -> None:
    """Lets the learner catch up, gives the actor its newest params, and saves if it is time to.

    Args:
      wait: whether the actor waits for the params.

    Raises:
      RuntimeError: the learner took other than one batch in a step, or no batch arrived though the
        tables have samples.
    """
    if self._learn():
      self._actor.update(wait)
    if self._checkpointer is not None:
      self._checkpointer.save()

  def _learn(self) -> bool:
    learned = False
    polls = 0
    while True:
      if self._batches.ready():
        self._step_learner()
        learned = True
        polls = 0
        if not self._limited_tables:
          return True
      elif not self._limited_tables or not all(
        table.can_sample(backlog) for table, backlog in self._limited_tables
      ):
        return learned
      elif polls == self._max_polls:
        raise RuntimeError(
          f'No batch has arrived for {polls * _POLL_SECONDS:g} seconds, though the replay tables have '
          'samples: check which table make_dataset_iterator reads. '
          + '; '.join(rate_limits.describe(table.info) for table, _ in self._limited_tables)
        )
      else:
        self._batches.wait(_POLL_SECONDS)
        polls += 1

  def _step_learner(self) -> None:
    with self._batches.taking_one('run_experiment'), self._interrupts.deferred():
      self._learner.step()
