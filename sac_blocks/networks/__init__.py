"""Default networks. The only part of sac_blocks that imports haiku; not imported by `import sac_blocks`."""

from sac_blocks.networks.mlp import make_networks

__all__ = ['make_networks']
