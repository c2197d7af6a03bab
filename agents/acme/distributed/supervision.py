"""What the nodes of a program have in common: each ends when told to, whatever it is waiting for."""

from __future__ import annotations

import concurrent.futures
import math
import threading
import time
from collections.abc import Callable
from typing import Any

import launchpad as lp
from absl import logging

from agents import signals

# A counter syncs with the program's if its last sync is longer ago than this: always, even where the clock is
# set back. Or the steps of the last episodes would be lost.
SYNC_SECONDS = -math.inf
# How often someone who waits looks whether the program stops.
_POLL_SECONDS = 0.1
# Launchpad kills a node ten seconds after it was told to stop.
_ENDING_SECONDS = 8.0
# When the replay server or the learner is gone, its clients fail a moment before the program is told to stop.
_BLAME_SECONDS = 1.0
_THREAD = threading.local()


class Stopped(SystemExit):
  """The program is stopping, so whoever waits for another node stops waiting; nothing is wrong here."""


def run(work: Callable[[], None], *, interrupt: Callable[[], None] | None = None) -> None:
  """Runs the work of a node in a thread of its own, until it returns or the program stops.

  Python takes signals in its main thread only, and not while that waits inside of Reverb or courier. So the
  main thread of a node does nothing but wait.

  Args:
    work: has to return, or to raise `Stopped`, soon after `stop_event` is set.
    interrupt: called when the program stops, from another thread than `work`, to wake it.

  Raises:
    BaseException: what `work` raised, unless the program is stopping anyway.
  """
  stop = lp.stop_event()
  failures: list[BaseException] = []
  ended = threading.Event()

  def target() -> None:
    _THREAD.stop = stop
    try:
      work()
    except Stopped:
      pass
    except BaseException as error:
      failures.append(error)
    finally:
      ended.set()

  threading.Thread(target=target, name='node', daemon=True).start()
  while not ended.wait(_POLL_SECONDS) and not stop.is_set():
    signals.take_termination_back()
  if not ended.is_set():
    if interrupt is not None:
      try:
        interrupt()
      except Exception:
        logging.exception('While the program was stopping:')
    if not ended.wait(_ENDING_SECONDS):
      logging.error('This node did not end within %g seconds of being told to.', _ENDING_SECONDS)
  blamed = bool(failures) and not stop.wait(_BLAME_SECONDS)
  if stop.is_set():
    signals.ignore_termination()
  if blamed:
    raise failures[0]
  if failures:
    logging.warning('While the program was stopping: %s', failures[0], exc_info=failures[0])


def stop_event() -> threading.Event:
  """Returns the event that is set when the program stops; for threads of Launchpad's, and those of `run`."""
  return getattr(_THREAD, 'stop', None) or lp.stop_event()


class Remote:
  """Another node, whose public methods are called as if it were here.

  A call waits for the node to come up. Where courier would wait for ever, since the node is gone, the call
  ends when the program stops.

  Args:
    client: the node's courier client.
    stop: is set when the program stops.
    grace: seconds from then on in which a call may still get its answer.
  """

  def __init__(self, client: Any, stop: threading.Event, *, grace: float = 0.0):
    self._client = client
    self._stop = stop
    self._grace = grace

  def __getattr__(self, method: str) -> Callable[..., Any]:
    # Courier serves no such methods, and copying would ask for them.
    if method.startswith('_'):
      raise AttributeError(method)

    def call(*args: Any, **kwargs: Any) -> Any:
      future = getattr(self._client.futures, method)(*args, **kwargs)
      deadline = None
      while True:
        try:
          return future.result(timeout=_POLL_SECONDS)
        except concurrent.futures.TimeoutError:
          if future.done():
            return future.result()
        if self._stop.is_set():
          deadline = deadline or time.monotonic() + self._grace
          if time.monotonic() >= deadline:
            future.cancel()
            raise Stopped(f'{method} got no answer before the program stopped')

    return call


class RemoteVariables:
  """A source of variables in another node, which goes on with the last ones when the program stops.

  Args:
    source: the node.
  """

  def __init__(self, source: Remote):
    self._source = source
    self._last: list[Any] | None = None

  def get_variables(self, names: Any) -> list[Any]:
    """Returns the variables, as the source does."""
    try:
      self._last = self._source.get_variables(names)
    except Stopped:
      # Acme fetches in a thread that has nobody to raise to.
      if self._last is None:
        raise
    assert self._last is not None
    return self._last


class StoppableActor:
  """An actor whose episode is cut off when the program stops.

  Args:
    actor: what to do till then.
    check: called before each step; raises if there is to be none.
  """

  def __init__(self, actor: Any, check: Callable[[], None]):
    self._actor = actor
    self._check = check
    self.observe_first = actor.observe_first
    self.observe = actor.observe
    self.update = actor.update

  def select_action(self, observation: Any) -> Any:
    """Returns the actor's action."""
    self._check()
    return self._actor.select_action(observation)


def check(stop: threading.Event) -> None:
  """Raises `Stopped` if the program stops."""
  if stop.is_set():
    raise Stopped('the program stops')
