from __future__ import annotations

import shutil
import types

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from PIL import Image

from agents.anakin import AnakinConfig, Evaluation, Report, callbacks, environments, make_trainer, train
from agents.anakin.callbacks import curve
from agents.records import metrics, plotting
from sac_blocks import Algorithm, TrainingState
from tests.agents.anakin.counting_environment import counting
from tests.agents.anakin.trainer_test import assert_same

KEYS = jax.random.split(jax.random.key(1), 2)


def make_config(num_steps=96):
  return AnakinConfig(
    num_steps=num_steps,
    num_envs=2,
    batch_size=4,
    buffer_size=200,
    learning_starts=16,
    eval_every=32,
    num_eval_episodes=3,
  )


def make_environment():
  return environments.canonical_actions(environments.time_limit(environments.pendulum(), 5))


def make_algorithm(num_features=3):
  """A linear policy that learns nothing of use, but compiles fast and has many kinds of arrays."""
  optimizer = optax.adam(1e-2)

  def init(key):
    key, weight_key = jax.random.split(key)
    # Names with slashes as Haiku's, and an array of no elements.
    layer = {'w': jax.random.normal(weight_key, (num_features, 1)), 'none': jnp.zeros((0, 2), jnp.bfloat16)}
    params = {'policy': {'mlp/~/linear_0': layer}}
    return TrainingState(params, optimizer.init(params), key)

  def act(params, obs):
    return jnp.tanh(obs[..., :num_features] @ params['policy']['mlp/~/linear_0']['w'])

  def policy(params, obs, key):
    return jnp.clip(act(params, obs) + 0.1 * jax.random.normal(key, (*obs.shape[:-1], 1)), -1.0, 1.0)

  def update(state, batch):
    key, noise_key = jax.random.split(state.key)

    def loss(params):
      noise = jax.random.normal(noise_key, batch.r_t.shape)
      return jnp.mean((act(params, batch.obs_tm1)[:, 0] - batch.r_t + noise) ** 2)

    value, grads = jax.value_and_grad(loss)(state.params)
    updates, blocks = optimizer.update(grads, state.blocks, state.params)
    return TrainingState(optax.apply_updates(state.params, updates), blocks, key), {'loss': value}

  return Algorithm(
    init, update, policy, lambda params, obs, key: act(params, obs), policy, policy_components=('policy',)
  )


def make_report(num_steps, returns, *, seconds=1.0, **training):
  returns = np.asarray(returns, np.float32)
  if training:
    training = {'episodes': 2.0, 'episode_length': 5.0, **training}
  state = types.SimpleNamespace(num_steps=np.full(returns.shape[:-1], num_steps))
  return Report(
    num_steps,
    num_steps // 2,
    seconds,
    Evaluation(returns, np.full(returns.shape, 5)),
    {name: np.broadcast_to(np.float32(value), returns.shape[:-1]) for name, value in training.items()},
    state,
  )


def read(directory):
  return [(row.step, row.label, row.metric, row.value) for row in metrics.read(directory / metrics.FILE_NAME)]


def saved_returns(directory):
  return [(step, value) for step, _, metric, value in read(directory) if metric == 'return_mean']


def test_training_stops_at_a_return_that_all_seeds_have_reached():
  stop = callbacks.stop_at_return(-10.0)
  assert stop(make_report(0, [-5.0, -15.0])) is True
  assert stop(make_report(0, [-5.0, -16.0])) is False
  assert stop(make_report(0, [[-5.0, -15.0], [-11.0, -11.0]])) is False
  assert stop(make_report(0, [[-5.0, -15.0], [-9.0, -11.0]])) is True
  assert stop(make_report(0, [100.0])._replace(evaluation=None)) is False


def test_progress_shows_a_row_for_each_evaluation_over_the_episodes_of_all_seeds(capsys, monkeypatch):
  monkeypatch.setattr('agents.records.progress._FILE_SECONDS', 0.0)
  show = callbacks.show_progress(1000)
  show(make_report(0, [[1.0, 3.0], [5.0, 7.0]]))
  trained = make_report(500, [[2.0, 2.0], [4.0, 4.0]], seconds=61.0, episode_return=[10.0, 20.0])
  show(trained)
  show(trained._replace(num_steps=600, evaluation=None))
  show.close()
  shown = capsys.readouterr()
  header, *rows = shown.out.splitlines()
  assert 'mean ± std of 4' in header
  assert [row.split() for row in rows] == [
    ['0', '4.0', '±', '2.2', '5.0', '0:00:01'],
    ['500', '3.0', '±', '1.0', '5.0', '0:01:01'],
  ]
  first, second = shown.err.splitlines()
  assert first.startswith(' 50%, 500/1,000 steps, return 15.0, ')
  assert second.startswith(' 60%, 600/1,000 steps, return 15.0, ')


