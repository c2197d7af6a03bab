"""The nodes that evaluate."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from typing import Any

import dm_env
import jax

from agents.acme import compat
from agents.acme.distributed import supervision
from agents.acme.distributed.counter import Stage, StageWatch, wait_for_stage

import acme  # isort: skip
from acme import core  # isort: skip

_POLL_SECONDS = 0.2
_STEPS = 'actor_steps'


class PeriodicEvaluator(compat.EnvironmentLoop):
  """Evaluates so many episodes with the same params each time that so many actor steps have been counted.

  What is logged has the actor steps that were counted before the first of these episodes. An evaluation that
  is cut off is not logged at all.

  Args:
    environment: of the evaluation.
    actor: which follows the learner.
    counter: the program's.
    logger: takes the episodes of each evaluation.
    every: actor steps from one evaluation to the next.
    num_episodes: of an evaluation.
    last_step: the budget; from then on there is but the final evaluation.
  """

  def __init__(
    self,
    environment: dm_env.Environment,
    actor: core.Actor,
    counter: Any,
    logger: Any,
    *,
    every: int,
    num_episodes: int,
    last_step: int,
  ):
    self._held = _HeldLogger(logger)
    super().__init__(
      environment,
      actor,
      compat.Counter(counter, 'evaluator', time_delta=supervision.SYNC_SECONDS),
      self._held,
      should_update=False,
    )
    self._followed = actor
    self._program_counter = counter
    self._every = every
    self._num_episodes = num_episodes
    self._last_step = last_step
    self._next = 0

  def evaluate_if_due(self) -> bool:
    """Evaluates if it is time to, and training is not over; returns whether it did."""
    step = self._steps()
    if not self._next <= step < self._last_step:
      return False
    self._evaluate(step)
    return True

  def evaluate(self) -> None:
    """Evaluates once, whatever the time."""
    self._evaluate(self._steps())

  def _evaluate(self, step: int) -> None:
    self._next = (step // self._every + 1) * self._every
    self._held.episodes = []
    self._followed.update(wait=True)
    self.run(num_episodes=self._num_episodes)
    self._held.release(step)

  def _steps(self) -> int:
    return int(self._program_counter.get_counts().get(_STEPS, 0))


class _HeldLogger:
  """Keeps the episodes of an evaluation until it is complete."""

  def __init__(self, logger: Any):
    self._logger = logger
    self.episodes: list[Mapping[str, Any]] = []

  def write(self, data: Mapping[str, Any]) -> None:
    """Takes the metrics of an episode."""
    self.episodes.append(data)

  def release(self, step: int) -> None:
    """Passes on what it keeps, as measured at one step of training."""
    for data in self.episodes:
      self._logger.write({**data, _STEPS: step})
    self.episodes = []

  def close(self) -> None:
    """Closes the logger behind."""
    self._logger.close()


class _CutOffError(Exception):
  """Training is over, so an evaluation on the way to it is of no more interest."""


class EvaluatorWorker:
  """Runs an evaluator, and at the end once more with the final params.

  That takes an environment loop, as the default evaluator is one: it is run by the episode, a
  `PeriodicEvaluator` by the evaluation. A worker of another kind runs as it is, until the program stops.

  Args:
    experiment: what the program runs.
    factory: makes the evaluator.
    name: of this evaluator.
    random_key: for the evaluator.
    learner: client of the learner.
    counter: client of the counter.
  """

  def __init__(
    self,
    experiment: Any,
    factory: Any,
    name: str,
    random_key: Any,
    learner: Any,
    counter: Any,
  ):
    self._experiment = experiment
    self._factory = factory
    self._name = name
    self._random_key = random_key
    self._learner = learner
    self._counter = counter
    self._final = False

  def run(self) -> None:
    """Evaluates."""
    supervision.run(self._work)

  def _work(self) -> None:
    stop = supervision.stop_event()
    counter = supervision.Remote(self._counter, stop)
    variables = supervision.RemoteVariables(supervision.Remote(self._learner, stop))
    settling = StageWatch(counter, Stage.SETTLE)
    actors: list[core.Actor] = []

    def check() -> None:
      supervision.check(stop)
      if not self._final and settling.reached():
        raise _CutOffError

    def make_actor(*args: Any, **kwargs: Any) -> Any:
      actors.append(self._experiment.builder.make_actor(*args, **kwargs))
      return supervision.StoppableActor(actors[-1], check)

    worker = self._factory(jax.numpy.asarray(self._random_key), variables, counter, make_actor)
    if not isinstance(worker, acme.EnvironmentLoop):
      counter.report(Stage.EVALUATE, self._name)
      worker.run()
    else:
      self._evaluate(worker, actors, counter, settling, stop)
      counter.report(Stage.EVALUATE, self._name)
    stop.wait()

  def _evaluate(
    self,
    loop: acme.EnvironmentLoop,
    actors: list[core.Actor],
    counter: Any,
    settling: StageWatch,
    stop: threading.Event,
  ) -> None:
    try:
      while not settling.reached():
        if isinstance(loop, PeriodicEvaluator):
          if not loop.evaluate_if_due():
            supervision.check(stop)
            stop.wait(_POLL_SECONDS)
        else:
          loop.run(num_episodes=1)
    except _CutOffError:
      pass
    wait_for_stage(counter, Stage.EVALUATE, stop)
    self._final = True
    if isinstance(loop, PeriodicEvaluator):
      loop.evaluate()
    else:
      for actor in actors:
        actor.update(wait=True)
      loop.run(num_episodes=1)
