from __future__ import annotations

import json
import os
import subprocess
import sys
import textwrap

import numpy as np
import pytest

pytest.importorskip('acme')

from agents import experiments
from agents.acme import checkpointing
from agents.acme.distributed.learner import Peers
from tests.agents.acme import toy_agent

import launchpad as lp  # isort: skip

pytestmark = pytest.mark.skipif(toy_agent.AT_HEAD, reason='the head of Acme makes its own')


def _make(num_actors=2, **options):
  experiment = toy_agent.make_experiment(toy_agent.Builder(), toy_agent.Environment(), 100)
  return experiments.make_distributed_experiment(experiment, num_actors, **options)


@pytest.mark.parametrize(
  ('options', 'expected'),
  [
    ({}, {'counter': 1, 'replay': 1, 'learner': 1, 'actor': 5, 'evaluator': 1}),
    ({'num_actors_per_node': 2}, {'counter': 1, 'replay': 1, 'learner': 1, 'actor': 3, 'evaluator': 1}),
    ({'num_learner_nodes': 3}, {'counter': 1, 'replay': 1, 'learner': 3, 'actor': 5, 'evaluator': 1}),
    (
      {'multithreading_colocate_learner_and_reverb': True},
      {'counter': 1, 'learner': 1, 'actor': 5, 'evaluator': 1},
    ),
  ],
)
def test_a_program_has_these_nodes(options, expected):
  program = _make(num_actors=5, name='toy', **options)
  assert program.name == 'toy'
  assert {label: len(nodes) for label, nodes in program.groups.items()} == expected


def test_nodes_are_added_to_a_program_that_exists():
  program = lp.Program('mine')
  assert _make(program=program) is program
  assert 'learner' in program.groups


@pytest.mark.parametrize(
  ('options', 'error', 'message'),
  [
    ({'num_actors': 0}, ValueError, 'num_actors must be at least 1, got 0'),
    ({'num_learner_nodes': 0}, ValueError, 'num_learner_nodes must be at least 1, got 0'),
    ({'num_actors_per_node': 0}, ValueError, 'num_actors_per_node must be at least 1, got 0'),
    (
      {'num_learner_nodes': 2, 'multithreading_colocate_learner_and_reverb': True},
      ValueError,
      'needs num_learner_nodes=1, .* got 2',
    ),
    (
      {'num_learner_nodes': 2, 'peers': Peers('localhost:1', 2, 0)},
      ValueError,
      'peers needs num_learner_nodes=1, one learner in each of the 2 programs, got 2',
    ),
    ({'inference_server_config': object()}, NotImplementedError, r'needs acme\.jax\.inference_server'),
    ({'make_snapshot_models': print}, NotImplementedError, r'needs acme\.jax\.snapshotter'),
    ({'multiprocessing_colocate_actors': True}, NotImplementedError, 'num_actors_per_node=1 makes a process'),
  ],
)
def test_what_cannot_be_made_is_refused(options, error, message):
  with pytest.raises(error, match=message):
    _make(**options)


def test_programs_whose_learners_are_peers_share_the_key_of_the_learner_only():
  programs = [_make(peers=Peers('localhost:1', 2, rank)) for rank in range(2)]

  def keys(program, label):
    return [
      tuple(value.tolist())
      for node in program.groups[label]
      for value in node._args
      if isinstance(value, np.ndarray)
    ]

  assert keys(programs[0], 'learner') == keys(programs[1], 'learner')
  for label, number in (('actor', 2), ('evaluator', 1)):
    assert len({*keys(programs[0], label), *keys(programs[1], label)}) == 2 * number
  assert keys(programs[0], 'actor') == keys(_make(), 'actor')


_PROGRAM = """
  import json, sys
  import launchpad as lp
  from absl import flags
  from agents import experiments
  from tests.agents.acme import toy_agent

  flags.FLAGS(['toy'])
  log = toy_agent.Log()
  class Builder(toy_agent.Builder):
    def make_learner(self, *args, **kwargs):
      learner = super().make_learner(*args, **kwargs)
      self.learners = getattr(self, 'learners', []) + [learner]
      if sys.argv[4] == 'full':
        learner.save = self.fail
      return learner

    def fail(self):
      raise OSError('the disk is full')

  builder = Builder()
  experiment = experiments.ExperimentConfig(
    builder=builder,
    network_factory=lambda spec: None,
    environment_factory=lambda seed: toy_agent.Environment(),
    max_num_actor_steps=int(sys.argv[2]),
    seed=0,
    logger_factory=log,
    checkpointing=experiments.CheckpointingConfig(directory=sys.argv[1], add_uid=False),
  )
  program = experiments.make_distributed_experiment(experiment, 3, **json.loads(sys.argv[3]))
  lp.launch(program, 'local_mt').wait()
  actors = [row for label, row in log.rows if label == 'actor']
  evaluations = [row for label, row in log.rows if label == 'evaluator']
  print(json.dumps({
    'logged': sum(row['episode_length'] for row in actors),
    'last': max((row['actor_steps'] for row in actors), default=0),
    'evaluated_at': evaluations[-1]['actor_steps'],
    'learned': [learner.num_steps for learner in builder.learners],
  }))
"""


