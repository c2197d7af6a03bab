"""The settings of a run, kept as `config.json` beside its results, and the errors of a run that cannot be."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import platform
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

FILE_NAME = 'config.json'


@dataclasses.dataclass(frozen=True)
class Settings:
  """What a run does.

  Attributes:
    agent: the name of the agent.
    env: the name of the environment.
    seed: of environment, networks and noise.
    steps: environment steps to train for.
    eval_every: environment steps between evaluations.
    num_eval_episodes: episodes of an evaluation.
    checkpoint_minutes: minutes between checkpoints.
    config: options of the agent, by name.
    networks: options of its networks, by name.
    runner: what runs it, `local`, `distributed` or `anakin`.
    num_seeds: seeds of a run on the device.
    num_devices: devices over which it is spread.
    num_actors: actors of a distributed run.
    num_learner_nodes: learners of a distributed run.
    num_hosts: hosts whose distributed runs learn as one.
    host_index: number of this one, from 0.
    coordinator_address: where their learners find each other, host and port; None for one host.
    launch: what the nodes of a distributed run are, processes (`local_mp`) or threads (`local_mt`).
    replay_checkpoint_minutes: minutes between checkpoints of the replay of a distributed run; None for none.
  """

  agent: str
  env: str
  seed: int
  steps: int
  eval_every: int
  num_eval_episodes: int
  checkpoint_minutes: float
  config: Mapping[str, Any]
  networks: Mapping[str, Any]
  runner: str = 'local'
  num_seeds: int = 1
  num_devices: int = 1
  num_actors: int = 2
  num_learner_nodes: int = 1
  num_hosts: int = 1
  host_index: int = 0
  coordinator_address: str | None = None
  launch: str = 'local_mp'
  replay_checkpoint_minutes: float | None = None

  def save(self, directory: Path) -> None:
    """Writes the settings, and the versions that they run with, into an existing directory."""
    # Importing these takes seconds, which reading settings need not.
    import jax

    import sac_blocks

    versions = {
      'sac_blocks': sac_blocks.__version__,
      'jax': jax.__version__,
      'python': platform.python_version(),
    }
    temporary = directory / f'.{FILE_NAME}.tmp'
    temporary.write_text(json.dumps({**dataclasses.asdict(self), 'versions': versions}, indent=2) + '\n')
    os.replace(temporary, directory / FILE_NAME)

  @classmethod
  def load(cls, directory: Path) -> Settings:
    """Reads the settings of a run.

    Args:
      directory: of the run.

    Returns:
      The settings, in which JSON's lists stand for tuples.

    Raises:
      ValueError: the directory holds none.
    """
    path = directory / FILE_NAME
    try:
      values = json.loads(path.read_text())
      return cls(
        **{
          field.name: values[field.name]
          for field in dataclasses.fields(cls)
          # A run may be older than an option.
          if field.name in values or field.default is dataclasses.MISSING
        }
      )
    except FileNotFoundError:
      raise ValueError(f'{directory} holds no run: it has no {FILE_NAME}') from None
    except (json.JSONDecodeError, KeyError, TypeError):
      raise ValueError(f'{path} does not hold the settings of a run') from None


class UsageError(Exception):
  """What was asked for cannot be done; the message is one sentence for whoever asked."""


class RunError(Exception):
  """A part of a run that works in a process of its own failed; the message says which, and how it ended."""


@contextlib.contextmanager
def usage_errors(*kinds: type[Exception], about: str = '') -> Iterator[None]:
  """Turns exceptions whose message says what is wrong with a setting into usage errors.

  Args:
    *kinds: of exceptions.
    about: goes before their message.

  Raises:
    UsageError: one of them was raised.
  """
  try:
    yield
  except kinds as error:
    raise UsageError(f'{about}{error}') from error
