"""What the objectives share: parts of an action with a temperature each, and critics at one observation."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import jax
import jax.numpy as jnp

from sac_blocks.types import Array, Components, Network, PRNGKey, PyTree


def alpha(params: Components) -> PyTree:
  """Returns the temperature, a scalar or a dict of the parts' scalars."""
  return jax.tree.map(jnp.exp, params['log_alpha'])


def of(tree: PyTree) -> list[str] | None:
  """Returns the names of a tree's parts, None where it has none."""
  return sorted(tree) if isinstance(tree, Mapping) else None


def names(name: str, parts: Iterable[str]) -> list[str]:
  """Returns the entries of `info` for a quantity: its name, or one for each part."""
  return [f'{name}_{part}' for part in parts] or [name]


def named(name: str, tree: PyTree) -> dict[str, Any]:
  """Spreads a quantity over the entries of `names`."""
  return {f'{name}_{part}': x for part, x in tree.items()} if isinstance(tree, Mapping) else {name: tree}


def bind(critic: Network, params: PyTree, obs: PyTree, key: PRNGKey) -> Callable[..., Array]:
  """Returns the critics at one observation, a function of what else they take."""
  return lambda *inputs: critic(params, obs, *inputs, key=key)
