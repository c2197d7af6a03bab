"""The node that learns."""

from __future__ import annotations

import contextlib
import enum
import threading
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import launchpad as lp
import reverb
from absl import logging
from launchpad import context

from agents import data_parallel
from agents.acme import compat, rate_limits
from agents.acme.checkpointing import Checkpointer, from_host, make_checkpointer, to_host
from agents.acme.distributed import replay as replay_lib
from agents.acme.distributed import supervision
from agents.acme.distributed.counter import Stage, StageWatch, wait_for_stage
from agents.acme.learner import BlocksLearner
from agents.acme.prefetch import PrefetchingIterator

from acme import specs  # isort: skip
from acme.utils import loggers  # isort: skip

_POLL_SECONDS = 0.1
# In which the counts that belong to the last checkpoint still arrive when the program stops.
_GRACE_SECONDS = 5.0
_CLOSING_SECONDS = 2.0


class Peers(NamedTuple):
  """The learners of a program, or of the programs of several hosts, which learn as one.

  Attributes:
    coordinator: where they find each other: host and port of the first, as in `10.0.0.1:1234`, or a Launchpad
      address.
    number: how many there are.
    rank: number of this one, from 0.
  """

  coordinator: lp.Address | str
  number: int
  rank: int


class _Vote(enum.IntEnum):
  """What a learner has to say to its peers before each step; the highest vote holds for all.

  Attributes:
    LEARN: it has a batch.
    THROUGH: its program's budget is spent.
    STOP: its program stops.
  """

  LEARN = 0
  THROUGH = 1
  STOP = 2


