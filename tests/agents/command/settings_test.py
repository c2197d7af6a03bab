from __future__ import annotations

import json

import jax
import pytest

from agents.command.settings import Settings, UsageError, usage_errors

_SETTINGS = Settings(
  agent='sac',
  env='gymnasium:Pendulum-v1',
  seed=3,
  steps=1000,
  eval_every=100,
  num_eval_episodes=2,
  checkpoint_minutes=0.5,
  config={'batch_size': 32, 'log_alpha_bounds': None},
  networks={'hidden_sizes': [64, 64]},
)


def test_settings_come_back(tmp_path):
  _SETTINGS.save(tmp_path)
  assert Settings.load(tmp_path) == _SETTINGS
  assert [child.name for child in tmp_path.iterdir()] == ['config.json']


def test_the_file_tells_the_versions(tmp_path):
  _SETTINGS.save(tmp_path)
  assert json.loads((tmp_path / 'config.json').read_text())['versions']['jax'] == jax.__version__


def test_a_directory_without_settings_is_refused(tmp_path):
  with pytest.raises(ValueError, match=r'holds no run: it has no config\.json'):
    Settings.load(tmp_path)


@pytest.mark.parametrize('text', ['', '{', '[]', '{"agent": "sac"}'])
def test_another_file_is_refused(tmp_path, text):
  (tmp_path / 'config.json').write_text(text)
  with pytest.raises(ValueError, match='does not hold the settings of a run'):
    Settings.load(tmp_path)


def test_settings_of_a_run_before_there_was_an_option_have_its_default(tmp_path):
  _SETTINGS.save(tmp_path)
  path = tmp_path / 'config.json'
  values = json.loads(path.read_text())
  for name in ('runner', 'num_actors', 'num_learner_nodes', 'launch', 'replay_checkpoint_minutes'):
    del values[name]
  path.write_text(json.dumps(values))
  assert Settings.load(tmp_path) == _SETTINGS


def test_chosen_exceptions_become_usage_errors():
  with (
    pytest.raises(UsageError, match='--tau: too large') as caught,
    usage_errors(ValueError, about='--tau: '),
  ):
    raise ValueError('too large')
  assert isinstance(caught.value.__cause__, ValueError)


def test_other_exceptions_pass():
  with pytest.raises(KeyError), usage_errors(ValueError, OSError):
    raise KeyError('x')
