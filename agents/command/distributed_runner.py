"""Runs an agent as a Launchpad program on this machine, and leaves what a local run leaves."""

from __future__ import annotations

import dataclasses
import functools
import os
from pathlib import Path
from typing import Any

import dm_env
import jax

from agents import checkpointing, environments, experiments
from agents.command import launching
from agents.command.metrics import Evaluation
from agents.command.registry import Agent
from agents.command.remote_logging import Receiver, RemoteLogger
from agents.command.reporting import Report, learner_period
from agents.command.settings import Settings
from agents.nodes.evaluator import PeriodicEvaluator

from acme import specs  # isort: skip

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


class DistributedRunner:
  """A run of many nodes that is ready to start; making it writes nothing.

  Args:
    settings: of the run; `config` holds every option of the agent.
    agent: what the settings name.
    environment: what the settings name, for its spec.

  Raises:
    ValueError: the agent doesn't fit the environment, its replay limits could never be met, its learners
      cannot work together, or the installed Acme makes programs of its own.
  """

  def __init__(self, settings: Settings, agent: Agent, environment: dm_env.Environment):
    if experiments.make_distributed_experiment.__module__.startswith('acme.'):
      raise ValueError(
        '--runner=distributed works with dm-acme 0.4.0; with the head of Acme, launch '
        'acme.jax.experiments.make_distributed_experiment from a script of your own'
      )
    if settings.num_learner_nodes > 1:
      if settings.launch != 'local_mp':
        raise ValueError(
          f'--num_learner_nodes={settings.num_learner_nodes} needs --launch=local_mp, since each learner '
          f'needs a JAX of its own, got --launch={settings.launch}'
        )
      if settings.config['num_learner_devices'] == 1:
        raise ValueError(
          f'{settings.num_learner_nodes} learners cannot share num_learner_devices=1: add '
          f'--config_overrides=num_learner_devices={settings.num_learner_nodes}, or a multiple of it'
        )
    self._settings = settings
    self._builder = agent.make_builder(agent.config(**settings.config))
    self._network_factory = functools.partial(agent.make_networks, **settings.networks)
    self._spec = specs.make_environment_spec(environment)
    policy = self._builder.make_policy(self._network_factory(self._spec), self._spec)
    self._builder.make_replay_tables(self._spec, policy)

  @property
  def device(self) -> str:
    """What the run takes."""
    settings = self._settings
    kind = 'processes' if settings.launch == 'local_mp' else 'threads'
    return f'{settings.num_actors} actors in {kind} of their own'

  @property
  def replay_bytes(self) -> int:
    """Memory that replay will take at the most."""
    return self._builder.projected_replay_bytes(self._spec, self._settings.steps)

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
    states = checkpointing.read_newest(directory / 'checkpoints') or {'counter': {'counts': {}}}
    report = Report(self._settings, directory)
    report.resume_at(int(states['counter']['counts'].get('actor_steps', 0)))
    try:
      with Receiver(report) as receiver:
        program = self._make_program(directory, receiver.address)
        launching.run(program, self._settings.launch, directory / NODES_DIRECTORY, _environment_variables())
    finally:
      report.close()
    if not report.evaluations or report.evaluations[-1].step < self._settings.steps:
      # It was stopped by a signal that raises nothing.
      raise KeyboardInterrupt
    return report.evaluations[-1]

  def _make_program(self, directory: Path, address: str) -> Any:
    settings = self._settings
    period = learner_period(settings)

    def make_environment(seed: int) -> dm_env.Environment:
      return environments.make(settings.env, seed=int(seed))

    def make_logger(label: str, steps_key: str | None = None, task_instance: int = 0) -> RemoteLogger:
      del steps_key, task_instance
      return RemoteLogger(address, label, period if label in ('learner', 'replay') else 0)

    # Acme declares whole minutes, and takes any number of them.
    minutes: Any = settings.checkpoint_minutes
    replay_minutes: Any = settings.replay_checkpoint_minutes
    training: experiments.ExperimentConfig[Any, Any, Any] = experiments.ExperimentConfig(
      builder=self._builder,
      network_factory=self._network_factory,
      environment_factory=make_environment,
      max_num_actor_steps=settings.steps,
      seed=settings.seed,
      environment_spec=self._spec,
      logger_factory=make_logger,
      checkpointing=experiments.CheckpointingConfig(
        directory=str(directory),
        add_uid=False,
        time_delta_minutes=minutes,
        replay_checkpointing_time_delta_minutes=replay_minutes,
      ),
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
    return experiments.make_distributed_experiment(
      experiment,
      settings.num_actors,
      num_learner_nodes=settings.num_learner_nodes,
      name=settings.agent,
    )


def _environment_variables() -> dict[str, dict[str, str]]:
  """What to set for each label of nodes: all but the learner take one thread each and no accelerator."""
  xla_flags = f'{os.environ.get("XLA_FLAGS", "")} {_XLA_ONE_THREAD}'.strip()
  small = {**_ONE_THREAD, 'XLA_FLAGS': xla_flags, 'JAX_PLATFORMS': 'cpu'}
  replay = {'JAX_PLATFORMS': 'cpu'}
  return {'actor': small, 'evaluator': small, 'counter': small, 'replay': replay}
