"""Runs an agent through Acme, in this process or as a Launchpad program on this machine."""

from __future__ import annotations

import dataclasses
import functools
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import dm_env
import jax

from agents import environments, experiments
from agents.acme import checkpointing
from agents.acme.distributed import launching
from agents.acme.distributed.evaluator import PeriodicEvaluator
from agents.acme.distributed.learner import Peers
from agents.acme.distributed.remote_logging import Receiver, RemoteLogger
from agents.acme.experiment import make_environment_spec
from agents.command.options import Agent
from agents.command.reporting import Logger, Report, device_name, learner_period
from agents.command.settings import RunError, Settings
from agents.records.metrics import Evaluation

NODES_DIRECTORY = 'nodes'
# So that many nodes don't fight for few cores. What learns is left as it is.
_ONE_THREAD = {
  'OMP_NUM_THREADS': '1',
  'OPENBLAS_NUM_THREADS': '1',
  'MKL_NUM_THREADS': '1',
  'TF_NUM_INTRAOP_THREADS': '1',
  'TF_NUM_INTEROP_THREADS': '1',
}
_XLA_ONE_THREAD = '--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1'


class Runner:
  """A run that is ready to start; making it writes nothing.

  Args:
    settings: of the run; `config` holds every option of the agent.
    agent: what the settings name.
    environment: what the settings name, for its spec.

  Raises:
    ValueError: the agent doesn't fit the environment, or its replay limits could never be met.
  """

  def __init__(self, settings: Settings, agent: Agent, environment: dm_env.Environment):
    self._settings = settings
    self._builder = agent.make_builder(agent.config(**settings.config))
    self._network_factory = functools.partial(agent.make_networks, **settings.networks)
    self._make_environment = functools.partial(_make_environment, settings.env)
    self._spec = make_environment_spec(environment)
    policy = self._builder.make_policy(self._network_factory(self._spec), self._spec)
    self._builder.make_replay_tables(self._spec, policy)

  @property
  def replay_bytes(self) -> int:
    """Memory that replay will take at the most."""
    return self._builder.projected_replay_bytes(self._spec, self._settings.steps)

  def _make_experiment(
    self, directory: Path, builder: Any, logger_factory: Any, replay_minutes: Any = None
  ) -> experiments.ExperimentConfig[Any, Any, Any]:
    """Returns the run as an experiment.

    Args:
      directory: takes the checkpoints.
      builder: of the agent, as it is or wrapped.
      logger_factory: makes the loggers.
      replay_minutes: minutes between checkpoints of replay; None for none.
    """
    settings = self._settings
    # Acme declares whole minutes, and takes any number of them.
    minutes: Any = settings.checkpoint_minutes
    return experiments.ExperimentConfig(
      builder=builder,
      network_factory=self._network_factory,
      environment_factory=self._make_environment,
      max_num_actor_steps=settings.steps,
      seed=settings.seed,
      environment_spec=self._spec,
      logger_factory=logger_factory,
      checkpointing=experiments.CheckpointingConfig(
        directory=str(directory),
        add_uid=False,
        time_delta_minutes=minutes,
        replay_checkpointing_time_delta_minutes=replay_minutes,
      ),
    )


# Not a method, so that nodes of a program are sent no more than the name.
def _make_environment(name: str, seed: int) -> dm_env.Environment:
  return environments.make(name, seed=int(seed))


class LocalRunner(Runner):
  """A run in this process; its arguments and errors are those of `Runner`."""

  @property
  def device(self) -> str:
    """What the learner runs on."""
    return device_name()

  def run(self, directory: Path) -> Evaluation:
    """Trains to the end, from the checkpoint in the directory if there is one.

    Args:
      directory: takes logs, curve and checkpoints.

    Returns:
      The last evaluation.
    """
    settings = self._settings
    report = Report(settings, directory)

    def logger_factory(label: str, steps_key: str | None = None, task_instance: int = 0) -> Logger:
      del steps_key, task_instance
      return report.make_logger(label)

    builder = WatchedBuilder(self._builder, report.progress.advance)
    experiment = self._make_experiment(directory, builder, logger_factory)
    try:
      experiments.run_experiment(experiment, settings.eval_every, settings.num_eval_episodes)
    finally:
      report.close()
    return report.evaluations[-1]


class WatchedBuilder:
  """An agent's builder that reports each environment step of training.

  An actor that trains is known by its adder; those that evaluate have none.

  Args:
    builder: of any agent.
    on_step: called after each environment step of training.
  """

  def __init__(self, builder: Any, on_step: Callable[[], None]):
    self._builder = builder
    self._on_step = on_step

  def make_actor(
    self,
    random_key: Any,
    policy: Any,
    environment_spec: Any,
    variable_source: Any = None,
    adder: Any = None,
  ) -> Any:
    """Makes the builder's actor, watched if it trains."""
    actor = self._builder.make_actor(random_key, policy, environment_spec, variable_source, adder)
    return actor if adder is None else _WatchedActor(actor, self._on_step)

  def __getattr__(self, name: str) -> Any:
    # Without this guard, copying a half-built object would recurse for ever.
    if name.startswith('_'):
      raise AttributeError(name)
    return getattr(self._builder, name)


