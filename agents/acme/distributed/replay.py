"""The node that holds the experience."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Sequence
from typing import Any

import launchpad as lp
import reverb
from absl import logging

from agents import signals
from agents.acme.distributed import supervision
from agents.acme.distributed.counter import Stage
from agents.acme.distributed.watchdog import Watchdog, measure

_LOOK_SECONDS = 1.0
STALL_SECONDS = 60.0
"""Seconds in which replay may stand still before the program says so."""


class ReplayNode(lp.ReverbNode):
  """A Reverb server that reports what it does, and warns when it stands still.

  Its tables can be written to disk now and then, and once more when the program stops. Launchpad's own node
  never ends once it makes checkpoints.

  Args:
    make_tables: makes the tables, in the node.
    counter: handle of the program's counter.
    make_logger: makes the logger that is given the numbers of `watchdog.measure` every few seconds, with the
      table's name before each where there are several, and a `warning`, as text, when replay stands still
      while the actors are to act.
    directory: of the checkpoints, the newest of which is restored.
    minutes_between_checkpoints: None for neither checkpoints nor restoring.
    stall_seconds: in which replay may stand still.
  """

  def __init__(
    self,
    make_tables: Callable[[], Sequence[reverb.Table]],
    counter: Any,
    make_logger: Callable[[], Any],
    directory: str | None = None,
    minutes_between_checkpoints: float | None = None,
    *,
    stall_seconds: float = STALL_SECONDS,
  ):
    super().__init__(make_tables)
    self._make_tables = make_tables
    self._counter = counter
    self._input_handles.append(counter)
    self._make_logger = make_logger
    self._directory = directory
    self._minutes = minutes_between_checkpoints
    self._stall_seconds = stall_seconds

  def run(self) -> None:
    """Serves the tables until the program stops."""
    stop = lp.stop_event()
    seconds = None if self._minutes is None or self._directory is None else 60.0 * self._minutes
    server = reverb.Server(
      tables=self._make_tables(),
      port=lp.get_port_from_address(self.reverb_address.resolve()),
      checkpointer=None if seconds is None else reverb.checkpointers.DefaultCheckpointer(self._directory),
    )
    client = reverb.Client(f'localhost:{server.port}')
    counter = self._counter.dereference()
    saved = False
    with contextlib.suppress(supervision.Stopped):
      saved = self._watch(client, supervision.Remote(counter, stop), stop, seconds)
    signals.ignore_termination()
    if seconds is not None and not saved:
      client.checkpoint()
      with contextlib.suppress(supervision.Stopped):
        supervision.Remote(counter, stop, grace=1.0).report(Stage.SAVE, 'replay')
    server.stop()

  def _watch(self, client: reverb.Client, counter: Any, stop: Any, seconds_between_checkpoints: Any) -> bool:
    """Reports and saves until the program stops; returns whether the last experience has been saved."""
    logger = self._make_logger()
    watchdog = Watchdog(self._stall_seconds)
    saved, last_checkpoint = False, time.monotonic()
    while not stop.wait(min(_LOOK_SECONDS, self._stall_seconds)):
      now, stage = time.monotonic(), counter.stage()
      if seconds_between_checkpoints is not None and not saved:
        saved = stage >= Stage.SAVE
        if saved or now - last_checkpoint >= seconds_between_checkpoints:
          client.checkpoint()
          last_checkpoint = now
        if saved:
          counter.report(Stage.SAVE, 'replay')
      tables = client.server_info()
      measured = {
        name if len(tables) == 1 else f'{table}/{name}': value
        for table, info in tables.items()
        for name, value in measure(info).items()
      }
      row = {'actor_steps': counter.get_counts().get('actor_steps', 0), **measured}
      # Once the actors are through, nothing is to move.
      if stage == Stage.TRAIN and (warnings := watchdog.look(tables, now)):
        # The experiment's logger may have no place for text.
        logging.warning('%s', row.setdefault('warning', ' '.join(warnings)))
      logger.write(row)
    return saved


def wait_for_server(client: reverb.Client) -> None:
  """Waits until the replay server is up.

  Args:
    client: a client of the server.

  Raises:
    Stopped: the program stops before.
  """
  # Readers and writers wait as well, but don't notice that the program stops.
  while True:
    supervision.check(supervision.stop_event())
    try:
      client.server_info(timeout=1)
      return
    except (reverb.DeadlineExceededError, RuntimeError):
      continue
