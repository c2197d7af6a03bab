"""Policy distributions over actions in the canonical box."""

from sac_blocks.distributions.tanh_gaussian import TanhGaussian

__all__ = ['TanhGaussian']
