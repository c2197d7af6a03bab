from __future__ import annotations

import pathlib
import signal
import threading

import jax
import numpy as np
import pytest
from absl import flags

pytest.importorskip('acme')

from agents import experiments
from tests.agents.acme import toy_agent

import reverb  # isort: skip
from acme import types  # isort: skip

needs_ours = pytest.mark.skipif(toy_agent.AT_HEAD, reason='the head of Acme runs its own')


def _rows(experiment: experiments.ExperimentConfig, label: str) -> list[dict]:
  return [row for row_label, row in experiment.logger_factory.rows if row_label == label]


def _checkpoints(directory: pathlib.Path) -> list[str]:
  return sorted(str(path.relative_to(directory)) for path in directory.rglob('*.pickle'))


def test_ends_with_the_episode_in_which_the_budget_is_spent():
  builder, environment = toy_agent.Builder(), toy_agent.Environment(episode_length=10)
  experiment = toy_agent.make_experiment(builder, environment, 95)
  experiments.run_experiment(experiment, num_eval_episodes=0)
  assert environment.total_steps == 100
  assert [row['actor_steps'] for row in _rows(experiment, 'actor')] == list(range(10, 101, 10))
  assert not _rows(experiment, 'evaluator')


def test_evaluates_before_meanwhile_and_after():
  builder, environment = toy_agent.Builder(), toy_agent.Environment(episode_length=10)
  experiment = toy_agent.make_experiment(builder, environment, 100)
  experiments.run_experiment(experiment, eval_every=35, num_eval_episodes=2)
  # Chunks end with an episode, so they are 40, 40 and 20 steps long.
  evaluations = [row.get('actor_steps', 0) for row in _rows(experiment, 'evaluator')]
  assert evaluations == [0, 0, 40, 40, 80, 80, 100, 100]
  assert _rows(experiment, 'evaluator')[-1]['evaluator_episodes'] == 8
  assert [actor.policy for actor in builder.actors] == [0.5, 1.0]
  assert environment.closed


@pytest.mark.parametrize('batch_size', [1, 4, 30])
@pytest.mark.parametrize('samples_per_insert', [0.5, 4.0])
def test_learns_as_often_as_the_rate_limiter_says(samples_per_insert, batch_size):
  num_steps, min_size, error_buffer = 200, 20, 16.0
  builder = toy_agent.Builder(
    batch_size=batch_size,
    rate_limiter=lambda: reverb.rate_limiters.SampleToInsertRatio(samples_per_insert, min_size, error_buffer),
  )
  experiment = toy_agent.make_experiment(builder, toy_agent.Environment(), num_steps)
  experiments.run_experiment(experiment, num_eval_episodes=0)
  expected = samples_per_insert * (num_steps - min_size)
  # The balance is within its window, but for what was read ahead: one batch waits, one is in hand,
  # one is being put together, and another one's samples are on their way.
  learned = builder.learner.num_steps * batch_size
  assert expected - error_buffer - 4 * batch_size <= learned <= expected + error_buffer
  assert builder.learner.total == learned


def test_needs_no_parsed_flags():
  was_parsed = flags.FLAGS.is_parsed()
  flags.FLAGS.unparse_flags()
  try:
    experiments.run_experiment(
      toy_agent.make_experiment(toy_agent.Builder(), toy_agent.Environment(), 30), eval_every=30
    )
  finally:
    if was_parsed:
      flags.FLAGS.mark_as_parsed()


def test_the_same_seed_gives_the_same_learner():
  noise = []
  for _ in range(2):
    builder = toy_agent.Builder()
    experiments.run_experiment(
      toy_agent.make_experiment(builder, toy_agent.Environment(), 20), num_eval_episodes=0
    )
    noise.append(np.asarray(builder.learner.noise))
  np.testing.assert_array_equal(noise[0], noise[1])
  learner_key, _ = jax.random.split(jax.random.PRNGKey(0))
  np.testing.assert_array_equal(noise[0], np.asarray(jax.random.normal(learner_key, (3,))))


@needs_ours
@pytest.mark.parametrize('num_steps', [20, 200])
def test_leaves_no_thread_and_no_server(num_steps):
  before = set(threading.enumerate())
  builder, environment = toy_agent.Builder(), toy_agent.Environment()
  experiments.run_experiment(toy_agent.make_experiment(builder, environment, num_steps))
  assert set(threading.enumerate()) <= before
  assert environment.closed
  with pytest.raises((RuntimeError, reverb.errors.DeadlineExceededError)):
    builder.client.server_info(timeout=1)


@needs_ours
def test_leaves_no_thread_when_the_environment_fails():
  def fail(step: int) -> None:
    if step == 55:
      raise ArithmeticError('the simulator diverged')

  before = set(threading.enumerate())
  environment = toy_agent.Environment(on_step=fail)
  with pytest.raises(ArithmeticError, match='the simulator diverged'):
    experiments.run_experiment(toy_agent.make_experiment(toy_agent.Builder(), environment, 100))
  assert set(threading.enumerate()) <= before
  assert environment.closed


