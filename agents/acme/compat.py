"""The one place that knows which Acme, and which JAX, are installed.

Two versions of Acme are in use: the release `dm-acme==0.4.0`, and the head of google-deepmind/acme,
which is installed from git. Importing this module mends the release for the JAX and the Reverb that
it runs on here, so import it before any `acme.jax` module. The names below have the interface of
the head, whichever is installed.
"""

from __future__ import annotations

import abc
import contextlib
import functools
import importlib
import importlib.util
import inspect
import types
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import jax

try:
  import acme
  import reverb
  from acme.utils import counting, loggers, signals
  from launchpad.launch import worker_manager, worker_manager_v2
except ModuleNotFoundError as error:
  raise ImportError(
    f'the Acme agents need the module {error.name!r}, which is not installed: run '
    '`uv sync --python 3.10 --extra acme` on Linux'
  ) from error

if TYPE_CHECKING:
  from acme import adders, core, specs

__all__ = [
  'ActorLearnerBuilder',
  'Counter',
  'EnvironmentLoop',
  'LoggerFactory',
  'Networks',
  'Policy',
  'Sample',
  'create_experiment_logger_factory',
  'prefer_acme',
]

#: What a network factory returns.
Networks = TypeVar('Networks')
#: What a builder's `make_policy` returns.
Policy = TypeVar('Policy')
#: What a learner takes from its dataset at a step.
Sample = TypeVar('Sample')
_T = TypeVar('_T')

LoggerFactory = Callable[..., loggers.Logger]
"""Makes the logger of a component: (label, steps_key=None, task_instance=0) -> Logger."""


def _put_back_jax_names() -> None:
  """Puts back the names that the release reads from JAX and that JAX has removed."""
  for module, name, value in (
    (jax, 'xla', types.SimpleNamespace(Device=jax.Device, DeviceArray=jax.Array)),
    (jax, 'tree_multimap', jax.tree_util.tree_map),
    (jax.numpy, 'DeviceArray', jax.Array),
  ):
    if not hasattr(module, name):
      setattr(module, name, value)


def _accept_signature_timeout() -> None:
  """Lets `reverb.Client.trajectory_writer` ignore the timeout that the release's adders pass."""
  original = reverb.Client.trajectory_writer
  if 'get_signature_timeout_ms' in inspect.signature(original, follow_wrapped=False).parameters:
    return

  @functools.wraps(original)
  def trajectory_writer(
    self: reverb.Client,
    num_keep_alive_refs: int,
    *,
    get_signature_timeout_ms: int | None = None,
    **options: Any,
  ) -> reverb.TrajectoryWriter:
    del get_signature_timeout_ms
    return original(self, num_keep_alive_refs, **options)

  reverb.Client.trajectory_writer = trajectory_writer


def _in_launchpad_node() -> bool:
  for manager in (worker_manager, worker_manager_v2):
    with contextlib.suppress(RuntimeError):
      return bool(manager.get_worker_manager())
  return False


def _leave_signals_alone_outside_launchpad() -> None:
  """Makes Acme's loops ask Launchpad for stop signals only inside a Launchpad program.

  Registering with Launchpad reads an absl flag, which raises where nobody has parsed flags (a
  notebook, pytest). It also replaces the signal handlers of the process, after which Ctrl-C no
  longer raises KeyboardInterrupt.
  """
  original = signals.runtime_terminator

  @functools.wraps(original)
  def runtime_terminator(
    callback: Callable[[], Any] | None = None,
  ) -> contextlib.AbstractContextManager[None]:
    return original(callback) if _in_launchpad_node() else contextlib.nullcontext()

  signals.runtime_terminator = runtime_terminator


_AT_HEAD = importlib.util.find_spec('acme.jax.experiments') is not None

if not _AT_HEAD:
  _put_back_jax_names()
  _accept_signature_timeout()
_leave_signals_alone_outside_launchpad()


def prefer_acme(module: str) -> Callable[[_T], _T]:
  """Decorates a class or function that stands in for one that only the head of Acme has.

  Args:
    module: the module of Acme that holds the original, under the same name.

  Returns:
    A decorator that returns the original where the head is installed, else what it decorates.
  """

  def decorate(ours: _T) -> _T:
    return getattr(importlib.import_module(module), ours.__name__) if _AT_HEAD else ours  # type: ignore[attr-defined]

  return decorate


