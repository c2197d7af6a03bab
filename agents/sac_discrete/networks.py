"""Networks of the discrete SAC agent, from an environment's spec."""

from __future__ import annotations

from typing import Any

import numpy as np
from dm_env import specs

from sac_blocks import ActorCritic
from sac_blocks import networks as networks_lib


def make_networks(environment_spec: Any, **options: Any) -> ActorCritic:
  """Makes the default networks for an environment; a network factory of Acme experiments.

  A dict observation with the key `action_mask` carries the legality of actions, as
  `sac_blocks.networks.make_discrete_networks` describes.

  Args:
    environment_spec: `acme.specs.EnvironmentSpec`, or anything with `observations` and `actions`.
    **options: of `make_discrete_networks`.

  Returns:
    The networks.

  Raises:
    ValueError: the actions are neither discrete nor a vector of discrete ones, each counted from 0, or the
      mask doesn't fit them.
  """
  actions = environment_spec.actions
  num_actions: int | tuple[int, ...]
  if isinstance(actions, specs.DiscreteArray):
    num_actions = actions.num_values
  elif (
    isinstance(actions, specs.BoundedArray)
    and np.issubdtype(actions.dtype, np.integer)
    and len(actions.shape) == 1
    and np.all(actions.minimum == 0)
  ):
    num_actions = tuple(int(n) + 1 for n in np.broadcast_to(actions.maximum, actions.shape))
  else:
    raise ValueError(
      'Discrete SAC needs a discrete action or a vector of them, counted from 0, but the environment has '
      f'{actions}.'
    )
  return networks_lib.make_discrete_networks(environment_spec.observations, num_actions, **options)
