"""Reads batches of transitions from replay."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Iterator

import numpy as np
import reverb
import tensorflow as tf

# Not public in TensorFlow, but the only way to wake a thread that waits for a batch.
from tensorflow.python.eager import cancellation

from agents.acme.replay.server import check_server, table_layout

# How often to look whether the server is still there.
_SERVER_CHECK_S = 1.0
# A request is answered from one moment of the table, so a longer one would see less of the news.
_MAX_SAMPLES_PER_REQUEST = 512


def make_dataset_iterator(
  client: reverb.Client, table_name: str, *, batch_size: int, prefetch_size: int = 1
) -> ReplayIterator:
  """Makes an iterator over batches of uniformly sampled transitions.

  Args:
    client: a client of the replay server.
    table_name: a table of `make_table`, from which the structure of the batches is read.
    batch_size: transitions per batch, B.
    prefetch_size: batches made ahead, in a thread of TensorFlow.

  Returns:
    The iterator. It samples at most prefetch_size B + min(B, 512) items ahead of what it has handed out;
    the table's rate limiter counts them.
  """
  return ReplayIterator(client, table_name, batch_size=batch_size, prefetch_size=prefetch_size)


class ReplayIterator(Iterator[reverb.ReplaySample]):
  """An iterator over `reverb.ReplaySample(info, data)`, with `data` a `types.Transition`.

  Arrays are read-only NumPy views [B, ...] into one buffer per batch. `next` waits while the rate limiter
  holds samples back. It may be called from any thread, and `close` from any other.

  Args:
    client: of the replay server.
    table_name: a table of `make_table`.
    batch_size: B, items in a batch.
    prefetch_size: batches read ahead.
  """

  def __init__(self, client: reverb.Client, table_name: str, *, batch_size: int, prefetch_size: int) -> None:
    self._layout = table_layout(client, table_name)
    # One worker: more take the same processor time in all, and sample further ahead.
    dataset = reverb.TrajectoryDataset(
      server_address=client.server_address,
      table=table_name,
      dtypes=tf.uint8,
      shapes=tf.TensorShape([self._layout.row_bytes]),
      max_in_flight_samples_per_worker=min(batch_size, _MAX_SAMPLES_PER_REQUEST),
      num_workers_per_iterator=1,
    ).batch(batch_size, drop_remainder=True)
    if prefetch_size:
      dataset = dataset.prefetch(prefetch_size)
    options = tf.data.Options()
    # TensorFlow would add a prefetch of its own, of a size that it changes at will.
    options.autotune.enabled = False
    options.experimental_optimization.inject_prefetch = False
    self._batches = iter(dataset.with_options(options))
    manager = cancellation.CancellationManager()
    self._next = manager.get_cancelable_function(tf.function(self._batches.get_next).get_concrete_function())
    self._reading = threading.Lock()
    self._failure: list[ConnectionError] = []
    stop = threading.Event()
    watch = threading.Thread(
      target=_watch_server,
      args=(client, stop, self._failure, manager),
      name='replay-server-watch',
      daemon=True,
    )
    watch.start()
    # Also runs at the interpreter's exit, which aborts the process if a thread is in Reverb then.
    self._finalizer = weakref.finalize(self, _shut_down, stop, manager, self._reading, watch)

  def __next__(self) -> reverb.ReplaySample:
    """Returns the next batch.

    Raises:
      StopIteration: the iterator was closed.
      ConnectionError: the replay server is gone.
    """
    try:
      with self._reading:
        sample = self._next()
    except tf.errors.CancelledError:
      if self._failure:
        raise self._failure[0] from None
      raise StopIteration from None
    info = reverb.SampleInfo(*(np.asarray(field) for field in sample.info))
    return reverb.ReplaySample(info=info, data=self._layout.read(np.asarray(sample.data)))

  def close(self) -> None:
    """Ends the iteration; returns within three seconds, when no `next` waits any more."""
    self._finalizer()


def _watch_server(
  client: reverb.Client,
  stop: threading.Event,
  failure: list[ConnectionError],
  manager: cancellation.CancellationManager,
) -> None:
  """Wakes whoever waits for a batch once the server is gone."""
  while not stop.wait(_SERVER_CHECK_S):
    try:
      check_server(client, stop)
    except ConnectionError as error:
      failure.append(error)
      manager.start_cancel()
      return


def _shut_down(
  stop: threading.Event,
  manager: cancellation.CancellationManager,
  reading: threading.Lock,
  watch: threading.Thread,
) -> None:
  """Ends the watch, and waits until no thread waits for a batch any more."""
  stop.set()
  manager.start_cancel()
  with reading:
    pass
  # The garbage collector may run this in any thread.
  if watch is not threading.current_thread():
    watch.join()
