from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Literal

import pytest

from agents import sac
from agents.command import options
from agents.command.options import AGENTS


@dataclasses.dataclass(frozen=True)
class _Config:
  batch_size: int = 256
  tau: float = 0.005
  rate: float | Callable[[int], float] = 0.1
  bounds: tuple[float, float] | None = None
  learn: bool = True
  name: str = 'replay'


def _function(
  spec: object,
  *,
  hidden_sizes: Sequence[int] = (256, 256),
  log_scale: Literal['clip', 'tanh'] = 'clip',
  activation: Callable[[float], float] = abs,
) -> None: ...


_TYPES = options.option_types(_Config)


def test_literals_of_every_kind_are_parsed():
  text = "batch_size=128, tau=1e-3,bounds=(-5,1),learn=False,name='a,b',none=None,sizes=[64, 64]"
  assert options.parse(text) == {
    'batch_size': 128,
    'tau': 1e-3,
    'bounds': (-5, 1),
    'learn': False,
    'name': 'a,b',
    'none': None,
    'sizes': [64, 64],
  }
  assert options.parse('') == {}


@pytest.mark.parametrize(
  ('text', 'message'),
  [
    ('batch_size', "got 'batch_size', expected name=value pairs"),
    ('batch_size=', "got 'batch_size=', expected name=value pairs"),
    ('batch_size==3', 'expected name=value pairs'),
    ('a=1;b=2', 'expected name=value pairs'),
    ('a=1) + dict(b=2', 'expected name=value pairs'),
    ("**{'a': 1}", 'expected name=value pairs'),
    ('a=1,a=2', 'a is given twice'),
    ('name=replay', "name=replay is not a Python literal, expected one such as .* 'text'"),
    ('a=__import__("os")', 'is not a Python literal'),
  ],
)
def test_other_texts_are_refused(text, message):
  with pytest.raises(ValueError, match=message):
    options.parse(text)


def test_option_types_are_those_of_fields_and_of_keyword_only_parameters():
  assert list(_TYPES) == ['batch_size', 'tau', 'rate', 'bounds', 'learn', 'name']
  assert _TYPES['bounds'] == tuple[float, float] | None
  # A callable can't be given as text.
  assert list(options.option_types(_function)) == ['hidden_sizes', 'log_scale']


@pytest.mark.parametrize(
  ('given', 'converted'),
  [
    ({'tau': 1}, {'tau': 1.0}),
    ({'rate': 1}, {'rate': 1.0}),
    ({'bounds': [-5, 1.5]}, {'bounds': (-5.0, 1.5)}),
    ({'bounds': None}, {'bounds': None}),
    ({'learn': False, 'batch_size': 3}, {'learn': False, 'batch_size': 3}),
  ],
)
def test_values_are_converted_where_nothing_is_lost(given, converted):
  result = options.convert(given, _TYPES)
  assert result == converted
  for name, value in converted.items():
    assert type(result[name]) is type(value)
    if isinstance(value, tuple):
      assert all(type(x) is float for x in result[name])


def test_sequences_become_tuples():
  types = options.option_types(_function)
  assert options.convert({'hidden_sizes': [64, 32], 'log_scale': 'tanh'}, types) == {
    'hidden_sizes': (64, 32),
    'log_scale': 'tanh',
  }
  assert options.convert({'hidden_sizes': ()}, types) == {'hidden_sizes': ()}


@pytest.mark.parametrize(
  ('types', 'given', 'message'),
  [
    (_TYPES, {'batchsize': 3}, r'there is no option batchsize, did you mean batch_size\?'),
    (
      _TYPES,
      {'xyz': 3},
      'no option xyz, expected one of batch_size, bounds, learn, name, rate, tau',
    ),
    (_TYPES, {'batch_size': 2.0}, 'batch_size=2.0 has the wrong type, expected int'),
    (_TYPES, {'batch_size': True}, 'batch_size=True has the wrong type, expected int'),
    (_TYPES, {'learn': 1}, 'learn=1 has the wrong type, expected bool'),
    (_TYPES, {'tau': '1'}, "tau='1' has the wrong type, expected float"),
    (_TYPES, {'rate': 'abs'}, "rate='abs' has the wrong type, expected float$"),
    (_TYPES, {'bounds': (1, 2, 3)}, r'expected \(float, float\) or None'),
    (_TYPES, {'bounds': 'ab'}, r'expected \(float, float\) or None'),
    (options.option_types(_function), {'hidden_sizes': 64}, 'expected a tuple of int'),
    (options.option_types(_function), {'hidden_sizes': (64, 0.5)}, 'expected a tuple of int'),
    (options.option_types(_function), {'log_scale': 'x'}, "expected 'clip' or 'tanh'"),
  ],
)
def test_unknown_names_and_wrong_types_are_refused(types, given, message):
  with pytest.raises(ValueError, match=message):
    options.convert(given, types)


def test_sac_is_known_with_its_options():
  pytest.importorskip('acme')
  agent = AGENTS['sac']()
  assert agent.config is sac.SACConfig
  assert agent.make_networks is sac.make_networks
  assert isinstance(agent.make_builder(agent.config()), sac.SACBuilder)
  assert set(options.option_types(agent.network_options)) >= {'hidden_sizes', 'num_critics', 'log_scale'}


@pytest.mark.parametrize('name', sorted(AGENTS))
def test_the_default_options_of_every_agent_can_be_given_as_text(name):
  config = AGENTS[name]().config
  values = dataclasses.asdict(config())
  text = ','.join(f'{option}={value!r}' for option, value in values.items())
  given = options.convert(options.parse(text), options.option_types(config))
  assert config(**given) == config()
