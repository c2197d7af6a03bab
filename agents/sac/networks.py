"""Networks of the SAC agent, from an environment's spec."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from dm_env import specs

from sac_blocks import ActorCritic
from sac_blocks import networks as networks_lib


def make_networks(environment_spec: Any, **options: Any) -> ActorCritic:
  """Makes the default networks for an environment; a network factory of Acme experiments.

  Args:
    environment_spec: `acme.specs.EnvironmentSpec`, or anything with `observations` and `actions`.
    **options: of `sac_blocks.networks.make_networks`.

  Returns:
    The networks.

  Raises:
    ValueError: the actions are not one vector in the canonical box [-1, 1].
  """
  actions = environment_spec.actions
  if not isinstance(actions, specs.BoundedArray) or not np.issubdtype(actions.dtype, np.floating):
    raise ValueError(f'SAC needs continuous, bounded actions, but the environment has {actions}.')
  if len(actions.shape) != 1:
    raise ValueError(f'SAC needs actions of shape (D,), but the environment has {actions}.')
  if not (np.all(actions.minimum == -1.0) and np.all(actions.maximum == 1.0)):
    raise ValueError(
      f'SAC acts in the canonical box [-1, 1], but the environment has {actions}: wrap it as '
      '`agents.environments.make` does.'
    )
  return networks_lib.make_networks(environment_spec.observations, math.prod(actions.shape), **options)
