from __future__ import annotations

import dataclasses

import pytest

pytest.importorskip('acme')

from agents import environments
from agents.command.local_runner import LocalRunner
from agents.command.registry import AGENTS
from agents.command.reporting import CURVE_FILE_NAME
from agents.command.settings import Settings
from agents.records import metrics

_AGENT = AGENTS['sac']()


def _settings(**config):
  return Settings(
    agent='sac',
    env='gymnasium:Pendulum-v1',
    seed=0,
    steps=400,
    eval_every=200,
    num_eval_episodes=1,
    checkpoint_minutes=5.0,
    config=dataclasses.asdict(_AGENT.config(**config)),
    networks={'hidden_sizes': (16, 16)},
  )


@pytest.mark.slow
def test_a_run_returns_its_last_evaluation(tmp_path, capsys):
  settings = _settings(min_replay_size=200, batch_size=16, samples_per_insert=16.0)
  runner = LocalRunner(settings, _AGENT, environments.make(settings.env))
  assert list(tmp_path.iterdir()) == []
  assert runner.device
  evaluation = runner.run(tmp_path)
  evaluations = metrics.evaluations(metrics.read(tmp_path / metrics.FILE_NAME))
  assert [e.step for e in evaluations] == [0, 200, 400]
  assert evaluation[2:] == evaluations[-1][2:]
  assert len(capsys.readouterr().out.splitlines()) == 4
  assert (tmp_path / CURVE_FILE_NAME).exists()


def test_limits_that_can_never_be_met_are_refused():
  settings = _settings(min_replay_size=10, samples_per_insert=1.0)
  with pytest.raises(ValueError, match='learning would wait for ever'):
    LocalRunner(settings, _AGENT, environments.make(settings.env))
