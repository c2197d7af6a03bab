"""Training that outlives its process."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from agents.anakin.train import Callback, Report
from agents.anakin.trainer import TrainState
from agents.optional import import_module

_DESCRIPTION, _ARRAYS = 'description', 'arrays'


def save_checkpoints(
  directory: str | os.PathLike[str],
  minutes: float = 5.0,
  *,
  with_replay: bool = True,
  max_to_keep: int = 1,
) -> Callback:
  """Saves the state of training now and then, and at the end.

  What is saved is copied to the host first, and written while training goes on. A checkpoint counts once it
  is whole: a crash leaves the ones before it. The state at an interruption is saved if it was reported;
  training that is interrupted between two reports goes on from the checkpoint before.

  Args:
    directory: takes the checkpoints; made if missing.
    minutes: from one checkpoint to the next; they are made at reports only.
    with_replay: whether to save the experience too. Without, checkpoints are small, and training that goes
      on gathers new experience first, see `restore`.
    max_to_keep: checkpoints to keep, the newest ones.

  Returns:
    The callback.

  Raises:
    ValueError: `max_to_keep` is not positive; from the callback, the directory has a checkpoint that is as
      far as this training, or further.
  """
  if max_to_keep < 1:
    raise ValueError(f'max_to_keep must be at least 1, got {max_to_keep}.')
  return _Checkpoints(_absolute(directory), 60.0 * minutes, with_replay, max_to_keep)


def restore(directory: str | os.PathLike[str], like_state: TrainState) -> TrainState:
  """Restores the newest checkpoint, to be given to `train` as its `state`.

      trainer = make_trainer(environment, algorithm, config)
      state = restore(directory, jax.eval_shape(trainer.init, key))
      train(environment, algorithm, config, key, state=state)

  With several seeds it is `jax.eval_shape(jax.vmap(trainer.init), keys)`. With replay in the checkpoint
  training goes on bit for bit as if it had not stopped. Without, the replay of `like_state` takes its place,
  an empty one of `trainer.init(key)`; then `train` takes the steps of `trainer.warm_up` before the next
  update, and they count as steps of training.

  Args:
    directory: of `save_checkpoints`.
    like_state: a state of the same structure, or its shapes and dtypes, which take no memory.

  Returns:
    The state.

  Raises:
    FileNotFoundError: there is no checkpoint.
    ValueError: the checkpoint is of another structure, or has no replay where `like_state` has but shapes.
  """
  step = saved_steps(directory)
  if step is None:
    raise FileNotFoundError(
      f'There is no checkpoint in {_absolute(directory)}: start anew, or choose another directory.'
    )
  ocp = _orbax()
  with _manager(directory, create=False) as manager:
    description = manager.restore(step, args=ocp.args.Composite(description=ocp.args.JsonRestore()))
    saved = {name: _Leaf(*leaf) for name, leaf in description[_DESCRIPTION].items()}
    with_replay = any(name.startswith('.replay') for name in saved)
    leaves, structure = jax.tree_util.tree_flatten_with_path(_part(like_state, with_replay))
    _check_same(saved, {jax.tree_util.keystr(path): _kind(leaf) for path, leaf in leaves}, directory)
    if not with_replay and any(not isinstance(x, jax.Array) for x in jax.tree.leaves(like_state.replay)):
      raise ValueError(
        f'The checkpoint in {_absolute(directory)} was saved without replay, whose place that of like_state '
        'takes: give a state of trainer.init(key), not its shapes alone.'
      )
    shapes = {jax.tree_util.keystr(path): _data_shape(leaf) for path, leaf in leaves}
    stored = {name: shape for name, shape in shapes.items() if shape.size}
    arrays = manager.restore(step, args=ocp.args.Composite(arrays=ocp.args.StandardRestore(stored)))[_ARRAYS]

  def load(name: str) -> jax.Array:
    # Arrays of size 0 are not in the files.
    array = jnp.asarray(arrays[name]) if name in stored else jnp.zeros(shapes[name].shape, shapes[name].dtype)
    return jax.random.wrap_key_data(array, impl=saved[name].key) if saved[name].key else array

  state = jax.tree.unflatten(structure, [load(name) for name in shapes])
  if with_replay:
    return state
  return state._replace(replay=like_state.replay, priorities=like_state.priorities)


def saved_steps(directory: str | os.PathLike[str]) -> int | None:
  """Reads how far the newest checkpoint is.

  Args:
    directory: of `save_checkpoints`; it need not exist.

  Returns:
    Its environment steps, None where there is no checkpoint.
  """
  if not _absolute(directory).is_dir():
    return None
  with _manager(directory, create=False) as manager:
    return manager.latest_step()


class _Leaf(NamedTuple):
  """What a checkpoint says about an array: dtype and shape, and the generator of typed random keys."""

  kind: str
  key: str | None


class _Checkpoints:
  def __init__(self, directory: Path, seconds: float, with_replay: bool, max_to_keep: int):
    self._directory = directory
    self._seconds = seconds
    self._with_replay = with_replay
    self._max_to_keep = max_to_keep
    self._manager: Any = None
    self._last_saved = time.monotonic()
    self._unsaved: Report | None = None

  def __call__(self, report: Report) -> None:
    if self._manager is None:
      self._manager = _manager(self._directory, max_to_keep=self._max_to_keep)
      newest = self._manager.latest_step()
      if newest is not None and newest >= report.num_steps:
        raise ValueError(
          f'{self._directory} has a checkpoint of {newest} steps, and this training is at '
          f'{report.num_steps}: restore the checkpoint to go on from there, or choose another directory.'
        )
    self._unsaved = report
    if time.monotonic() - self._last_saved >= self._seconds:
      self._save()

  def close(self) -> None:
    if self._manager is None:
      return
    try:
      if self._unsaved is not None and not any(
        leaf.is_deleted() for leaf in jax.tree.leaves(self._unsaved.state)
      ):
        self._save()
      self._manager.wait_until_finished()
    finally:
      self._manager.close()

  def _save(self) -> None:
    assert self._unsaved is not None
    args = _orbax().args
    leaves, _ = jax.tree_util.tree_flatten_with_path(_part(self._unsaved.state, self._with_replay))
    named = {jax.tree_util.keystr(path): leaf for path, leaf in leaves}
    description = {
      name: _Leaf(_kind(leaf), str(jax.random.key_impl(leaf)) if _is_key(leaf) else None)
      for name, leaf in named.items()
    }
    # Orbax refuses arrays of size 0. The others are copied, since training soon writes over the buffers.
    arrays = {
      name: np.array(jax.random.key_data(leaf) if _is_key(leaf) else leaf)
      for name, leaf in named.items()
      if leaf.size
    }
    self._manager.save(
      self._unsaved.num_steps,
      args=args.Composite(**{_DESCRIPTION: args.JsonSave(description), _ARRAYS: args.StandardSave(arrays)}),
    )
    self._unsaved = None
    self._last_saved = time.monotonic()


def _check_same(saved: dict[str, _Leaf], expected: dict[str, str], directory: str | os.PathLike[str]) -> None:
  got = {name: leaf.kind for name, leaf in saved.items()}
  differing = [name for name in {**expected, **got} if expected.get(name) != got.get(name)]
  if differing:
    name = differing[0]
    raise ValueError(
      f'The checkpoint in {_absolute(directory)} is of another structure, it differs in {len(differing)} '
      f'places: state{name} is {got.get(name, "missing")}, expected {expected.get(name, "none such")}. '
      'Restore it with the environment, the algorithm, the configuration and the number of seeds that it '
      'was saved with, or choose another directory.'
    )


def _part(state: TrainState, with_replay: bool) -> Any:
  """Returns the state with or without the arrays of replay, its priorities included."""
  nothing: Any = None
  return state if with_replay else state._replace(replay=nothing, priorities=None)


def _is_key(leaf: Any) -> bool:
  return jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key)


def _kind(leaf: Any) -> str:
  return f'{leaf.dtype}{list(leaf.shape)}'


def _data_shape(leaf: Any) -> jax.ShapeDtypeStruct:
  """Returns how a leaf is stored, and where it belongs."""
  data = jax.eval_shape(jax.random.key_data, leaf) if _is_key(leaf) else leaf
  sharding = getattr(leaf, 'sharding', None) or jax.sharding.SingleDeviceSharding(jax.local_devices()[0])
  return jax.ShapeDtypeStruct(data.shape, data.dtype, sharding=sharding)


def _absolute(directory: str | os.PathLike[str]) -> Path:
  # Orbax takes no relative paths.
  return Path(directory).expanduser().absolute()


def _manager(directory: str | os.PathLike[str], **options: Any) -> Any:
  ocp = _orbax()
  return ocp.CheckpointManager(_absolute(directory), options=ocp.CheckpointManagerOptions(**options))


def _orbax() -> Any:
  return import_module('orbax.checkpoint', '`uv sync --extra anakin` brings it')
