"""Policies: laws of continuous actions in the canonical box, and of discrete ones."""

from sac_blocks.distributions.categorical import Categorical, FactoredCategorical
from sac_blocks.distributions.tanh_gaussian import TanhGaussian

__all__ = ['Categorical', 'FactoredCategorical', 'TanhGaussian']
