"""How a transition of any structure lies in one row of bytes.

Reverb's cost per item grows with its number of columns: one is compressed, sent, decompressed and batched
at a time. So a transition is stored as one column of bytes, and a batch of rows is cut back into arrays
by NumPy without a copy.
"""

from __future__ import annotations

import dataclasses
import functools
import json
import operator
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
import tree
from acme import specs, types


class _Leaf(NamedTuple):
  """One array of a transition."""

  field: str  # its name in the record
  path: tuple[str | int, ...]  # where it is in its part of the transition
  spec: specs.Array


@dataclasses.dataclass(frozen=True)
class RowLayout:
  """Where each array of a transition lies in a row of bytes.

  Nested structures may be made of dicts with string keys, lists and tuples.

  Attributes:
    spec: the transition as a nested structure of `specs.Array`.

  >>> layout = RowLayout.from_environment_spec(specs.EnvironmentSpec(
  ...   observations={'position': specs.Array((2,), np.float32), 'pixels': specs.Array((3,), np.uint8)},
  ...   actions=specs.Array((1,), np.float32), rewards=specs.Array((), np.float64),
  ...   discounts=specs.Array((), np.float64)))
  >>> row = layout.empty_row()
  >>> layout.write(row, action=np.array([0.5]), reward=2.0)
  >>> batch = layout.read(np.stack([row, row]))
  >>> batch.action.tolist(), batch.reward.tolist(), batch.observation['pixels'].shape
  ([[0.5], [0.5]], [2.0, 2.0], (2, 3))
  """

  spec: types.Transition

  @classmethod
  def from_environment_spec(
    cls, environment_spec: specs.EnvironmentSpec, extras_spec: types.NestedSpec = ()
  ) -> RowLayout:
    """Lays out the transitions of an environment.

    Args:
      environment_spec: its observations and actions in any structure; its reward and discount, which are
        stored as float32, have to be scalars.
      extras_spec: what the policy adds to each step.

    Returns:
      The layout.

    Raises:
      ValueError: the reward or the discount isn't a scalar.
      TypeError: a part can't be stored.
    """
    for name in ('rewards', 'discounts'):
      shape = getattr(getattr(environment_spec, name), 'shape', None)
      if shape != ():
        raise ValueError(f'environment_spec.{name} must be one scalar, got shape {shape}.')
    scalar = specs.Array((), np.float32)
    transition = types.Transition(
      observation=environment_spec.observations,
      action=environment_spec.actions,
      reward=scalar,
      discount=scalar,
      next_observation=environment_spec.observations,
      extras=extras_spec,
    )
    return cls.from_json(json.dumps({k: _encode(k, v) for k, v in transition._asdict().items()}))

  @classmethod
  def from_json(cls, text: str) -> RowLayout:
    """Returns the layout that `to_json` wrote."""
    return cls(types.Transition(**{k: _decode(v) for k, v in json.loads(text).items()}))

  def to_json(self) -> str:
    """Returns the layout as text, which a table carries in its signature."""
    return json.dumps({k: _encode(k, v) for k, v in self.spec._asdict().items()})

  @functools.cached_property
  def _leaves(self) -> dict[str, list[_Leaf]]:
    """The arrays of each part of a transition."""
    return {
      part: [_Leaf(f'{part}{i}', path, spec) for i, (path, spec) in enumerate(tree.flatten_with_path(nest))]
      for part, nest in self.spec._asdict().items()
    }

  @functools.cached_property
  def _record(self) -> np.dtype:
    leaves = [leaf for leaves in self._leaves.values() for leaf in leaves]
    return np.dtype([(leaf.field, leaf.spec.dtype, leaf.spec.shape) for leaf in leaves], align=True)

  @property
  def row_bytes(self) -> int:
    """Length of a row in bytes."""
    return self._record.itemsize

  def empty_row(self) -> np.ndarray:
    """Returns a row of zeros, uint8 [row_bytes]."""
    return np.zeros(self.row_bytes, np.uint8)

  def write(self, row: np.ndarray, **parts: types.NestedArray) -> None:
    """Writes parts of a transition into a row.

    Args:
      row: uint8 [row_bytes], changed in place.
      **parts: any fields of a transition, by name. Values are cast within their kind (float64 to float32,
        not float to int).

    Raises:
      ValueError: a part has another structure or shape than the spec's.
      TypeError: a part has a dtype of another kind.
    """
    record = row.view(self._record)
    for part, value in parts.items():
      leaves = self._leaves[part]
      try:
        values = [functools.reduce(operator.getitem, leaf.path, value) for leaf in leaves]
      except (LookupError, TypeError):
        values = []
      if len(values) != len(leaves) or len(tree.flatten(value)) != len(leaves):
        raise ValueError(f'{part} must have the structure of {getattr(self.spec, part)}, got {value}.')
      for leaf, item in zip(leaves, values, strict=True):
        if np.shape(item) != leaf.spec.shape:
          raise ValueError(f'{part} must have shape {leaf.spec.shape}, got {np.shape(item)}: {item!r}.')
        try:
          np.copyto(record[leaf.field][0, ...], item, casting='same_kind')
        except TypeError as error:
          raise TypeError(f'{part} must be {leaf.spec.dtype}, or cast to it in its kind: {error}') from error

  def read(self, rows: np.ndarray) -> types.Transition:
    """Cuts rows into the arrays of a transition.

    Args:
      rows: uint8 [B, row_bytes].

    Returns:
      A transition of arrays [B, ...], which are views of `rows`.
    """
    records = rows.view(self._record)[:, 0]
    flat = {k: [records[leaf.field] for leaf in leaves] for k, leaves in self._leaves.items()}
    return types.Transition(
      **{k: tree.unflatten_as(nest, flat[k]) for k, nest in self.spec._asdict().items()}
    )


def _encode(path: str, nest: Any) -> list[Any]:
  """Turns a nested structure of specs into JSON values."""
  if isinstance(nest, specs.Array):
    if nest.dtype.kind not in 'biufc':
      raise TypeError(f'{path} must be numbers or booleans to be stored, got {nest.dtype}.')
    return ['array', nest.dtype.str, list(nest.shape)]
  if isinstance(nest, Mapping) and all(isinstance(key, str) for key in nest):
    return ['dict', {k: _encode(f'{path}[{k!r}]', v) for k, v in nest.items()}]
  if type(nest) in (list, tuple):
    return [type(nest).__name__, [_encode(f'{path}[{i}]', v) for i, v in enumerate(nest)]]
  raise TypeError(
    f'{path} must be arrays in dicts with string keys, lists and tuples to be stored, got {nest!r}.'
  )


def _decode(value: list[Any]) -> Any:
  """Reads back what `_encode` wrote."""
  kind, *content = value
  if kind == 'array':
    dtype, shape = content
    return specs.Array(tuple(shape), np.dtype(dtype))
  if kind == 'dict':
    return {k: _decode(v) for k, v in content[0].items()}
  return {'list': list, 'tuple': tuple}[kind](_decode(v) for v in content[0])
