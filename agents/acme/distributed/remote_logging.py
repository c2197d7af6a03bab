"""Metrics on their way from the nodes of a program to the process that writes them down."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Mapping
from typing import Any

import courier
import numpy as np
import portpicker  # type: ignore[import-untyped]

from agents.acme.distributed import supervision

_STEPS = 'actor_steps'


class Receiver(contextlib.AbstractContextManager):
  """Serves loggers to other processes, one call at a time.

  Args:
    make_logger: makes the logger for a label, given a function that tells the actor steps so far.

  Attributes:
    address: for `RemoteLogger`.
  """

  def __init__(self, make_logger: Callable[[str, Callable[[], int]], Any]):
    self._lock = threading.Lock()
    self._steps = 0
    self._loggers: dict[str, Any] = {}
    self._make_logger = make_logger
    port = portpicker.pick_unused_port()
    self.address = f'localhost:{port}'
    self._server = courier.Server(port=port)
    self._server.Bind('write', self.write)

  def __enter__(self) -> Receiver:
    self._server.Start()
    return self

  def __exit__(self, *exception: object) -> None:
    self._server.Stop()
    self._server.Join()

  def write(self, label: str, data: Mapping[str, Any]) -> None:
    """Takes metrics that a part of the run has measured together.

    Args:
      label: `actor`, `evaluator`, `learner` or `replay`.
      data: the metrics, by name, and a `warning` where there is one.
    """
    with self._lock:
      self._steps = int(data.get(_STEPS, 0))
      if label not in self._loggers:
        self._loggers[label] = self._make_logger(label, lambda: self._steps)
      self._loggers[label].write(data)


class RemoteLogger:
  """Sends the metrics of a node to a `Receiver`.

  Args:
    address: of the receiver.
    label: of what is measured.
    period: actor steps between two records; those in between are not sent, unless they warn.
  """

  def __init__(self, address: str, label: str, period: int = 0):
    self._receiver = supervision.Remote(courier.Client(address), supervision.stop_event())
    self._label = label
    self._period = period
    self._next = 0

  def write(self, data: Mapping[str, Any]) -> None:
    """Takes metrics that were measured together, and sends the scalars and the `warning` among them."""
    warning = {name: value for name, value in data.items() if name == 'warning'}
    if self._period and not warning:
      step = int(data.get(_STEPS, 0))
      if step < self._next:
        return
      self._next = step + self._period
    scalars = {
      name: float(value) for name, value in data.items() if name not in warning and np.ndim(value) == 0
    }
    self._receiver.write(self._label, {**scalars, **warning})

  def close(self) -> None:
    """Has nothing to end."""
