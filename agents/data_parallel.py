"""One update on several devices: each holds the whole state and takes an equal part of every batch."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Sequence
from typing import Any

import jax
import numpy as np
from jax.experimental import multihost_utils

from sac_blocks import TrainingState

AXIS = 'devices'
"""The `axis_name` over which an algorithm has to average here."""


def join_processes(coordinator_address: str, num_processes: int, process_id: int) -> None:
  """Makes this process one of several that learn as one, whose devices it sees from then on.

  It has to come before JAX is used, and waits for the others. CPUs talk to each other through gloo.

  Args:
    coordinator_address: host and port at which the first process listens.
    num_processes: how many there are.
    process_id: number of this one, from 0.
  """
  jax.config.update('jax_cpu_collectives_implementation', 'gloo')
  jax.distributed.initialize(coordinator_address, num_processes, process_id)


def leave_processes() -> None:
  """Ends what `join_processes` began; waits for the others.

  From then on each process may end when it likes. What is on its devices can still be read.
  """
  jax.distributed.shutdown()


def highest_vote(vote: int) -> int:
  """Returns the highest of the votes of all processes that learn as one; waits for them."""
  return int(np.max(multihost_utils.process_allgather(np.asarray(vote))))


def from_first(value: Any) -> Any:
  """Returns what the first of the processes that learn as one gave; waits for it.

  Args:
    value: anything that can be pickled; that of the other processes is of no matter.
  """
  first = jax.process_index() == 0
  data = np.frombuffer(pickle.dumps(value), np.uint8) if first else np.zeros(0, np.uint8)
  # All have to bring arrays of one shape. They are summed up, which widens them.
  size = highest_vote(data.size)
  received = multihost_utils.broadcast_one_to_all(np.resize(data, size))
  return pickle.loads(np.asarray(received, np.uint8).tobytes())


def learner_devices(num_devices: int | None, *, option: str = 'num_learner_devices') -> list[jax.Device]:
  """Returns the devices of a learner, the same number from each of its processes.

  Args:
    num_devices: how many, over all processes; None for all that there are.
    option: its name, for the message.

  Returns:
    The devices, in the same order in every process.

  Raises:
    ValueError: there are fewer, or they don't divide by the processes.
  """
  processes = jax.process_count()
  groups = [[d for d in jax.devices() if d.process_index == process] for process in range(processes)]
  available = processes * min(len(group) for group in groups)
  num_devices = available if num_devices is None else num_devices
  if num_devices > available or num_devices % processes:
    expected = f'at most {available}, the number of {groups[0][0].platform} devices'
    if processes > 1:
      expected += f', and a multiple of {processes}, the number of learner processes'
    raise ValueError(
      f'{option} must be {expected}, got {num_devices}: change it, or give None for all that there are.'
    )
  return [device for group in groups for device in group[: num_devices // processes]]


class DataParallel:
  """Places states and samples on devices, and maps updates over them.

  The devices may be those of several processes, on as many hosts, that have called `join_processes`. Each
  process then places the same state, deals out a sample of its own, and
  makes as many calls as the others, which wait for it.

  Args:
    devices: at least one, in the same order in every process.
  """

  def __init__(self, devices: Sequence[jax.Device]):
    self._mesh = jax.sharding.Mesh(np.asarray(devices), (AXIS,))
    self._replicated = jax.sharding.NamedSharding(self._mesh, jax.sharding.PartitionSpec())
    self._dealt = jax.sharding.NamedSharding(self._mesh, jax.sharding.PartitionSpec(None, AXIS))

  def replicate(self, state: TrainingState) -> TrainingState:
    """Returns a state with a copy on every device."""
    if self._replicated.is_fully_addressable:
      return jax.device_put(state, self._replicated)

    # Without a word to the other processes, which may not be waiting for one.
    def leaf(x: Any) -> jax.Array:
      copies = [jax.device_put(x, device) for device in self._mesh.local_devices]
      return jax.make_array_from_single_device_arrays(x.shape, self._replicated, copies)

    return jax.tree.map(leaf, state)

  def deal(self, sample: Any) -> Any:
    """Deals the rows of a sample out to the devices one by one, like cards.

    A sample may hold several minibatches, one behind the other: dealt, and not cut into blocks, each of them
    is spread evenly over the devices.

    Args:
      sample: a tree of `[rows, ...]`, for the devices of this process.

    Returns:
      The tree of `[rows / devices, devices, ...]`, each device holding its column.

    Raises:
      ValueError: the rows don't divide by the devices.
    """
    num_devices = len(self._mesh.local_devices)

    def leaf(x: Any) -> Any:
      if np.ndim(x) < 1 or x.shape[0] % num_devices:
        raise ValueError(
          f'A sample for {num_devices} devices must have leaves [{num_devices} B, ...], got shape '
          f'{np.shape(x)}: choose a batch size that divides by the number of devices.'
        )
      return x.reshape(x.shape[0] // num_devices, num_devices, *x.shape[1:])

    rows = jax.tree.map(leaf, sample)
    if self._dealt.is_fully_addressable:
      return jax.device_put(rows, self._dealt)
    return jax.tree.map(lambda x: jax.make_array_from_process_local_data(self._dealt, x), rows)

  def compile(
    self, update: Callable[[TrainingState, Any], tuple[TrainingState, Any, Any]], *, donate: bool
  ) -> Callable[[TrainingState, Any], tuple[TrainingState, Any, Any]]:
    """Maps an update over the devices and compiles it.

    Args:
      update: `update(state, sample) -> (state, metrics, variables)`, for one device's rows of the sample. It
        averages over `AXIS` whatever else would differ from one device to the next.
      donate: whether the state's memory is reused.

    Returns:
      The function of a state that was replicated and a sample as it comes; the new state is replicated
      again, metrics and variables are those of the first device. The first call raises a ValueError if the
      devices have come to different params.
    """

    def on_device(state: TrainingState, column: Any) -> tuple[TrainingState, Any, Any]:
      return update(state, jax.tree.map(lambda x: x[:, 0], column))

    mapped = jax.jit(
      shard_map(on_device, self._mesh, (self._replicated.spec, self._dealt.spec), self._replicated.spec),
      donate_argnums=0 if donate else (),
    )
    checked = False

    def compiled(state: TrainingState, sample: Any) -> tuple[TrainingState, Any, Any]:
      nonlocal checked
      state, metrics, variables = mapped(state, self.deal(sample))
      if not checked:
        check_equal(state)
        checked = True
      return state, *jax.tree.map(lambda x: x.addressable_data(0), (metrics, variables))

    return compiled


def shard_map(function: Callable[..., Any], mesh: jax.sharding.Mesh, in_specs: Any, out_specs: Any) -> Any:
  """Maps a function over the devices of a mesh, with either JAX; it averages itself what is to be equal.

  Args:
    function: of the parts that a device has.
    mesh: the devices.
    in_specs: how the arguments are split.
    out_specs: how the results are put together; of what is not split the first device's stands for all.

  Returns:
    The function of whole arrays.
  """
  # The check of what is equal on all devices stays off: with it `grad` itself sums over the devices, and an
  # average of those sums would be too large by their number.
  if hasattr(jax, 'shard_map'):
    return jax.shard_map(function, mesh=mesh, in_specs=in_specs, out_specs=out_specs, check_vma=False)
  from jax.experimental.shard_map import shard_map

  return shard_map(function, mesh, in_specs, out_specs, check_rep=False)


def check_equal(state: TrainingState) -> None:
  """Raises a ValueError if the devices have come to different params."""
  for path, leaf in jax.tree_util.tree_flatten_with_path(state.params)[0]:
    first, *others = (np.asarray(shard.data) for shard in leaf.addressable_shards)
    if jax.process_count() > 1:
      others += list(multihost_utils.process_allgather(first))
    if not all(np.array_equal(first, other, equal_nan=True) for other in others):
      raise ValueError(
        f'After the first updates each device has its own params{jax.tree_util.keystr(path)}: make the '
        f'algorithm with axis_name={AXIS!r}, which averages gradients and statistics over the devices.'
      )
