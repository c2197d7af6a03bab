"""The node that counts, and ends the program once the budget is spent."""

from __future__ import annotations

import enum
import threading
import time
from collections.abc import Mapping
from typing import Any

import launchpad as lp

# Not through `agents.acme.compat`: this node needs neither Reverb nor TensorFlow, which take most of a start.
from acme.utils import counting

from agents import signals
from agents.acme import checkpointing
from agents.acme.distributed import supervision

_POLL_SECONDS = 0.1
_LOOK_SECONDS = 0.5
# In which the learner may still ask for the counts that go into its last checkpoint, and all may say that
# they have saved.
_GRACE_SECONDS = 8.0


class Stage(enum.IntEnum):
  """How far a program is; each stage begins when all that take part in the one before are through with it.

  Attributes:
    TRAIN: the actors act until the budget is spent, and finish their episodes.
    SETTLE: the learners stop.
    EVALUATE: the evaluators judge the params that are final now.
    SAVE: the learner saves them, and replay itself if it makes checkpoints.
    STOP: everything is done, and the program ends.
  """

  TRAIN = 0
  SETTLE = 1
  EVALUATE = 2
  SAVE = 3
  STOP = 4


class ProgramCounter(counting.Counter):
  """The counts of a whole program, and how far it is.

  It begins with the counts of the newest checkpoint, which the learner saves along with itself.

  Args:
    participants: for each stage, how many report its end; a stage that is missing ends at once.
    directory: of the checkpoints; None for none.
  """

  def __init__(self, participants: Mapping[int, float], directory: str | None = None):
    super().__init__()
    self._participants = dict(participants)
    self._reports: dict[int, set[str]] = {stage: set() for stage in Stage}
    self._stage = Stage.TRAIN
    self._saved = threading.Event()
    states = None if directory is None else checkpointing.read_newest(directory)
    if states is not None:
      self.restore(states['counter'])
    self._counts_at_start = self.get_counts()

  def increment(self, **counts: float) -> dict[str, float]:
    """Adds to the counts and returns them as they are then, which no other call gets to see."""
    with self._lock:
      for name, value in counts.items():
        self._counts[name] = self._counts.get(name, 0) + value
      return self.get_counts()

  def save(self) -> Mapping[str, Mapping[str, float]]:
    """Returns a copy of the counts of one moment."""
    with self._lock:
      return {'counts': dict(self._counts), 'cache': dict(self._cache)}

  def counts_at_start(self) -> Mapping[str, float]:
    """Returns the counts that the program began with."""
    return self._counts_at_start

  def stage(self) -> int:
    """Returns how far the program is, a `Stage`."""
    return int(self._stage)

  def report(self, stage: int, name: str) -> None:
    """Takes note that a participant is through with a stage.

    Args:
      stage: a `Stage`, be it the present one or not.
      name: of the participant, so that whoever reports twice counts once.
    """
    self._reports[Stage(stage)].add(name)
    if self._is_over(Stage.SAVE):
      self._saved.set()

  def run(self) -> None:
    """Leads the program through its stages and stops it, or waits until it is stopped from outside."""
    stop = lp.stop_event()
    if self._lead(stop):
      self._stage = Stage.STOP
      lp.stop()
      stop.wait()
    else:
      self._saved.wait(_GRACE_SECONDS)
    signals.ignore_termination()

  def _lead(self, stop: threading.Event) -> bool:
    """Returns whether the program has come through all stages, and not been stopped before."""
    for stage in list(Stage)[:-1]:
      self._stage = stage
      while not self._is_over(stage):
        if stop.wait(_POLL_SECONDS):
          return False
    return True

  def _is_over(self, stage: Stage) -> bool:
    return len(self._reports[stage]) >= self._participants.get(stage, 0)


class StageWatch:
  """Looks whether a program has come to a stage, but not so often that it costs.

  Args:
    counter: its `ProgramCounter`, or that node.
    stage: a `Stage`.
  """

  def __init__(self, counter: Any, stage: int):
    self._counter = counter
    self._stage = stage
    self._reached = False
    self._next_look = 0.0

  def reached(self) -> bool:
    """Returns whether the program had come to the stage within the last half second."""
    if not self._reached and time.monotonic() >= self._next_look:
      self._next_look = time.monotonic() + _LOOK_SECONDS
      self._reached = self._counter.stage() >= self._stage
    return self._reached


def wait_for_stage(counter: Any, stage: int, stop: threading.Event) -> None:
  """Waits until a program has come to a stage.

  Args:
    counter: its `ProgramCounter`, or that node.
    stage: a `Stage`.
    stop: is set when the program stops.

  Raises:
    Stopped: the program stops before.
  """
  while counter.stage() < stage:
    if stop.wait(_POLL_SECONDS):
      supervision.check(stop)