class LearnerWorker:
  """Learns until the actors are done or the program stops, and saves.

  The checkpoints hold the learner and the counts, in the form of `run_experiment`. Restoring the counts is
  the counter's own affair.

  Learners with peers begin with the state of the first, and make the same number of steps: when the budget of
  one program is spent the others learn no more, but read on until theirs is, and when one is stopped from
  outside all are.

  Args:
    experiment: what the program runs.
    name: of this learner.
    random_key: for the learner.
    replay: client of the replay server.
    counter: client of the counter.
    directory: of the checkpoints; None for none.
    leads: whether it counts, logs and saves for its program; it needn't if another one does.
    peers: where there are several learners.
  """

  def __init__(
    self,
    experiment: Any,
    name: str,
    random_key: Any,
    replay: reverb.Client,
    counter: Any,
    directory: str | None = None,
    leads: bool = True,
    peers: Peers | None = None,
  ):
    self._experiment = experiment
    self._name = name
    self._random_key = random_key
    self._replay = replay
    self._counter = counter
    self._directory = directory
    self._leads = leads
    self._peers = peers
    self._stop = threading.Event()
    self._stop_program: Callable[[], None] = lp.stop
    self._dataset: Any = None
    self._learner: Any = None
    self._ready = threading.Event()
    self._ended = threading.Event()
    self._on_host: dict[str, tuple[Any, Any]] = {}
    self._unsaved = False
    self._save_error: Exception | None = None

  def get_variables(self, names: Sequence[str]) -> list[Any]:
    """Returns the learner's variables as NumPy arrays, once there is a learner."""
    variables = self._wait_for_learner().get_variables(names)
    return [self._convert(name, value) for name, value in zip(names, variables, strict=True)]

  def run(self) -> None:
    """Learns.

    Raises:
      ValueError: there are several learners, but as threads.
      RuntimeError: the program stopped before the last checkpoint was written.
    """
    self._stop = lp.stop_event()
    # Launchpad answers in this thread only.
    launched = context.get_context()
    self._stop_program = launched.program_stopper
    if self._peers is not None and launched.launch_type is context.LaunchType.LOCAL_MULTI_THREADING:
      raise ValueError(
        f'{self._peers.number} learners cannot be threads of one process, since each needs a JAX of its own: '
        'launch processes, or give one learner several devices.'
      )
    try:
      supervision.run(self._work, interrupt=self._close_dataset)
    finally:
      # Courier waits for calls under way before it ends.
      self._ended.set()
      # A learner that fails while the program goes on has not saved anything.
      if self._leads and self._stop.is_set():
        self._report_saved()
    if self._unsaved:
      raise RuntimeError('The program stopped before the last checkpoint was written.') from self._save_error

  def _wait_for_learner(self) -> Any:
    while not self._ready.wait(_POLL_SECONDS):
      if self._ended.is_set():
        raise RuntimeError('The program stopped before there was a learner.')
    return self._learner

  def _convert(self, name: str, value: Any) -> Any:
    # Once an update, and not once for each of the actors that ask for it.
    before = self._on_host.get(name)
    if before is None or before[0] is not value:
      before = self._on_host[name] = (value, jax.device_get(value))
    return before[1]

  def _close_dataset(self) -> None:
    if close := getattr(self._dataset, 'close', None):
      close()

  def _work(self) -> None:
    experiment, stop = self._experiment, supervision.stop_event()
    if self._peers is not None:
      coordinator = self._peers.coordinator
      address = coordinator if isinstance(coordinator, str) else coordinator.resolve()
      data_parallel.join_processes(address, self._peers.number, self._peers.rank)
    counter = supervision.Remote(self._counter, stop, grace=_GRACE_SECONDS)
    environment_spec = find_environment_spec(experiment)
    networks = experiment.network_factory(environment_spec)
    replay_lib.wait_for_server(self._replay)
    self._dataset = experiment.builder.make_dataset_iterator(self._replay)
    batches: PrefetchingIterator[Any] = PrefetchingIterator(self._dataset)
    # The counts of one learner only, or each update would be counted once for each.
    parent = counter if self._leads else None
    learner_counter = compat.Counter(parent, prefix='learner')
    learner = experiment.builder.make_learner(
      random_key=jax.numpy.asarray(self._random_key),
      networks=networks,
      dataset=batches,
      logger_fn=experiment.logger_factory if self._leads else _no_logger,
      environment_spec=environment_spec,
      replay_client=self._replay,
      counter=learner_counter,
    )
    checkpointer = None
    if self._leads and experiment.checkpointing is not None:
      assert self._directory is not None
      # The counts are saved after the learner.
      saved: dict[str, Any] = {'learner': learner, 'counter': _Counts(counter)}
      checkpointer = make_checkpointer(experiment.checkpointing, saved, self._directory)
      checkpointer.restore()
      self._unsaved = True
    if self._peers is not None:
      # Not even checkpoints need agree, which the hosts write at times of their own.
      learner.restore(from_host(data_parallel.from_first(to_host(learner.save()))))
    self._learner = learner
    self._ready.set()

    try:
      self._learn(learner, batches, StageWatch(counter, Stage.SETTLE), checkpointer, stop)
      if isinstance(learner, BlocksLearner):
        learner.wait()  # Or the evaluators would be given the params before the last.
      # Acme's counters sync about once a second, and upon this.
      learner_counter.restore(learner_counter.save())
      learner_counter.get_counts()
      counter.report(Stage.SETTLE, self._name)
      wait_for_stage(counter, Stage.SAVE, stop)
    except supervision.Stopped:
      pass
    if checkpointer is not None:
      try:
        checkpointer.save(force=True)
        self._unsaved = False
      except Exception as error:
        if not stop.is_set():
          raise
        # Where the program stops anyway, `run` says so.
        self._save_error = error
    if self._leads:
      self._report_saved()
    stop.wait()
    self._stop_reading(batches)

  def _report_saved(self) -> None:
    # The counter waits for it, even if there was nothing to save.
    with contextlib.suppress(supervision.Stopped):
      supervision.Remote(self._counter, self._stop, grace=1.0).report(Stage.SAVE, self._name)

  def _learn(
    self,
    learner: Any,
    batches: PrefetchingIterator[Any],
    settling: StageWatch,
    checkpointer: Checkpointer | None,
    stop: threading.Event,
  ) -> None:
    while True:
      try:
        if not self._may_learn(batches, settling, checkpointer, stop):
          return
        with batches.taking_one('the learner node'):
          learner.step()
      except StopIteration:
        supervision.check(stop)
        raise RuntimeError(
          'The dataset ended, but make_dataset_iterator has to make an endless one.'
        ) from None
      except ConnectionError:
        # The program is about to stop because of it, and what was learned can be saved.
        if not stop.wait(_GRACE_SECONDS):
          raise
        logging.exception('Replay is gone.')
        return

  def _may_learn(
    self,
    batches: PrefetchingIterator[Any],
    settling: StageWatch,
    checkpointer: Checkpointer | None,
    stop: threading.Event,
  ) -> bool:
    """Returns True once there is a batch here and with all peers, and False if learning is over."""
    ready = self._wait_for_batch(batches, settling, checkpointer, stop)
    if self._peers is None:
      return ready
    # Who stops has to tell the others, or they would wait for its part of the next update.
    own_vote = _Vote.LEARN if ready else _Vote.STOP if stop.is_set() else _Vote.THROUGH
    vote = data_parallel.highest_vote(own_vote)
    if vote == _Vote.LEARN:
      return True
    data_parallel.leave_processes()
    if vote == _Vote.STOP and not stop.is_set():
      logging.warning('The program stops, since that of another host was stopped.')
      self._stop_program()
    # The actors would wait for ever for someone to read what they insert.
    while self._wait_for_batch(batches, settling, checkpointer, stop):
      next(batches)
    return False

  def _wait_for_batch(
    self,
    batches: PrefetchingIterator[Any],
    settling: StageWatch,
    checkpointer: Checkpointer | None,
    stop: threading.Event,
  ) -> bool:
    """Returns True once there is a batch, and False if learning is over."""
    while not stop.is_set():
      if settling.reached():
        return False
      if checkpointer is not None:
        checkpointer.save()
      if batches.wait(_POLL_SECONDS):
        return True
    return False

  def _stop_reading(self, batches: PrefetchingIterator[Any]) -> None:
    config = self._experiment.checkpointing
    saves_replay = config is not None and config.replay_checkpointing_time_delta_minutes is not None
    # An iterator that cannot be closed from outside may be waiting for samples in Reverb. What is made up for
    # it must not be saved.
    if not hasattr(self._dataset, 'close') and not saves_replay:
      rate_limits.satisfy_remote_samplers(self._replay, _CLOSING_SECONDS)
    self._close_dataset()
    batches.close(_CLOSING_SECONDS)


def _no_logger(*arguments: Any, **keywords: Any) -> loggers.Logger:
  # What the first one reports holds for all.
  del arguments, keywords
  return loggers.NoOpLogger()


class _Counts:
  """The program's counts, as part of the learner's checkpoint."""

  def __init__(self, counter: Any):
    self.save = counter.save

  def restore(self, state: Any) -> None:
    """Leaves the counts, which may have moved on, as the counter has restored them."""


def find_environment_spec(experiment: Any) -> specs.EnvironmentSpec:
  """Returns the spec that an experiment names, or that of its environment."""
  if experiment.environment_spec is not None:
    return experiment.environment_spec
  environment = experiment.environment_factory(0)
  try:
    return specs.make_environment_spec(environment)
  finally:
    environment.close()
