"""Checkpoints: the state of some objects as one file, written whole or not at all."""

from __future__ import annotations

import dataclasses
import hashlib
import os
import pathlib
import pickle
import re
import time
from collections.abc import Mapping
from typing import Any, Protocol

import jax
import jax.numpy as jnp
import numpy as np
from absl import logging

_HEADER = b'sac_blocks checkpoint 1\n'
_DIGEST_SIZE = hashlib.sha256().digest_size


class Saveable(Protocol):
  """An object whose state can be taken out and put back."""

  def save(self) -> Any:
    """Returns the state, a pytree."""

  def restore(self, state: Any) -> None:
    """Continues from a state that `save` returned."""


class Checkpointer:
  """Saves objects to a directory and restores them.

  Arrays come back as NumPy arrays with the same bits. The files hold pickles: restore only from
  directories that you trust.

  Args:
    objects: what to save, by name.
    directory: where the files go; made if missing.
    time_delta_minutes: minutes from one save to the next, unless forced.
    max_to_keep: number of checkpoints to keep.
    keep_checkpoint_every_n_hours: of the older ones, keep one for every so many hours; None keeps
      none of them.

  Raises:
    ValueError: `max_to_keep` is not positive.
  """

  def __init__(
    self,
    objects: Mapping[str, Saveable],
    directory: str | os.PathLike[str],
    *,
    time_delta_minutes: float = 5.0,
    max_to_keep: int = 1,
    keep_checkpoint_every_n_hours: float | None = None,
  ):
    if max_to_keep < 1:
      raise ValueError(f'max_to_keep must be at least 1, got {max_to_keep}.')
    self._objects = dict(objects)
    self._directory = pathlib.Path(directory).expanduser()
    self._directory.mkdir(parents=True, exist_ok=True)
    self._seconds_between = 60.0 * time_delta_minutes
    self._max_to_keep = max_to_keep
    self._keep_every_n_hours = keep_checkpoint_every_n_hours
    self._last_saved = time.monotonic()

  @property
  def directory(self) -> pathlib.Path:
    """Where the files are."""
    return self._directory

  def checkpoints(self) -> list[pathlib.Path]:
    """Returns the files that hold checkpoints, oldest first."""
    return _files(self._directory, 'checkpoint', 'kept')

  def save(self, force: bool = False) -> bool:
    """Saves if it is time to.

    Args:
      force: whether to save in any case.

    Returns:
      Whether it saved.
    """
    if not force and time.monotonic() - self._last_saved < self._seconds_between:
      return False
    states = {name: to_host(saveable.save()) for name, saveable in self._objects.items()}
    number = 1 + max(map(_number, self.checkpoints()), default=0)
    _write(self._directory / f'checkpoint-{number:08d}.pickle', pickle.dumps(states))
    self._drop_old()
    self._last_saved = time.monotonic()
    return True

  def _drop_old(self) -> None:
    for path in _files(self._directory, 'checkpoint')[: -self._max_to_keep]:
      kept = _files(self._directory, 'kept')
      if self._keep_every_n_hours is not None and (
        not kept or path.stat().st_mtime - kept[-1].stat().st_mtime >= 3600.0 * self._keep_every_n_hours
      ):
        path.rename(path.with_name(path.name.replace('checkpoint', 'kept')))
      else:
        path.unlink()

  def restore(self) -> bool:
    """Restores the newest checkpoint, passing over those that are damaged.

    Returns:
      Whether there was a checkpoint.

    Raises:
      ValueError: all checkpoints are damaged, or the newest one holds other objects.
    """
    states = read_newest(self._directory)
    if states is None:
      return False
    if states.keys() != self._objects.keys():
      raise ValueError(
        f'The newest checkpoint in {self._directory} holds {sorted(states)}, expected '
        f'{sorted(self._objects)}: restore it with the objects that it was made of, or choose another '
        'directory.'
      )
    for name, saveable in self._objects.items():
      saveable.restore(states[name])
    return True


