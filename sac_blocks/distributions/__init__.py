"""Policies: laws of continuous actions in the canonical box, of discrete ones, and of both together."""

from sac_blocks.distributions.categorical import Categorical, FactoredCategorical
from sac_blocks.distributions.hybrid import Hybrid
from sac_blocks.distributions.tanh_gaussian import TanhGaussian

__all__ = ['Categorical', 'FactoredCategorical', 'Hybrid', 'TanhGaussian']
