"""Checks whose messages name the argument, what was got and what was expected."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import chex
import jax
import jax.numpy as jnp
import numpy as np

from sac_blocks.types import Array, Info, PyTree


def traced(*values: Any) -> bool:
  """Returns whether one of the values is traced, so that nothing can be said about it.

  An option may be traced where recipes are mapped over it; what is checked otherwise passes then.
  """
  return any(isinstance(value, jax.core.Tracer) for value in values)


def as_floats(**arguments: Any) -> tuple[Array, ...]:
  """Converts the arguments to one floating dtype of at least 32 bits.

  Losses of half-precision networks lose the discount itself (0.99 is 0.98828125 in bfloat16), so whatever
  the inputs are, they are computed in float32, or in float64 where one of them is.

  Args:
    **arguments: arrays or numbers of any shape, by argument name.

  Returns:
    The arrays, in the order given.

  Raises:
    TypeError: an argument is complex or not numeric.
  """
  dtype = np.dtype(np.float32)
  for name, value in arguments.items():
    given = getattr(value, 'dtype', None)
    if given is None:
      # Python numbers and lists adapt to the arrays beside them.
      given = np.result_type(np.asarray(value))
      given = np.dtype(np.float32) if given == np.float64 else given
    if jnp.issubdtype(given, jnp.floating):
      # Canonical: where x64 is off, NumPy's float64 is float32, without a warning.
      dtype = jnp.promote_types(dtype, jax.dtypes.canonicalize_dtype(given))
    elif not (jnp.issubdtype(given, jnp.integer) or given == jnp.bool_):
      raise TypeError(f'{name} must hold real numbers, got dtype {given}.')
  return tuple(jnp.asarray(value, dtype) for value in arguments.values())


def as_mask(name: str, mask: Any) -> Array:
  """Converts a legality mask to bool.

  Args:
    name: its argument name.
    mask: bool or integer array of any shape; nonzero is legal.

  Returns:
    The mask as bool.

  Raises:
    TypeError: it is of another kind; a floating mask may be an additive one, where 0 is legal.
  """
  mask = jnp.asarray(mask)
  if not (mask.dtype == jnp.bool_ or jnp.issubdtype(mask.dtype, jnp.integer)):
    raise TypeError(f'{name} must be bool or integer, True where an action is legal, got {mask.dtype}.')
  return mask != 0


def as_actions(name: str, action: Any, num_actions: int) -> Array:
  """Converts discrete actions to an integer array.

  Args:
    name: the argument name.
    action: integers of any shape.
    num_actions: A.

  Returns:
    The actions.

  Raises:
    TypeError: they are not integers.
    ValueError: one that can be read (is not traced) lies outside [0, A).
  """
  action = jnp.asarray(action)
  if not jnp.issubdtype(action.dtype, jnp.integer):
    raise TypeError(f'{name} must be integers in [0, {num_actions}), got dtype {action.dtype}.')
  in_range(name, action, 0, num_actions - 1)
  return action


def legal_unless_terminal(mask: Array, discount_t: Array) -> None:
  """Raises where a state that is bootstrapped from has no legal action, if that can be read.

  Args:
    mask: `[..., A]` bool, of the states arrived at.
    discount_t: scalar or `[...]`, 0 at termination.

  Raises:
    ValueError: there is such a state.
  """
  if traced(mask, discount_t):
    return
  stuck = ~np.asarray(mask).any(axis=-1) & (np.asarray(discount_t) != 0.0)
  if stuck.any():
    raise ValueError(
      f'mask_t has no legal action in {stuck.sum()} of {stuck.size} rows whose discount_t is not 0: only a '
      'terminal state may have none.'
    )


def legal_actions(name: str, legal: Array, mask: Array) -> None:
  """Raises where an illegal action was taken although there were legal ones, if that can be read.

  Args:
    name: the argument name of the actions.
    legal: `[...]` bool, whether the action taken was legal.
    mask: `[..., A]` bool, the legal actions.

  Raises:
    ValueError: there is such an action.
  """
  if traced(legal, mask):
    return
  wrong = ~np.asarray(legal) & np.asarray(mask).any(axis=-1)
  if wrong.any():
    raise ValueError(f'{name} holds {wrong.sum()} actions of {wrong.size} that its mask forbids.')


def same_shape(**arrays: Array) -> None:
  """Raises unless all arrays have one shape.

  Args:
    **arrays: arrays by argument name.

  Raises:
    ValueError: two shapes differ; nothing broadcasts, not even (4,) with (4, 1).
  """
  shapes = {name: jnp.shape(array) for name, array in arrays.items()}
  if len(set(shapes.values())) > 1:
    _fail(f'Expected equal shapes, got {_describe(shapes)}; nothing broadcasts here.')


def ensemble_shape(name: str, ensemble: Array, trailing: int = 0, **arrays: Array) -> None:
  """Raises unless `ensemble` is `[N, ...]` (or `[N, ..., A]`) for arrays of shape `[...]`.

  Args:
    name: the ensemble's argument name.
    ensemble: the array with the ensemble axis first.
    trailing: the number of axes that follow the leading shape (1 for discrete actions).
    **arrays: arrays of shape `[...]`, by argument name.

  Raises:
    ValueError: the shapes are otherwise, or the ensemble is empty.
  """
  shape = jnp.shape(ensemble)
  if len(shape) < 1 + trailing or shape[0] == 0:
    wanted = '[N, ...]' if trailing == 0 else '[N, ..., A]'
    _fail(f'{name} must be {wanted} with the N >= 1 critics on axis 0, got shape {shape}.')
  leading = shape[1 : len(shape) - trailing]
  shapes = {other: jnp.shape(array) for other, array in arrays.items()}
  if any(other != leading for other in shapes.values()):
    _fail(
      f'{name} has shape {shape}: critics on axis 0, then {leading}, which {_describe(shapes)} should '
      'equal; nothing broadcasts here.'
    )


def scalar_or_like(name: str, value: Array, **like: Array) -> None:
  """Raises unless `value` is a scalar or has the shape of another argument.

  Args:
    name: its argument name.
    value: the array.
    **like: the one array that it goes with, by argument name.

  Raises:
    ValueError: it is neither.
  """
  ((other, array),) = like.items()
  if jnp.shape(value) not in ((), jnp.shape(array)):
    _fail(f'{name} must be a scalar or have the shape of {other} {jnp.shape(array)}, got {jnp.shape(value)}.')


def in_range(
  name: str, value: Any, low: float, high: float = float('inf'), *, open_low: bool = False
) -> None:
  """Raises where a value that can be read (is not traced) lies outside [low, high].

  Args:
    name: its argument name.
    value: a number or an array; a traced one is let through, since its value isn't known.
    low: the smallest value allowed.
    high: the largest value allowed.
    open_low: whether `low` itself is refused.

  Raises:
    ValueError: an entry is out of range or NaN.
  """
  if traced(value):
    return
  array = np.asarray(value, np.float64)
  inside = ((array > low) if open_low else (array >= low)) & (array <= high)
  if not inside.all():
    bracket = '(' if open_low else '['
    raise ValueError(f'{name} must lie in {bracket}{low}, {high}], got {value}.')


def same_structure(**trees: PyTree) -> None:
  """Raises unless all trees have the same structure and leaf shapes.

  Args:
    **trees: trees of arrays by argument name.

  Raises:
    ValueError: structures or shapes differ; the message names the first place.
  """
  (first_name, first), *others = trees.items()
  first_leaves, first_structure = jax.tree_util.tree_flatten_with_path(first)
  for name, tree in others:
    leaves, structure = jax.tree_util.tree_flatten_with_path(tree)
    if structure != first_structure:  # type: ignore[operator, unused-ignore]
      _fail(f'{first_name} and {name} must have the same structure, got {first_structure} and {structure}.')
    for (path, a), (_, b) in zip(first_leaves, leaves, strict=True):
      if jnp.shape(a) != jnp.shape(b):
        place = jax.tree_util.keystr(path)
        _fail(f'{first_name}{place} has shape {jnp.shape(a)} but {name}{place} has shape {jnp.shape(b)}.')


def reduced_shape(q: Array, reduced: Array) -> None:
  """Raises unless a reduction took the critics' axis away and left the others.

  Args:
    q: `[N, ...]`, what it was given.
    reduced: what it returned.

  Raises:
    ValueError: the result isn't `[...]`.
  """
  if jnp.shape(reduced) != jnp.shape(q)[1:]:
    _fail(
      f"reduce must take the critics' axis away, q {jnp.shape(q)} to {jnp.shape(q)[1:]}, got "
      f'{jnp.shape(reduced)}.'
    )


class ReadableInfo(dict[str, Any]):
  """What the blocks before have computed; asked for what they haven't, it says who asked and what to do.

  Args:
    info: of the update so far.
    reader: the block that asks, for the message.
  """

  def __init__(self, info: Info, reader: str):
    super().__init__(info)
    self._reader = reader

  def __missing__(self, name: str) -> Any:
    raise KeyError(
      f"{self._reader} reads '{name}' from info, which holds {sorted(self)}: put it behind the block that "
      f"reports '{name}', inside the same `every` or `repeat` if that is within one, or let the objective "
      f"before it return '{name}' in its aux."
    )


def _fail(message: str) -> None:
  """Raises a ValueError about shapes, unless `chex.disable_asserts()` is in force."""
  try:
    # chex has no public way to ask; this raises wherever its assertions are on.
    chex.assert_equal(0, 1)
  except AssertionError:
    raise ValueError(message) from None


def _describe(shapes: Mapping[str, tuple[int, ...]]) -> str:
  return ', '.join(f'{name} {shape}' for name, shape in shapes.items())
