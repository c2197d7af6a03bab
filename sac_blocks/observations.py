"""What an observation's spec says: which leaf is an image, and whether there is a mask of legal actions.

A mask travels in one way: as the entry `action_mask` of a dict observation, in replay and to the actor, whose
policy gives illegal actions a logit of minus infinity, by which everything else knows them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

__all__ = ['ACTION_MASK', 'has_action_mask', 'is_image']

#: The key of a dict observation that holds the legality of actions.
ACTION_MASK = 'action_mask'


def has_action_mask(spec: Any) -> bool:
  """Returns whether observations carry a mask of actions.

  Args:
    spec: of one observation, an array spec or a tree of them.

  Returns:
    Whether it is a dict with the key `action_mask`.

  >>> has_action_mask({'observation': None, 'action_mask': None})
  True
  """
  return isinstance(spec, Mapping) and ACTION_MASK in spec


def is_image(spec: Any) -> bool:
  """Returns whether a leaf of an observation is an image.

  Args:
    spec: of the leaf, with `shape` and `dtype`; anything without them is none.

  Returns:
    Whether it is uint8 with two or three axes: height, width and, or not, channels.

  >>> is_image(np.zeros((48, 48, 3), np.uint8)), is_image(np.zeros(3, np.uint8))
  (True, False)
  """
  return getattr(spec, 'dtype', None) == np.uint8 and len(spec.shape) in (2, 3)
