from __future__ import annotations

import dataclasses

import pytest

pytest.importorskip('acme')

from agents import sac
from agents.command import overrides
from agents.command.registry import AGENTS


def test_sac_is_known_with_its_options():
  agent = AGENTS['sac']()
  assert agent.config is sac.SACConfig
  assert agent.make_networks is sac.make_networks
  assert isinstance(agent.make_builder(agent.config()), sac.SACBuilder)
  assert set(overrides.option_types(agent.network_options)) >= {'hidden_sizes', 'num_critics', 'log_scale'}


@pytest.mark.parametrize('name', sorted(AGENTS))
def test_the_default_options_of_every_agent_can_be_given_as_text(name):
  config = AGENTS[name]().config
  values = dataclasses.asdict(config())
  text = ','.join(f'{option}={value!r}' for option, value in values.items())
  given = overrides.convert(overrides.parse(text), overrides.option_types(config))
  assert config(**given) == config()
