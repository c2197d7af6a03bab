"""The agents of the command by name, and their options, given as text and checked against their types."""

from __future__ import annotations

import ast
import collections.abc
import dataclasses
import difflib
import inspect
import types
import typing
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple


class Agent(NamedTuple):
  """The parts of an agent.

  Attributes:
    config: the dataclass of its options.
    make_networks: the network factory; called with an environment's spec and network options.
    network_options: a function whose keyword-only parameters are the network options.
    make_algorithm: makes the algorithm from a config and networks.
    make_builder: makes the Acme builder from a config; the only part that needs Acme.
  """

  config: type[Any]
  make_networks: Callable[..., Any]
  network_options: Callable[..., Any]
  make_algorithm: Callable[[Any, Any], Any]
  make_builder: Callable[[Any], Any]


def _sac() -> Agent:
  from agents.sac.config import SACConfig, make_algorithm
  from agents.sac.networks import make_networks
  from sac_blocks import networks

  def make_builder(config: SACConfig) -> Any:
    from agents.sac.builder import SACBuilder

    return SACBuilder(config)

  return Agent(SACConfig, make_networks, networks.make_networks, make_algorithm, make_builder)


def _sac_discrete() -> Agent:
  from agents.sac_discrete.config import SACDiscreteConfig, make_algorithm
  from agents.sac_discrete.networks import make_networks
  from sac_blocks import networks

  def make_builder(config: SACDiscreteConfig) -> Any:
    from agents.sac_discrete.builder import SACDiscreteBuilder

    return SACDiscreteBuilder(config)

  return Agent(
    SACDiscreteConfig, make_networks, networks.make_discrete_networks, make_algorithm, make_builder
  )


# Functions, since the modules of an agent are slow to import.
AGENTS: Mapping[str, Callable[[], Agent]] = {'sac': _sac, 'sac_discrete': _sac_discrete}


def parse(text: str) -> dict[str, Any]:
  """Reads `name=value` pairs, separated by commas, whose values are Python literals.

  Args:
    text: the pairs; empty for none.

  Returns:
    The values by name.

  Raises:
    ValueError: the text is something else, or names an option twice.

  >>> parse('batch_size=128, log_alpha_bounds=(-5, 1)')
  {'batch_size': 128, 'log_alpha_bounds': (-5, 1)}
  """
  expected = 'expected name=value pairs separated by commas, such as batch_size=128,tau=0.01'
  try:
    call = ast.parse(f'dict({text})', mode='eval').body
  except SyntaxError:
    raise ValueError(f'got {text!r}, {expected}') from None
  # The text could close the bracket and go on; a keyword without a name is `**mapping`.
  if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Name) or call.args:
    raise ValueError(f'got {text!r}, {expected}')
  values: dict[str, Any] = {}
  for keyword in call.keywords:
    if keyword.arg is None:
      raise ValueError(f'got {text!r}, {expected}')
    if keyword.arg in values:
      raise ValueError(f'{keyword.arg} is given twice')
    try:
      values[keyword.arg] = ast.literal_eval(keyword.value)
    except (TypeError, ValueError):
      raise ValueError(
        f'{keyword.arg}={ast.unparse(keyword.value)} is not a Python literal, '
        "expected one such as 128, 1e-3, True, None, (64, 64) or 'text'"
      ) from None
  return values


def option_types(owner: Callable[..., Any]) -> dict[str, Any]:
  """Returns the types of what may be overridden, by name.

  Args:
    owner: a dataclass, whose fields are its options, or a function, whose keyword-only parameters are.

  Returns:
    The annotations, evaluated; those of callables are left out, since text can't give one.
  """
  hints = typing.get_type_hints(owner)
  if dataclasses.is_dataclass(owner):
    names = [field.name for field in dataclasses.fields(owner)]
  else:
    parameters = inspect.signature(owner).parameters.values()
    names = [p.name for p in parameters if p.kind is inspect.Parameter.KEYWORD_ONLY]
  return {n: hints[n] for n in names if typing.get_origin(hints[n]) is not collections.abc.Callable}


def convert(values: Mapping[str, Any], expected: Mapping[str, Any]) -> dict[str, Any]:
  """Checks names and types, and converts where nothing is lost: whole numbers to float, lists to tuples.

  Args:
    values: by name.
    expected: `option_types` of what they are for.

  Returns:
    The converted values.

  Raises:
    ValueError: a name is unknown, or a value of another type than expected.

  >>> convert({'tau': 1}, {'tau': float})
  {'tau': 1.0}
  """
  converted = {}
  for name, value in values.items():
    if name not in expected:
      close = difflib.get_close_matches(name, expected, n=1)
      hint = f'did you mean {close[0]}?' if close else f'expected one of {", ".join(sorted(expected))}'
      raise ValueError(f'there is no option {name}, {hint}')
    try:
      converted[name] = _convert(value, expected[name])
    except TypeError:
      raise ValueError(f'{name}={value!r} has the wrong type, expected {_describe(expected[name])}') from None
  return converted


def _convert(value: Any, expected: Any) -> Any:
  """Returns the value as the expected type, or raises TypeError."""
  origin, arguments = typing.get_origin(expected), typing.get_args(expected)
  if origin in (types.UnionType, typing.Union):
    for alternative in arguments:
      try:
        return _convert(value, alternative)
      except TypeError:
        continue
  elif origin is typing.Literal:
    if value in arguments:
      return value
  elif origin in (tuple, collections.abc.Sequence) and isinstance(value, (tuple, list)):
    if origin is not tuple:
      arguments *= len(value)
    if len(arguments) == len(value):
      return tuple(_convert(v, t) for v, t in zip(value, arguments, strict=True))
  elif expected is types.NoneType:
    if value is None:
      return value
  # bool is a subclass of int, yet `batch_size=True` is a slip.
  elif expected is float and type(value) is int:
    return float(value)
  elif type(value) is expected:
    return value
  raise TypeError


def _describe(expected: Any) -> str:
  origin, arguments = typing.get_origin(expected), typing.get_args(expected)
  if origin in (types.UnionType, typing.Union):
    # Text can't give a callable.
    arguments = tuple(a for a in arguments if typing.get_origin(a) is not collections.abc.Callable)
    return ' or '.join(map(_describe, arguments))
  if origin is typing.Literal:
    return ' or '.join(map(repr, arguments))
  if origin is tuple:
    return f'({", ".join(map(_describe, arguments))})'
  if origin is collections.abc.Sequence:
    return f'a tuple of {_describe(arguments[0])}'
  if expected is types.NoneType:
    return 'None'
  return getattr(expected, '__name__', str(expected))