def _launch_threads(directory, steps, options, disk='empty'):
  arguments = [str(directory), str(steps), json.dumps(options), disk]
  return subprocess.run(
    [sys.executable, '-c', textwrap.dedent(_PROGRAM), *arguments],
    capture_output=True,
    text=True,
    timeout=600,
    check=False,
    env={**os.environ, 'TF_CPP_MIN_LOG_LEVEL': '3'},
  )


def _run_threads(directory, steps, **options):
  result = _launch_threads(directory, steps, options)
  assert result.returncode == 0, result.stderr
  assert 'did not terminate in time' not in result.stdout
  assert 'did not end' not in result.stderr
  counts = checkpointing.read_newest(directory / 'checkpoints')['counter']['counts']
  return json.loads(result.stdout.splitlines()[-1]), counts


@pytest.mark.slow
def test_a_program_of_threads_ends_by_itself_and_is_resumed_where_it_was(tmp_path):
  first, counts = _run_threads(tmp_path, 300)
  # Whole episodes of 10 steps; when the budget is spent, two more may be under way.
  assert 300 <= counts['actor_steps'] <= 320
  assert first['logged'] == first['last'] == first['evaluated_at'] == counts['actor_steps']
  (learned,) = first['learned']
  assert learned == counts['learner_steps'] > 0
  assert [path.name for path in (tmp_path / 'checkpoints').iterdir()] == ['checkpoint-00000001.pickle']

  second, counts_after = _run_threads(
    tmp_path, 500, num_actors_per_node=2, multithreading_colocate_learner_and_reverb=True
  )
  assert 500 <= counts_after['actor_steps'] <= 520
  assert second['logged'] == counts_after['actor_steps'] - counts['actor_steps']
  assert second['learned'][0] == counts_after['learner_steps'] > learned
  assert [path.name for path in (tmp_path / 'checkpoints').iterdir()] == ['checkpoint-00000002.pickle']


@pytest.mark.slow
def test_a_program_whose_last_checkpoint_fails_fails(tmp_path):
  result = _launch_threads(tmp_path, 100, {}, disk='full')
  assert result.returncode != 0
  assert 'OSError: the disk is full' in result.stderr


_LEARNERS = """
  import pathlib, pickle, sys
  import gymnasium
  import jax
  from agents import environments, experiments, sac
  from agents.acme.distributed import launching

  directory = pathlib.Path(sys.argv[1])

  class Builder(sac.SACBuilder):
    def make_learner(self, *args, **kwargs):
      learner = super().make_learner(*args, **kwargs)
      step, steps = learner.step, []

      def recorded():
        step()
        steps.append(1)
        (directory / f'steps{jax.process_index()}').write_text(str(len(steps)))
        if len(steps) % 20 == 0:
          params = learner.save().training_state.params
          (directory / f'params{len(steps)}_{jax.process_index()}').write_bytes(pickle.dumps(params))

      learner.step = recorded
      return learner

  if __name__ == '__main__':
    config = sac.SACConfig(min_replay_size=50, batch_size=16, samples_per_insert=16, num_learner_devices=2)
    experiment = experiments.ExperimentConfig(
      builder=Builder(config),
      network_factory=lambda spec: sac.make_networks(spec, hidden_sizes=(16, 16)),
      environment_factory=lambda seed: environments.make('gymnasium:Pendulum-v1', seed=int(seed)),
      max_num_actor_steps=400,
      seed=0,
      checkpointing=experiments.CheckpointingConfig(directory=str(directory), add_uid=False),
    )
    program = experiments.make_distributed_experiment(experiment, 1, num_learner_nodes=2)
    launching.run(program, 'local_mp', directory / 'nodes', {})
"""


@pytest.mark.slow
def test_learners_in_processes_of_their_own_learn_as_one(tmp_path):
  result = subprocess.run(
    [sys.executable, '-c', textwrap.dedent(_LEARNERS), str(tmp_path)],
    capture_output=True,
    text=True,
    timeout=600,
    check=False,
    env={**os.environ, 'XLA_FLAGS': '--xla_force_host_platform_device_count=1'},
  )
  assert result.returncode == 0, result.stderr
  steps = [int((tmp_path / f'steps{i}').read_text()) for i in range(2)]
  counts = checkpointing.read_newest(tmp_path / 'checkpoints')['counter']['counts']
  # Both make the same number of steps, which are counted once.
  assert steps[0] == steps[1] == counts['learner_steps'] > 100
  paths = sorted(path.name for path in tmp_path.glob('params*'))
  assert len(paths) == 2 * (steps[0] // 20)
  for number in range(20, steps[0] + 1, 20):
    first, second = ((tmp_path / f'params{number}_{i}').read_bytes() for i in range(2))
    assert first == second