def test_one_seed_is_recorded_like_a_run_of_the_command(tmp_path):
  record = callbacks.record(tmp_path / 'run')
  record(make_report(0, [-1.0, -3.0]))
  record(make_report(100, [-1.0, 1.0], seconds=3.0, episode_return=-7.0, loss=0.5))
  record(make_report(200, [4.0], seconds=4.0, episodes=0.0, episode_return=np.nan, loss=0.25))
  record.close()
  evaluation = ('return_mean', 'return_std', 'return_min', 'return_max', 'length_mean', 'episodes')

  def rows(step, label, **values):
    return [(step, label, name, value) for name, value in values.items()]

  def evaluated(step, *values):
    return rows(step, 'evaluation', **dict(zip(evaluation, values, strict=True)))

  assert read(tmp_path / 'run') == [
    *evaluated(0, -2.0, 1.0, -3.0, -1.0, 5.0, 2.0),
    *rows(100, 'train', episodes=2.0, episode_return=-7.0, episode_length=5.0, steps_per_second=50.0),
    *rows(100, 'learner', loss=0.5, steps=50.0),
    *evaluated(100, 0.0, 1.0, -1.0, 1.0, 5.0, 2.0),
    *rows(200, 'train', episodes=0.0, steps_per_second=100.0),
    *rows(200, 'learner', loss=0.25, steps=100.0),
    *evaluated(200, 4.0, 0.0, 4.0, 4.0, 5.0, 1.0),
  ]
  assert list((tmp_path / 'run').glob('events.out.tfevents.*'))


def test_each_of_several_seeds_is_recorded_as_a_run_of_its_own(tmp_path):
  record = callbacks.record(tmp_path)
  record(make_report(0, [[1.0], [2.0]]))
  record(make_report(100, [[3.0], [4.0]], seconds=2.0, episode_return=[5.0, 6.0]))
  record.close()
  assert sorted(path.name for path in tmp_path.iterdir()) == ['seed_0', 'seed_1']
  for i in range(2):
    assert saved_returns(tmp_path / f'seed_{i}') == [(0, 1.0 + i), (100, 3.0 + i)]
    assert (100, 'train', 'episode_return', 5.0 + i) in read(tmp_path / f'seed_{i}')
  assert [[e.return_mean for e in run] for run in record.evaluations] == [[1.0, 3.0], [2.0, 4.0]]

  named = callbacks.record(tmp_path / 'named', ['low', 'high'])
  named(make_report(0, [[1.0], [2.0]]))
  named.close()
  assert saved_returns(tmp_path / 'named' / 'high') == [(0, 2.0)]
  with pytest.raises(ValueError, match=r"There are 2 seeds, got 3 names of folders: \['a', 'b', 'c'\]"):
    callbacks.record(tmp_path / 'named', ['a', 'b', 'c'])(make_report(0, [[1.0], [2.0]]))


def test_a_run_that_goes_on_continues_its_records_and_its_curve(tmp_path, monkeypatch):
  first = callbacks.record(tmp_path)
  for step in (0, 100, 200, 300):
    first(make_report(step, [float(step)], episode_return=1.0, seconds=1.0 + step))
  first.close()
  # From a checkpoint at 100 steps.
  second = callbacks.record(tmp_path)
  drawn = []
  plot = plotting.plot_run

  def watched(axes, run, **options):
    drawn.append([e.return_mean for e in run])
    plot(axes, run, **options)

  monkeypatch.setattr(plotting, 'plot_run', watched)
  draw = callbacks.save_curve(tmp_path / 'curve.png', 'A run', recorded=second)
  report = make_report(200, [-2.0], episode_return=-1.0)
  second(report)
  draw(report)
  second.close()
  assert saved_returns(tmp_path) == [(0, 0.0), (100, 100.0), (200, -2.0)]
  assert [row[0] for row in read(tmp_path) if row[2] == 'episode_return'] == [0, 100, 200]
  assert drawn == [[0.0, 100.0, -2.0]]
  # A new run in the same place.
  third = callbacks.record(tmp_path)
  third(make_report(0, [7.0]))
  third.close()
  assert saved_returns(tmp_path) == [(0, 7.0)]


