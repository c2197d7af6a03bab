"""The Soft Actor-Critic agent for Acme."""

from agents.sac.builder import SACBuilder
from agents.sac.config import SACConfig, make_algorithm
from agents.sac.networks import make_networks

__all__ = ['SACBuilder', 'SACConfig', 'make_algorithm', 'make_networks']
