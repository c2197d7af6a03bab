"""Runs an agent as a Launchpad program on this machine, and leaves what a local run leaves."""

from __future__ import annotations

import dataclasses
import os
from pathlib import Path
from typing import Any

import dm_env
import jax

from agents import checkpointing, experiments
from agents.command import launching
from agents.command.registry import Agent
from agents.command.remote_logging import Receiver, RemoteLogger
from agents.command.reporting import Report, learner_period
from agents.command.runner import Runner
from agents.command.settings import Settings
from agents.nodes.evaluator import PeriodicEvaluator
from agents.nodes.learner import Peers
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