@pytest.mark.parametrize(('returns', 'function'), [([1.0, 2.0], 'plot_run'), ([[1.0], [2.0]], 'plot_seeds')])
def test_the_curve_is_drawn_now_and_then_and_at_the_end(tmp_path, monkeypatch, returns, function):
  plot, clock, drawn = getattr(plotting, function), [100.0], []

  def watched(axes, runs, **options):
    drawn.append(len(runs) if function == 'plot_run' else [len(run) for run in runs])
    plot(axes, runs, **options)

  monkeypatch.setattr(plotting, function, watched)
  monkeypatch.setattr(curve, 'time', types.SimpleNamespace(monotonic=lambda: clock[0]))
  path = tmp_path / 'new' / 'curve.png'
  draw = callbacks.save_curve(path, 'A run')
  for step, clock[0] in ((0, 100.0), (10, 101.0), (20, 104.0), (30, 106.0), (40, 107.0)):
    draw(make_report(step, returns))
  draw.close()
  counts = [1, 4, 5]
  assert drawn == (counts if function == 'plot_run' else [[n, n] for n in counts])
  picture = np.asarray(Image.open(path).convert('RGB'))
  assert picture.shape[2] == 3
  assert len(np.unique(picture.reshape(-1, 3), axis=0)) > 10


@pytest.fixture(scope='module')
def saved(tmp_path_factory):
  """A run of two seeds: `all` has checkpoints of each report, `last` that of the end, without replay."""
  directory = tmp_path_factory.mktemp('saved')
  kept = []
  result = train(
    make_environment(),
    make_algorithm(),
    make_config(),
    KEYS,
    [
      lambda report: kept.append(jax.tree.map(jnp.copy, report.state)),
      callbacks.save_checkpoints(directory / 'all', minutes=0.0, max_to_keep=3),
      callbacks.save_checkpoints(directory / 'last', with_replay=False),
    ],
  )
  return types.SimpleNamespace(result=result, states=kept, directory=directory)


def shapes(algorithm=None, keys=KEYS):
  init = make_trainer(make_environment(), algorithm or make_algorithm(), make_config()).init
  return jax.eval_shape(jax.vmap(init) if keys.ndim else init, keys)


def test_a_restored_run_equals_one_that_never_stopped(saved, tmp_path):
  # As after a crash that left a newer one half written.
  shutil.copytree(saved.directory / 'all' / '64', tmp_path / '64')
  shutil.copytree(saved.directory / 'all' / '96', tmp_path / '96.orbax-checkpoint-tmp-0')
  state = callbacks.restore(tmp_path, shapes())
  assert jax.tree.structure(state) == jax.tree.structure(saved.states[2])
  assert_same(state, saved.states[2])
  result = train(
    make_environment(),
    make_algorithm(),
    make_config(),
    KEYS,
    [callbacks.save_checkpoints(tmp_path)],
    state=state,
  )
  assert_same(result.state, saved.result.state)
  np.testing.assert_array_equal(result.episode_return, saved.result.episode_return[3:])
  assert callbacks.saved_steps(tmp_path) == 96
  assert_same(callbacks.restore(tmp_path, shapes()), saved.result.state)


def test_the_newest_checkpoints_are_kept(saved):
  assert sorted(path.name for path in (saved.directory / 'all').iterdir()) == ['32', '64', '96']
  assert [path.name for path in (saved.directory / 'last').iterdir()] == ['96']


def test_without_replay_training_gathers_new_experience_first(saved):
  last = saved.directory / 'last'
  with pytest.raises(ValueError, match=r'saved without replay.*: give a state of trainer\.init\(key\)'):
    callbacks.restore(last, shapes())
  trainer = make_trainer(make_environment(), make_algorithm(), make_config())
  fresh = jax.jit(jax.vmap(trainer.init))(KEYS)
  state = callbacks.restore(last, fresh)
  assert_same(state, saved.result.state._replace(replay=fresh.replay))
  # Ends when 16 steps, 8 of each environment, have filled replay.
  result = train(make_environment(), make_algorithm(), make_config(96 + 16), KEYS, state=state)
  assert result.state.num_steps.tolist() == [112, 112]
  assert result.state.replay.size.tolist() == [8, 8]
  assert_same(result.state.algorithm, saved.result.state.algorithm)


def test_upon_an_error_all_callbacks_are_closed_and_the_state_is_saved(tmp_path):
  closed = []

  class Closing:
    def __call__(self, report):
      return None

    def close(self):
      closed.append(self)
      raise OSError('disk full')

  def fail(report):
    raise RuntimeError('no more')

  given = [Closing(), callbacks.save_checkpoints(tmp_path), Closing(), fail]
  with pytest.raises(OSError, match='disk full') as error:
    train(make_environment(), make_algorithm(), make_config(), KEYS[0], given)
  assert closed == [given[2], given[0]]
  assert str(error.value.__context__.__context__) == 'no more'
  assert callbacks.saved_steps(tmp_path) == 0
  assert int(callbacks.restore(tmp_path, shapes(keys=KEYS[0])).num_steps) == 0


