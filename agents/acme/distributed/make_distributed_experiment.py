"""Training in many processes or threads: the experiment as a Launchpad program."""

from __future__ import annotations

import functools
import itertools
import os
from typing import Any

import launchpad as lp
import numpy as np
import reverb

from agents.acme import compat, rate_limits
from agents.acme.distributed import actor as actor_lib
from agents.acme.distributed import counter as counter_lib
from agents.acme.distributed import evaluator as evaluator_lib
from agents.acme.distributed import learner as learner_lib
from agents.acme.distributed import replay as replay_lib
from agents.acme.experiment import ExperimentConfig, make_policy

from acme.utils import paths  # isort: skip


@compat.prefer_acme('acme.jax.experiments')
def make_distributed_experiment(
  experiment: ExperimentConfig[Any, Any, Any],
  num_actors: int,
  *,
  inference_server_config: Any = None,
  num_learner_nodes: int = 1,
  num_actors_per_node: int = 1,
  num_inference_servers: int = 1,
  multiprocessing_colocate_actors: bool = False,
  multithreading_colocate_learner_and_reverb: bool = False,
  make_snapshot_models: Any = None,
  name: str = 'agent',
  program: lp.Program | None = None,
  num_tasks_per_inference_server: int = 1,
  peers: learner_lib.Peers | None = None,
) -> lp.Program:
  """Makes a program that trains with many actors, for Launchpad to run as processes or threads.

  Its nodes are `replay`, `counter`, `learner`, `actor` and `evaluator`. The counter also ends the program:
  once the budget is spent the actors finish their episodes, the learner stops, the evaluators judge the final
  params, the learner saves them, and every node ends. When the program is stopped from outside episodes are
  cut off, and the learner saves.

  A checkpoint holds what one of `run_experiment` holds, and either goes on from the other's.

  Args:
    experiment: what to run.
    num_actors: actors to run, in all.
    inference_server_config: has to be None with this Acme, as the module that serves inference is missing.
    num_learner_nodes: learners to run, as processes that find each other by `jax.distributed` and make the
      same number of steps. Those beyond the first begin with its state, and keep equal to it if they average
      over the devices of all, as ours do. The actors fetch from all.
    num_actors_per_node: actors in one node, as threads.
    num_inference_servers: of no use without `inference_server_config`.
    multiprocessing_colocate_actors: has to be False, as the installed Launchpad cannot do it.
    multithreading_colocate_learner_and_reverb: whether learner and replay share a node, as threads.
    make_snapshot_models: has to be None with this Acme, as the module that makes snapshots is missing.
    name: of the program.
    program: where to add the nodes; by default a new program.
    num_tasks_per_inference_server: of no use without `inference_server_config`.
    peers: where several hosts run a program like this one, each with actors, replay and budget of its own,
      and their learners learn as one: they begin with the state of the first and average over the devices of
      all. The head of Acme has no such argument.

  Returns:
    The program.

  Raises:
    ValueError: a number is not positive, learner and replay are to share a node that there is more than one
      of, or there are several learners on each of several hosts.
    NotImplementedError: something is asked for that the installed Acme or Launchpad lacks.
  """
  del num_inference_servers, num_tasks_per_inference_server
  for argument, value in (
    ('num_actors', num_actors),
    ('num_learner_nodes', num_learner_nodes),
    ('num_actors_per_node', num_actors_per_node),
  ):
    if value < 1:
      raise ValueError(f'{argument} must be at least 1, got {value}.')
  if multithreading_colocate_learner_and_reverb and num_learner_nodes > 1:
    raise ValueError(
      'multithreading_colocate_learner_and_reverb needs num_learner_nodes=1, since replay can share a node '
      f'with one learner only, got {num_learner_nodes}.'
    )
  if peers is not None and num_learner_nodes > 1:
    raise ValueError(
      f'peers needs num_learner_nodes=1, one learner in each of the {peers.number} programs, got '
      f'{num_learner_nodes}: one learner can use all devices of its host.'
    )
  for argument, value, module in (
    ('inference_server_config', inference_server_config, 'acme.jax.inference_server'),
    ('make_snapshot_models', make_snapshot_models, 'acme.jax.snapshotter'),
  ):
    if value is not None:
      raise NotImplementedError(
        f'{argument} needs {module}, which dm-acme 0.4.0 does not have: leave it out, or install the head of '
        'google-deepmind/acme.'
      )
  if multiprocessing_colocate_actors:
    raise NotImplementedError(
      'multiprocessing_colocate_actors needs a MultiProcessingColocation that works, which the installed '
      'Launchpad does not have: leave it out, and num_actors_per_node=1 makes a process of each actor.'
    )

  directory = replay_directory = minutes = None
  if experiment.checkpointing is not None:
    # Here and not in the nodes, which have to agree on it.
    config = experiment.checkpointing
    process_path = functools.partial(paths.process_path, config.directory, add_uid=config.add_uid)
    directory = os.path.abspath(process_path('checkpoints'))
    minutes = config.replay_checkpointing_time_delta_minutes
    if minutes is not None:
      replay_directory = os.path.abspath(process_path('replay'))

  evaluators = experiment.get_evaluator_factories()
  num_evaluators = max(1, len(evaluators))
  learner_key, *keys = _keys(experiment.seed, 1 + num_actors + num_evaluators)
  if peers is not None and peers.rank > 0:
    # The learners share their key, and nobody else does.
    _, *keys = _keys(experiment.seed, 1 + num_actors + num_evaluators, peers.rank)
  actor_keys, evaluator_keys = keys[:num_actors], keys[num_actors:]

  program = program or lp.Program(name=name)
  participants: dict[int, float] = {
    counter_lib.Stage.TRAIN: num_actors if experiment.max_num_actor_steps is not None else float('inf'),
    counter_lib.Stage.SETTLE: num_learner_nodes,
    counter_lib.Stage.EVALUATE: len(evaluators),
    counter_lib.Stage.SAVE: 1 if replay_directory is None else 2,
  }
  counter = program.add_node(
    lp.CourierNode(
      counter_lib.ProgramCounter,
      {int(stage): n for stage, n in participants.items()},
      directory,
    ),
    label='counter',
  )
  replay_node = replay_lib.ReplayNode(
    functools.partial(_make_tables, experiment),
    counter,
    functools.partial(experiment.logger_factory, 'replay', 'actor_steps', 0),
    replay_directory,
    minutes,
  )
  replay = replay_node.create_handle()

  coordinator = lp.Address('jax')

  def make_learner_node(index: int) -> lp.CourierNode:
    in_program = learner_lib.Peers(coordinator, num_learner_nodes, index)
    return lp.CourierNode(
      learner_lib.LearnerWorker,
      experiment,
      f'learner {index}',
      learner_key,
      replay,
      counter,
      directory if index == 0 else None,
      index == 0,
      in_program if num_learner_nodes > 1 else peers,
    )

  learner_node = make_learner_node(0)
  if num_learner_nodes > 1:
    learner_node.allocate_address(coordinator)
  learners = [learner_node.create_handle()]
  if multithreading_colocate_learner_and_reverb:
    program.add_node(lp.MultiThreadingColocation([learner_node, replay_node]), label='learner')
  else:
    program.add_node(replay_node, label='replay')
    with program.group('learner'):
      program.add_node(learner_node)
      for i in range(1, num_learner_nodes):
        learners.append(program.add_node(make_learner_node(i)))

  sources = itertools.cycle(learners)
  actor_nodes = [
    lp.PyClassNode(actor_lib.ActorWorker, experiment, actor_keys[i], replay, next(sources), counter, i)
    for i in range(num_actors)
  ]
  with program.group('actor'):
    for first in range(0, num_actors, num_actors_per_node):
      nodes = actor_nodes[first : first + num_actors_per_node]
      program.add_node(nodes[0] if len(nodes) == 1 else lp.MultiThreadingColocation(nodes))

  for i, factory in enumerate(evaluators):
    node = lp.PyClassNode(
      evaluator_lib.EvaluatorWorker,
      experiment,
      factory,
      f'evaluator {i}',
      evaluator_keys[i],
      learners[0],
      counter,
    )
    program.add_node(node, label='evaluator')
  return program


def _make_tables(experiment: ExperimentConfig[Any, Any, Any]) -> list[reverb.Table]:
  environment_spec = learner_lib.find_environment_spec(experiment)
  networks = experiment.network_factory(environment_spec)
  policy = make_policy(experiment, networks, environment_spec, evaluation=False)
  tables = experiment.builder.make_replay_tables(environment_spec, policy)
  if experiment.max_num_actor_steps is not None:
    rate_limits.check_reachable(tables, experiment.max_num_actor_steps)
  return tables


def _keys(seed: int, number: int, *path: int) -> list[np.ndarray]:
  """Returns random keys without JAX, which would take the accelerator's memory from the learner."""
  state = np.random.SeedSequence(seed % 2**64, spawn_key=path).generate_state(2 * number)
  return list(state.reshape(number, 2))
