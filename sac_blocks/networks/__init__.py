"""Default networks. The only part of sac_blocks that imports haiku; not imported by `import sac_blocks`."""

from sac_blocks.networks.continuous import make_networks
from sac_blocks.networks.discrete import make_discrete_networks
from sac_blocks.networks.hybrid import make_hybrid_networks

__all__ = ['make_discrete_networks', 'make_hybrid_networks', 'make_networks']
