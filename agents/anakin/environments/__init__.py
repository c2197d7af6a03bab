"""Environments on the device: their protocol, wrappers, three tasks, and adapters for libraries of them."""

from agents.anakin.environments.adapters import from_brax, from_gymnax
from agents.anakin.environments.cartpole import cartpole
from agents.anakin.environments.catch import catch
from agents.anakin.environments.loaders import make
from agents.anakin.environments.pendulum import pendulum
from agents.anakin.environments.protocol import Environment, TimeStep
from agents.anakin.environments.wrappers import canonical_actions, time_limit

__all__ = [
  'Environment',
  'TimeStep',
  'canonical_actions',
  'cartpole',
  'catch',
  'from_brax',
  'from_gymnax',
  'make',
  'pendulum',
  'time_limit',
]