class _WatchedActor:
  def __init__(self, actor: Any, on_step: Callable[[], None]):
    self.select_action = actor.select_action
    self.observe_first = actor.observe_first
    self.update = actor.update
    self._observe = actor.observe
    self._on_step = on_step

  def observe(self, action: Any, next_timestep: Any) -> None:
    self._observe(action, next_timestep)
    self._on_step()


class DistributedRunner(Runner):
  """A run of many nodes; its arguments are those of `Runner`.

  Raises:
    ValueError: as `Runner` does, and if its learners cannot work together or the installed Acme makes
      programs of its own.
  """

  def __init__(self, settings: Settings, agent: Agent, environment: dm_env.Environment):
    if experiments.make_distributed_experiment.__module__.startswith('acme.'):
      raise ValueError(
        '--runner=distributed works with dm-acme 0.4.0; with the head of Acme, launch '
        'acme.jax.experiments.make_distributed_experiment from a script of your own'
      )
    num_learners = settings.num_learner_nodes * settings.num_hosts
    if num_learners > 1:
      if settings.launch != 'local_mp':
        raise ValueError(
          f'{num_learners} learners need --launch=local_mp, since each needs a JAX of its own, got '
          f'--launch={settings.launch}'
        )
      if min(settings.num_learner_nodes, settings.num_hosts) > 1:
        raise ValueError(
          f'--num_learner_nodes={settings.num_learner_nodes} and --num_hosts={settings.num_hosts} do not go '
          'together: one learner can use all devices of its host, so leave out the first'
        )
      if settings.config['num_learner_devices'] == 1:
        raise ValueError(
          f'{num_learners} learners cannot share num_learner_devices=1: add '
          f'--config_overrides=num_learner_devices={num_learners}, or a multiple of it'
        )
    super().__init__(settings, agent, environment)

  @property
  def device(self) -> str:
    """What the run takes."""
    settings = self._settings
    kind = 'processes' if settings.launch == 'local_mp' else 'threads'
    return f'{settings.num_actors} actors in {kind} of their own'

  def run(self, directory: Path) -> Evaluation:
    """Trains to the end, from the checkpoint in the directory if there is one.

    Args:
      directory: takes logs, curve and checkpoints, and the output of the nodes in `nodes/`.

    Returns:
      The last evaluation.

    Raises:
      RunError: a node failed.
      KeyboardInterrupt: upon Ctrl-C or SIGTERM.
    """
    report = Report(self._settings, directory)
    report.resume_at(checkpointing.saved_steps(directory / 'checkpoints'))
    try:
      with Receiver(report.make_logger) as receiver:
        program = self._make_program(directory, receiver.address)
        launching.run(program, self._settings.launch, directory / NODES_DIRECTORY, _environment_variables())
    except launching.ProgramError as error:
      raise RunError(str(error)) from error
    finally:
      report.close()
    if not report.evaluations or report.evaluations[-1].step < self._settings.steps:
      # It was stopped by a signal that raises nothing.
      raise KeyboardInterrupt
    return report.evaluations[-1]

  def _make_program(self, directory: Path, address: str) -> Any:
    settings = self._settings
    period = learner_period(settings)
    make_environment = self._make_environment

    def make_logger(label: str, steps_key: str | None = None, task_instance: int = 0) -> RemoteLogger:
      del steps_key, task_instance
      return RemoteLogger(address, label, period if label in ('learner', 'replay') else 0)

    training = self._make_experiment(
      directory, self._builder, make_logger, settings.replay_checkpoint_minutes
    )

    def make_evaluator(random_key: Any, variable_source: Any, counter: Any, make_actor_fn: Any) -> Any:
      environment_key, actor_key = jax.random.split(random_key)
      environment = make_environment(int(jax.random.bits(environment_key, dtype='uint32')))
      spec = training.environment_spec
      policy = experiments.make_policy(training, training.network_factory(spec), spec, evaluation=True)
      return PeriodicEvaluator(
        environment,
        make_actor_fn(actor_key, policy, spec, variable_source),
        counter,
        make_logger('evaluator'),
        every=settings.eval_every,
        num_episodes=settings.num_eval_episodes,
        last_step=settings.steps,
      )

    experiment = dataclasses.replace(training, evaluator_factories=[make_evaluator])
    peers = None
    if settings.num_hosts > 1:
      assert settings.coordinator_address is not None
      peers = Peers(settings.coordinator_address, settings.num_hosts, settings.host_index)
    return experiments.make_distributed_experiment(
      experiment,
      settings.num_actors,
      num_learner_nodes=settings.num_learner_nodes,
      name=settings.agent,
      peers=peers,
    )


def _environment_variables() -> dict[str, dict[str, str]]:
  """What to set for each label of nodes: all but the learner take one thread each and no accelerator."""
  xla_flags = f'{os.environ.get("XLA_FLAGS", "")} {_XLA_ONE_THREAD}'.strip()
  small = {**_ONE_THREAD, 'XLA_FLAGS': xla_flags, 'JAX_PLATFORMS': 'cpu'}
  replay = {'JAX_PLATFORMS': 'cpu'}
  return {'actor': small, 'evaluator': small, 'counter': small, 'replay': replay}
