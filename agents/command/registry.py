"""The agents that the command line knows, by name."""

from __future__ import annotations

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
