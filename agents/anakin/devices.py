"""Training spread over devices: each acts in environments of its own, and all make the same updates."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import NamedSharding, PartitionSpec

from agents import data_parallel
from agents.anakin.config import AnakinConfig
from agents.anakin.replay import Replay
from agents.anakin.trainer import Trainer, TrainState
from agents.config import check_option

_AXIS = data_parallel.AXIS


class Devices:
  """Places training states on devices, and maps functions of them over these.

  Environments, with their rows of replay, are split over the devices; all else is the same on each of them. A
  state has the same shapes on any number of devices, so training can go on with another one.

  Args:
    num_devices: how many, or None for all that there are.
    seeds: whether states lead with an axis of seeds.

  Raises:
    ValueError: there are fewer.
  """

  def __init__(self, num_devices: int | None, *, seeds: bool):
    valid = num_devices is None or (type(num_devices) is int and num_devices >= 1)
    check_option('num_devices', num_devices, valid, 'an integer of at least 1, or None for all devices')
    devices = data_parallel.learner_devices(num_devices, option='num_devices')
    self._mesh = jax.sharding.Mesh(np.asarray(devices), (_AXIS,))
    axes = (None,) if seeds else ()
    same: Any = PartitionSpec()
    acting: Any = PartitionSpec(*axes, _AXIS)
    rows: Any = PartitionSpec(*axes, None, _AXIS)
    self._state = TrainState(
      algorithm=same,
      acting=acting,
      replay=Replay(rows=rows, head=same, size=same),
      key=same,
      num_steps=same,
      num_updates=same,
    )
    self.shardings = jax.tree.map(lambda spec: NamedSharding(self._mesh, spec), self._state)

  def place(self, state: TrainState) -> TrainState:
    """Returns a state with its parts where they belong."""
    return jax.device_put(state, self.shardings)

  def replicate(self, tree: Any) -> Any:
    """Returns a tree with a copy on every device."""
    return jax.device_put(tree, NamedSharding(self._mesh, PartitionSpec()))

  def first(self, tree: Any) -> Any:
    """Returns the first device's copy of a tree that is the same on all."""
    return jax.tree.map(lambda x: x.addressable_data(0), tree)

  def map(self, function: Callable[..., tuple[TrainState, Any]]) -> Callable[..., tuple[TrainState, Any]]:
    """Maps a function over the devices.

    Args:
      function: `function(row, state, iterations) -> (state, metrics)`, for a device's part of the state.

    Returns:
      The function of whole states.
    """
    same = PartitionSpec()
    return data_parallel.shard_map(function, self._mesh, (same, self._state, same), (self._state, same))

  def share(self, config: AnakinConfig) -> AnakinConfig:
    """Returns a device's part of a configuration.

    The buffer need not divide by the devices: they hold the same time rows, of as many environments each.

    Raises:
      ValueError: the environments or the batch don't divide by the devices, or replay is prioritised, which
        it can't be there.
    """
    n = self._mesh.size
    alpha = config.priority_exponent
    check_option('priority_exponent', alpha, alpha is None, f'None on several devices (num_devices={n})')
    for name in ('num_envs', 'batch_size'):
      value = getattr(config, name)
      check_option(name, value, value % n == 0, f'a multiple of the {n} devices (num_devices={n})')
    return dataclasses.replace(
      config,
      num_envs=config.num_envs // n,
      batch_size=config.batch_size // n,
      buffer_size=config.buffer_size // n,
      learning_starts=-(-config.learning_starts // n),
      random_steps=-(-config.random_steps // n),
    )

  def join(self, trainer: Trainer) -> Trainer:
    """Makes a trainer of a device's share into one that counts and averages over all of them.

    Args:
      trainer: of a `share`, with an algorithm that averages over `data_parallel.AXIS`.

    Returns:
      The trainer, whose functions of states are to be mapped by `map`.
    """

    def own(state: TrainState) -> tuple[TrainState, jax.Array]:
      # The key stays the same on all devices, but each acts and samples by one of its own.
      key, own_key = jax.random.split(state.key)
      return state._replace(key=jax.random.fold_in(own_key, jax.lax.axis_index(_AXIS))), key

    def joined(old: TrainState, new: TrainState, key: jax.Array) -> TrainState:
      num_steps = old.num_steps + self._mesh.size * (new.num_steps - old.num_steps)
      return new._replace(key=key, num_steps=num_steps)

    def warm_up(state: TrainState) -> TrainState:
      part, key = own(state)
      return joined(state, trainer.warm_up(part), key)

    def iteration(state: TrainState) -> tuple[TrainState, Mapping[str, jax.Array]]:
      part, key = own(state)
      part, metrics = trainer.iteration(part)
      state = joined(state, part, key)
      episodes = jax.lax.psum(metrics['episodes'], _AXIS)
      weight = metrics['episodes'] / jnp.maximum(episodes, 1)
      per_episode = {name: weight * metrics[name] for name in ('episode_return', 'episode_length')}
      return state, {
        **jax.lax.pmean(dict(metrics), _AXIS),
        **jax.lax.psum(per_episode, _AXIS),
        'num_steps': state.num_steps,
        'num_updates': state.num_updates,
        'episodes': episodes,
      }

    return trainer._replace(warm_up=warm_up, iteration=iteration)