def test_checkpoints_are_refused_where_they_do_not_belong(saved, tmp_path):
  for directory in (tmp_path, tmp_path / 'missing'):
    assert callbacks.saved_steps(directory) is None
    with pytest.raises(FileNotFoundError, match=rf'no checkpoint in {directory}: start anew, or choose'):
      callbacks.restore(directory, shapes())
  assert not (tmp_path / 'missing').exists()

  directory = saved.directory / 'all'
  with pytest.raises(ValueError, match='has a checkpoint of 96 steps, and this training is at 96: restore'):
    callbacks.save_checkpoints(directory)(make_report(96, [1.0]))
  message = (
    r"another structure, it differs in 3 places: state\.algorithm\.params\['policy'\]\['mlp/~/linear_0'\]"
    r"\['w'\] is float32\[2, 3, 1\], expected float32\[2, 2, 1\]\. Restore it with the environment"
  )
  with pytest.raises(ValueError, match=message):
    callbacks.restore(directory, shapes(make_algorithm(num_features=2)))
  with pytest.raises(ValueError, match=r'is bfloat16\[2, 0, 2\], expected bfloat16\[0, 2\]'):
    callbacks.restore(directory, shapes(keys=KEYS[0]))
  with pytest.raises(ValueError, match=r'state\.algorithm\.key is key<fry>\[2\], expected key<rbg>\[2\]'):
    callbacks.restore(directory, shapes(keys=jax.random.split(jax.random.key(0, impl='rbg'), 2)))
  with pytest.raises(ValueError, match='max_to_keep must be at least 1, got 0'):
    callbacks.save_checkpoints(directory, max_to_keep=0)


def make_player():
  """An algorithm whose params are its action."""
  return Algorithm(
    None, None, None, lambda params, obs, key: jnp.full(obs.shape[0], params['policy']), None, ('policy',)
  )


def report_params(num_steps, params):
  report = make_report(num_steps, np.zeros((*np.shape(params), 1)))
  report.state.algorithm = types.SimpleNamespace(params={'policy': jnp.asarray(params)})
  return report


def frames(path):
  """Returns the cells of [ball, paddle] in each frame of an animation of catch."""
  animation = Image.open(path)
  cells = []
  for i in range(animation.n_frames):
    animation.seek(i)
    image = np.asarray(animation.convert('RGB'), int)
    found = [np.argwhere(image[..., own] - image[..., other] > 60) for own, other in ((0, 2), (2, 0))]
    cells.append([tuple(int(x) // 40 for x in pixels.mean(axis=0)) for pixels in found])
  return animation, cells


def test_an_episode_of_the_last_params_is_animated_at_the_end(tmp_path):
  path = tmp_path / 'new' / 'episode.gif'
  save = callbacks.save_animation(environments.catch(), make_player(), path, seed=1, frames_per_second=10)
  for params in ([2, 2], [2, 0]):
    report = report_params(100, params)
    save(report)
    # As training does when it goes on.
    report.state.algorithm.params['policy'].delete()
    assert not path.exists()
  save.close()
  animation, cells = frames(path)
  assert animation.info['duration'] == 100
  assert [ball[0] for ball, _ in cells] == list(range(10))
  assert [paddle for _, paddle in cells] == [(9, 2), (9, 1), *[(9, 0)] * 8]
  assert [other.name for other in path.parent.iterdir()] == ['episode.gif']


def test_an_episode_is_animated_at_each_evaluation_if_wanted(tmp_path):
  path = tmp_path / 'episode.gif'
  save = callbacks.save_animation(environments.catch(), make_player(), path, max_steps=3, at_evaluations=True)
  save(report_params(0, 2))
  save(report_params(100, 0)._replace(evaluation=None))
  save(report_params(200, 0))
  save.close()
  assert sorted(other.name for other in tmp_path.iterdir()) == [
    'episode.gif',
    'episode_0.gif',
    'episode_200.gif',
  ]
  assert [paddle[1] for _, paddle in frames(tmp_path / 'episode_0.gif')[1]] == [2, 3, 4, 4]
  assert frames(tmp_path / 'episode_200.gif')[1] == frames(path)[1]


def test_what_cannot_be_animated_is_named(tmp_path):
  with pytest.raises(ValueError, match=r'cannot be drawn, its render is None: give it one with'):
    callbacks.save_animation(counting(4), make_algorithm(), tmp_path / 'episode.gif')
  save = callbacks.save_animation(environments.catch(), make_player(), tmp_path / 'episode.gif', seed=2)
  with pytest.raises(ValueError, match=r'There are 2 seeds, got seed=2 to draw'):
    save(report_params(0, [1, 1]))
  save.close()
  assert not list(tmp_path.iterdir())