@prefer_acme('acme.utils.counting')
class Counter(counting.Counter):
  """The release's counter, with the head's `get_steps_key`."""

  def get_steps_key(self) -> str:
    """Returns the name under which `get_counts` reports this counter's steps."""
    if not self._prefix or self._return_only_prefixed:
      return 'steps'
    return f'{self._prefix}_steps'


@prefer_acme('acme.environment_loop')
class EnvironmentLoop(acme.EnvironmentLoop):
  """The release's environment loop, with the head's result of `run`.

  Args:
    *args: of the release's loop: environment, actor, counter, logger.
    **options: the same, by name.
  """

  def __init__(self, *args: Any, **options: Any) -> None:
    super().__init__(*args, **options)
    self._steps_done = 0

  def run_episode(self) -> loggers.LoggingData:
    """Runs one episode and returns what is logged about it."""
    result = super().run_episode()
    self._steps_done += int(result['episode_length'])
    return result

  def run(self, num_episodes: int | None = None, num_steps: int | None = None) -> int:
    """Runs whole episodes until `num_episodes` are done or at least `num_steps` steps.

    Args:
      num_episodes: number of episodes; exclusive with `num_steps`.
      num_steps: number of environment steps after which no further episode begins.

    Returns:
      The number of environment steps in the episodes that were finished.
    """
    steps_before = self._steps_done
    super().run(num_episodes, num_steps)
    return self._steps_done - steps_before


@prefer_acme('acme.agents.jax.builders')
class ActorLearnerBuilder(abc.ABC, Generic[Networks, Policy, Sample]):
  """What an agent is made of: replay, data, actor, learner and policy, each built on its own.

  The methods have the names and arguments of the builders at the head of Acme, so that an agent
  written against them runs with either Acme.
  """

  @abc.abstractmethod
  def make_replay_tables(self, environment_spec: specs.EnvironmentSpec, policy: Policy) -> list[reverb.Table]:
    """Returns the tables that hold the experience."""

  @abc.abstractmethod
  def make_dataset_iterator(self, replay_client: reverb.Client) -> Iterator[Sample]:
    """Returns an endless iterator of the batches that the learner consumes."""

  @abc.abstractmethod
  def make_adder(
    self,
    replay_client: reverb.Client,
    environment_spec: specs.EnvironmentSpec | None,
    policy: Policy | None,
  ) -> adders.Adder | None:
    """Returns what writes the actor's experience into the tables."""

  @abc.abstractmethod
  def make_actor(
    self,
    random_key: jax.Array,
    policy: Policy,
    environment_spec: specs.EnvironmentSpec,
    variable_source: core.VariableSource | None = None,
    adder: adders.Adder | None = None,
  ) -> core.Actor:
    """Returns an actor that follows `policy` with parameters read from `variable_source`."""

  @abc.abstractmethod
  def make_learner(
    self,
    random_key: jax.Array,
    networks: Networks,
    dataset: Iterator[Sample],
    logger_fn: LoggerFactory,
    environment_spec: specs.EnvironmentSpec,
    replay_client: reverb.Client | None = None,
    counter: counting.Counter | None = None,
  ) -> core.Learner:
    """Returns the learner; each of its steps takes exactly one element of `dataset`."""

  def make_policy(
    self,
    networks: Networks,
    environment_spec: specs.EnvironmentSpec,
    evaluation: bool = False,
  ) -> Policy:
    """Returns the policy for acting, or with `evaluation` the one to be judged."""
    raise NotImplementedError(f'{type(self).__name__} has to define make_policy')


def _make_experiment_logger(
  label: str, steps_key: str | None = None, task_instance: int = 0
) -> loggers.Logger:
  del task_instance
  return loggers.make_default_logger(label, steps_key=steps_key or f'{label}_steps')


@prefer_acme('acme.utils.experiment_utils')
def create_experiment_logger_factory() -> LoggerFactory:
  """Makes the factory of Acme's default loggers.

  Returns:
    The factory, whose loggers write to the terminal and to a CSV file for each component.
  """
  return _make_experiment_logger