@needs_ours
def test_learns_once_a_step_where_the_table_sets_no_ratio():
  builder = toy_agent.Builder(rate_limiter=lambda: reverb.rate_limiters.MinSize(20))
  experiments.run_experiment(
    toy_agent.make_experiment(builder, toy_agent.Environment(), 200), num_eval_episodes=0
  )
  assert 0 < builder.learner.num_steps <= 200 - 20 + 1


@needs_ours
def test_a_finished_experiment_is_not_run_again(tmp_path):
  checkpointing = experiments.CheckpointingConfig(directory=str(tmp_path), add_uid=False)
  learners = []
  for _ in range(2):
    builder, environment = toy_agent.Builder(), toy_agent.Environment()
    experiment = toy_agent.make_experiment(builder, environment, 100, checkpointing=checkpointing)
    experiments.run_experiment(experiment, num_eval_episodes=0)
    learners.append(builder.learner)
  assert environment.total_steps == 0
  assert learners[0].num_steps == learners[1].num_steps > 0
  assert learners[0].total == learners[1].total
  assert _checkpoints(tmp_path) == ['checkpoints/checkpoint-00000002.pickle']


@needs_ours
def test_ctrl_c_saves_and_the_next_run_continues(tmp_path):
  checkpointing = experiments.CheckpointingConfig(directory=str(tmp_path), add_uid=False)

  def interrupt(step: int) -> None:
    if step == 125:
      signal.raise_signal(signal.SIGINT)

  first = toy_agent.Builder()
  experiment = toy_agent.make_experiment(
    first, toy_agent.Environment(on_step=interrupt), 300, checkpointing=checkpointing
  )
  with pytest.raises(KeyboardInterrupt):
    experiments.run_experiment(experiment, num_eval_episodes=0)
  assert _checkpoints(tmp_path) == ['checkpoints/checkpoint-00000001.pickle']

  second, environment = toy_agent.Builder(), toy_agent.Environment()
  experiment = toy_agent.make_experiment(second, environment, 300, checkpointing=checkpointing)
  experiments.run_experiment(experiment, num_eval_episodes=0)
  # Twelve episodes were counted; the five steps of the thirteenth are taken again.
  assert environment.total_steps == 180
  rows = _rows(experiment, 'actor')
  assert [row['actor_steps'] for row in rows] == list(range(130, 301, 10))
  # The learner goes on from what it had, and learns again once replay is filled anew.
  assert rows[0]['learner_steps'] == first.learner.num_steps
  assert rows[-1]['learner_steps'] == second.learner.num_steps > first.learner.num_steps
  np.testing.assert_array_equal(second.learner.noise, first.learner.noise)


@needs_ours
def test_saves_periodically_under_a_name_of_its_own(tmp_path):
  checkpointing = experiments.CheckpointingConfig(
    directory=str(tmp_path), time_delta_minutes=0, max_to_keep=3
  )
  experiment = toy_agent.make_experiment(
    toy_agent.Builder(), toy_agent.Environment(), 30, checkpointing=checkpointing
  )
  experiments.run_experiment(experiment, num_eval_episodes=0)
  # One after each step and one at the end, in a directory of this process.
  paths = [pathlib.Path(name) for name in _checkpoints(tmp_path)]
  assert [path.name for path in paths] == [f'checkpoint-000000{number}.pickle' for number in (29, 30, 31)]
  assert all(len(path.parts) == 3 and path.parts[1] == 'checkpoints' for path in paths)


@needs_ours
def test_refuses_limits_that_cannot_be_met_before_anything_runs():
  environment = toy_agent.Environment()
  experiment = toy_agent.make_experiment(toy_agent.Builder(), environment, 19)
  with pytest.raises(ValueError, match='before 20 inserts, but the experiment ends after 19 steps'):
    experiments.run_experiment(experiment)
  experiment = toy_agent.make_experiment(toy_agent.Builder(max_size=15), environment, 100)
  with pytest.raises(ValueError, match='holds at most 15 items'):
    experiments.run_experiment(experiment)
  assert environment.total_steps == 0
  assert environment.closed


@needs_ours
def test_refuses_a_learner_that_reads_ahead():
  builder = toy_agent.Builder(batches_per_step=2)
  with pytest.raises(RuntimeError, match='exactly one batch from its dataset, but it took 2'):
    experiments.run_experiment(toy_agent.make_experiment(builder, toy_agent.Environment(), 100))


@needs_ours
def test_refuses_to_evaluate_every_zero_steps():
  experiment = toy_agent.make_experiment(toy_agent.Builder(), toy_agent.Environment(), 100)
  with pytest.raises(ValueError, match='eval_every must be at least 1, got 0'):
    experiments.run_experiment(experiment, eval_every=0)


@needs_ours
def test_the_dataset_is_closed():
  class Dataset:
    closed = False

    def __init__(self, client: reverb.Client):
      self._samples = client.sample(toy_agent.TABLE, 10**9, emit_timesteps=False)

    def __iter__(self):
      for sample in self._samples:
        yield reverb.ReplaySample(sample.info, types.Transition(*sample.data))

    def close(self) -> None:
      type(self).closed = True

  builder = toy_agent.Builder(make_dataset=Dataset)
  experiments.run_experiment(toy_agent.make_experiment(builder, toy_agent.Environment(), 100))
  assert builder.learner.num_steps > 0
  assert Dataset.closed
