"""The nodes that act."""

from __future__ import annotations

import contextlib
import functools
from typing import Any

import jax
import reverb

from agents.acme import compat
from agents.acme.distributed import replay as replay_lib
from agents.acme.distributed import supervision
from agents.acme.distributed.counter import Stage
from agents.acme.experiment import make_policy

from acme import specs  # isort: skip


class ActorWorker:
  """Acts by whole episodes until the program's budget is spent or the program stops.

  The steps of an episode are counted at its end, so those of one that is cut off are not.

  Args:
    experiment: what the program runs.
    random_key: for environment and actions.
    replay: client of the replay server.
    learner: client of the learner whose params to follow.
    counter: client of the counter.
    actor_id: number of this actor.
  """

  def __init__(
    self,
    experiment: Any,
    random_key: Any,
    replay: reverb.Client,
    learner: Any,
    counter: Any,
    actor_id: int,
  ):
    self._experiment = experiment
    self._random_key = random_key
    self._replay = replay
    self._learner = learner
    self._counter = counter
    self._actor_id = actor_id
    self._adder: Any = None

  def run(self) -> None:
    """Acts."""
    supervision.run(self._work, interrupt=self._close_adder)

  def _close_adder(self) -> None:
    # Wakes an actor that waits for room in replay.
    if close := getattr(self._adder, 'close', None):
      close()

  def _work(self) -> None:
    stop = supervision.stop_event()
    counter = supervision.Remote(self._counter, stop)
    with contextlib.ExitStack() as stack:
      self._act(stop, counter, stack)
    counter.report(Stage.TRAIN, f'actor {self._actor_id}')
    stop.wait()

  def _act(self, stop: Any, program_counter: Any, stack: contextlib.ExitStack) -> None:
    experiment = self._experiment
    counter = compat.Counter(program_counter, prefix='actor', time_delta=supervision.SYNC_SECONDS)
    steps_key = counter.get_steps_key()
    environment_key, actor_key = _split(self._random_key, program_counter.counts_at_start().get(steps_key, 0))
    environment = experiment.environment_factory(int(jax.random.bits(environment_key, dtype='uint32')))
    stack.callback(environment.close)
    environment_spec = specs.make_environment_spec(environment)
    networks = experiment.network_factory(environment_spec)
    policy = make_policy(experiment, networks, environment_spec, evaluation=False)
    replay_lib.wait_for_server(self._replay)
    self._adder = adder = experiment.builder.make_adder(self._replay, environment_spec, policy)
    variables = supervision.RemoteVariables(supervision.Remote(self._learner, stop))
    actor = experiment.builder.make_actor(actor_key, policy, environment_spec, variables, adder)
    logger = experiment.logger_factory('actor', steps_key, self._actor_id)
    loop = compat.EnvironmentLoop(
      environment,
      supervision.StoppableActor(actor, functools.partial(supervision.check, stop)),
      counter,
      logger,
      observers=experiment.observers,
    )
    budget = experiment.max_num_actor_steps
    steps = counter.get_counts().get(steps_key, 0)
    while budget is None or steps < budget:
      result = loop.run_episode()
      logger.write(result)
      steps = result[steps_key]
    if adder is not None:
      adder.reset()


def _split(random_key: Any, steps_before: float) -> tuple[jax.Array, jax.Array]:
  key = jax.numpy.asarray(random_key)
  if steps_before:
    # Or the episodes and the noise of the first steps would come again.
    key = jax.random.fold_in(key, int(steps_before))
  environment_key, actor_key = jax.random.split(key)
  return environment_key, actor_key
