"""Training in one process: environment, replay and learner, in step."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from typing import Any

import dm_env
import jax
import reverb
from absl import logging

from agents.acme import compat, rate_limits
from agents.acme.checkpointing import make_checkpointer
from agents.acme.experiment import ExperimentConfig, make_policy
from agents.acme.local.learning_actor import LearningActor
from agents.acme.prefetch import PrefetchingIterator
from agents.signals import Interrupts

from acme import specs  # isort: skip
from acme.utils import paths  # isort: skip

_CLOSING_SECONDS = 10.0


@compat.prefer_acme('acme.jax.experiments')
def run_experiment(
  experiment: ExperimentConfig[Any, Any, Any],
  eval_every: int = 100,
  num_eval_episodes: int = 1,
) -> None:
  """Trains an agent in this process, and evaluates it before, meanwhile and after.

  The environment is stepped by whole episodes until the budget is spent. After each step the learner
  takes as many batches as the rate limiters of the replay tables give out; a thread reads ahead.
  Evaluation has an environment of its own, so that it leaves training as it is.

  Checkpoints hold the learner and the counts, but not replay, which is filled anew by an experiment
  that is resumed; its environment and actor go on with random numbers that depend on the steps made.
  The last checkpoint is made at the end, or upon Ctrl-C, when the steps of the episode that is cut off
  are not counted.

  Args:
    experiment: what to run.
    eval_every: actor steps from one evaluation to the next.
    num_eval_episodes: episodes of each evaluation; 0 for no evaluation.

  Raises:
    ValueError: `eval_every` is not positive, or a rate limiter would never let learning start within
      the steps that are left.
    RuntimeError: the learner takes other than one batch a step, or no batch arrives though the tables
      have samples.
    KeyboardInterrupt: upon Ctrl-C.
  """
  if eval_every < 1:
    raise ValueError(f'eval_every must be at least 1, got {eval_every}.')
  builder = experiment.builder
  learner_key, key = jax.random.split(jax.random.PRNGKey(experiment.seed))
  actor_key, eval_actor_key, eval_environment_key = jax.random.split(key, 3)

  with contextlib.ExitStack() as stack:

    def make_environment(seed: int) -> dm_env.Environment:
      environment = experiment.environment_factory(seed)
      stack.callback(environment.close)
      return environment

    eval_environment = make_environment(_uint32(eval_environment_key))
    environment_spec = experiment.environment_spec or specs.make_environment_spec(eval_environment)
    networks = experiment.network_factory(environment_spec)
    policy = make_policy(experiment, networks, environment_spec, evaluation=False)

    tables = builder.make_replay_tables(environment_spec, policy)
    rate_limits.check_reachable(tables, experiment.max_num_actor_steps)
    backlogs = [rate_limits.tolerated_backlog(table) for table in tables]
    tables = rate_limits.unblock_inserts(tables)
    server = reverb.Server(tables)
    stack.callback(server.stop)
    client = reverb.Client(f'localhost:{server.port}')
    batches = PrefetchingIterator(builder.make_dataset_iterator(client))
    stack.callback(_stop_reading, batches, client, tables)

    counter = compat.Counter(time_delta=0.0)
    learner = builder.make_learner(
      random_key=learner_key,
      networks=networks,
      dataset=batches,
      logger_fn=experiment.logger_factory,
      environment_spec=environment_spec,
      replay_client=client,
      counter=compat.Counter(counter, prefix='learner', time_delta=0.0),
    )
    checkpointer = None
    if experiment.checkpointing is not None:
      saved = {'learner': learner, 'counter': counter}
      config = experiment.checkpointing
      directory = paths.process_path(config.directory, 'checkpoints', add_uid=config.add_uid)
      checkpointer = make_checkpointer(config, saved, directory)
      checkpointer.restore()
    actor_counter = compat.Counter(counter, prefix='actor', time_delta=0.0)
    steps_before = int(counter.get_counts().get(actor_counter.get_steps_key(), 0))
    num_steps = experiment.max_num_actor_steps - steps_before
    seed = experiment.seed
    if steps_before:
      if num_steps > 0:
        rate_limits.check_reachable(tables, num_steps)
      # Or the episodes and the noise of the first steps would come again.
      actor_key, environment_key = jax.random.split(jax.random.fold_in(actor_key, steps_before))
      seed = _uint32(environment_key)
    environment = make_environment(seed)

    adder = builder.make_adder(client, environment_spec, policy)
    if adder is not None:
      stack.callback(adder.reset)
    actor = builder.make_actor(actor_key, policy, environment_spec, variable_source=learner, adder=adder)
    interrupts = stack.enter_context(Interrupts())
    actor = LearningActor(actor, learner, batches, tables, backlogs, interrupts, checkpointer)

    def make_loop(
      label: str, environment: dm_env.Environment, actor: Any, counter: compat.Counter
    ) -> compat.EnvironmentLoop:
      logger = experiment.logger_factory(label, counter.get_steps_key(), 0)
      return compat.EnvironmentLoop(environment, actor, counter, logger, observers=experiment.observers)

    train_loop = make_loop('actor', environment, actor, actor_counter)
    if num_eval_episodes:
      eval_policy = make_policy(experiment, networks, environment_spec, evaluation=True)
      eval_actor = builder.make_actor(eval_actor_key, eval_policy, environment_spec, variable_source=learner)
      eval_counter = compat.Counter(counter, prefix='evaluator', time_delta=0.0)
      eval_loop = make_loop('evaluator', eval_environment, eval_actor, eval_counter)
    else:
      eval_every = max(1, num_steps)

    def evaluate() -> None:
      if num_eval_episodes:
        eval_actor.update(wait=True)
        eval_loop.run(num_episodes=num_eval_episodes)

    def train_and_evaluate() -> None:
      steps = 0
      while steps < num_steps:
        evaluate()
        chunk = min(eval_every, num_steps - steps)
        done = train_loop.run(num_steps=chunk)
        steps += done
        if done < chunk:
          # Inside a Launchpad program the loop ends early when the program is told to stop.
          return
      evaluate()

    try:
      train_and_evaluate()
    except KeyboardInterrupt:
      if checkpointer is not None:
        with interrupts.deferred():
          checkpointer.save(force=True)
      raise
    if checkpointer is not None:
      checkpointer.save(force=True)


def _uint32(key: jax.Array) -> int:
  return int(jax.random.bits(key, dtype='uint32'))


def _stop_reading(
  batches: PrefetchingIterator[Any], client: reverb.Client, tables: Sequence[reverb.Table]
) -> None:
  # The thread is told to end only once it cannot be waiting inside Reverb, see satisfy_samplers.
  satisfied = rate_limits.satisfy_samplers(client, tables, _CLOSING_SECONDS)
  if not (batches.close(_CLOSING_SECONDS if satisfied else 0.0)):
    logging.warning('The thread that reads replay could not be ended, and keeps its memory.')