def read_newest(directory: str | os.PathLike[str]) -> dict[str, Any] | None:
  """Reads the newest checkpoint in a directory, passing over those that are damaged.

  Args:
    directory: of a `Checkpointer`.

  Returns:
    What the objects' `save` had returned, by name; None if there is no checkpoint.

  Raises:
    ValueError: all checkpoints are damaged.
  """
  directory = pathlib.Path(directory).expanduser()
  paths = _files(directory, 'checkpoint', 'kept')
  for path in reversed(paths):
    payload = _read(path)
    if payload is not None:
      return {name: from_host(state) for name, state in pickle.loads(payload).items()}
    logging.warning('The checkpoint %s is damaged and is passed over.', path)
  if paths:
    raise ValueError(
      f'All {len(paths)} checkpoints in {directory} are damaged: '
      'remove them to start anew, or choose another directory.'
    )
  return None


def saved_steps(directory: str | os.PathLike[str]) -> int:
  """Returns the environment steps of training that the newest checkpoint of an experiment counts.

  Args:
    directory: of the checkpoints; there are no steps where it has none.

  Raises:
    ValueError: all checkpoints are damaged.
  """
  states = read_newest(directory)
  return 0 if states is None else int(states['counter']['counts'].get('actor_steps', 0))


def make_checkpointer(
  config: Any, objects: Mapping[str, Saveable], directory: str | os.PathLike[str]
) -> Checkpointer:
  """Makes the checkpointer that an experiment's `CheckpointingConfig` describes.

  Args:
    config: says when to save and what to keep.
    objects: what to save, by name.
    directory: where the files go.
  """
  return Checkpointer(
    objects,
    directory,
    time_delta_minutes=config.time_delta_minutes,
    max_to_keep=config.max_to_keep,
    keep_checkpoint_every_n_hours=config.keep_checkpoint_every_n_hours,
  )


def _files(directory: pathlib.Path, *kinds: str) -> list[pathlib.Path]:
  paths = [path for kind in kinds for path in directory.glob(f'{kind}-*.pickle')]
  return sorted(paths, key=_number)


@dataclasses.dataclass(frozen=True)
class _Key:
  """A typed random key, which NumPy has no dtype for."""

  implementation: str
  data: np.ndarray


def to_host(state: Any) -> Any:
  """Returns a state that can be pickled, with NumPy arrays for JAX's, typed random keys included."""

  def convert(leaf: Any) -> Any:
    if not isinstance(leaf, jax.Array):
      return leaf
    if jax.dtypes.issubdtype(leaf.dtype, jax.dtypes.prng_key):
      return _Key(str(jax.random.key_impl(leaf)), np.asarray(jax.random.key_data(leaf)))
    return np.asarray(leaf)

  return jax.tree_util.tree_map(convert, state)


def from_host(state: Any) -> Any:
  """Returns a state as it was before `to_host`, but for its NumPy arrays."""

  def convert(leaf: Any) -> Any:
    if isinstance(leaf, _Key):
      return jax.random.wrap_key_data(jnp.asarray(leaf.data), impl=leaf.implementation)
    return leaf

  return jax.tree_util.tree_map(convert, state)


def _number(path: pathlib.Path) -> int:
  match = re.fullmatch(r'(?:checkpoint|kept)-(\d+)\.pickle', path.name)
  return int(match.group(1)) if match else 0


def _write(path: pathlib.Path, payload: bytes) -> None:
  # The name appears only once the bytes are on disk, so a crash leaves the earlier files as they are.
  incomplete = path.with_name('incomplete')
  with incomplete.open('wb') as file:
    file.write(_HEADER + hashlib.sha256(payload).digest() + payload)
    file.flush()
    os.fsync(file.fileno())
  incomplete.replace(path)


def _read(path: pathlib.Path) -> bytes | None:
  """Returns the payload, or None where the file is not what was written."""
  content = path.read_bytes()
  start = len(_HEADER) + _DIGEST_SIZE
  payload = content[start:]
  digest = content[len(_HEADER) : start]
  if not content.startswith(_HEADER) or hashlib.sha256(payload).digest() != digest:
    return None
  return payload
