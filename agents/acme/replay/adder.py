"""Writes n-step transitions to replay."""

from __future__ import annotations

import collections
import dataclasses

import dm_env
import numpy as np
import reverb
from acme import adders, types

from agents.acme.replay.server import check_server, table_layout

# How often a writer that waits for room asks whether the server is still there.
_SERVER_CHECK_S = 5
# Items that may be on their way while the environment steps on. At the end of an episode none may.
_MAX_IN_FLIGHT_ITEMS = 5


@dataclasses.dataclass
class _Window:
  """A transition that is still open: its first step, and the sums so far.

  Attributes:
    row: with the first observation and action.
    reward: the discounted return so far, in float64.
    discount: the factor on whatever comes next.
  """

  row: np.ndarray
  reward: float = 0.0
  discount: float = 1.0


class TransitionAdder(adders.Adder):
  r"""Adds one n-step transition per environment step to a table of `make_table`.

  The window that starts at step t has m = n steps, and fewer only where the episode ends before:

    reward   = sum_{k<m} gamma^k (prod_{j<k} d_{t+j}) r_{t+k}
    discount = gamma^m prod_{j<m} d_{t+j}

  for the environment's rewards r and discounts d. So the stored discount is final: it holds gamma, and is 0
  exactly after a true termination. `next_observation` is the one the window arrives at, at the end of an
  episode its last. The sums are made in float64 and stored as float32.

  Args:
    client: a client of the replay server.
    table_name: the table to write to.
    n_step: steps per transition, at least 1.
    discount: gamma, per environment step, in [0, 1].

  Reference: R. Sutton and A. Barto, Reinforcement Learning, 2nd ed., eq. 7.1.
  """

  def __init__(self, client: reverb.Client, table_name: str, *, n_step: int, discount: float) -> None:
    if n_step < 1:
      raise ValueError(f'n_step must be at least 1, got {n_step}.')
    if not 0.0 <= discount <= 1.0:
      raise ValueError(f'discount must be in [0, 1], got {discount}.')
    self._client = client
    self._table_name = table_name
    self._n_step = n_step
    self._discount = float(discount)
    self._layout = table_layout(client, table_name)
    self._writer = client.trajectory_writer(num_keep_alive_refs=1)
    # One row per chunk: a longer one would be decompressed whole for each row that is sampled of it.
    self._writer.configure((), num_keep_alive_refs=1, max_chunk_length=1)
    self._windows: collections.deque[_Window] = collections.deque()
    self._next_row: np.ndarray | None = None

  def add_first(self, timestep: dm_env.TimeStep) -> None:
    """Starts an episode; of one that was broken off, windows still open are dropped.

    Args:
      timestep: the first of the episode.

    Raises:
      ValueError: it is not a first one, or does not fit the table.
    """
    if not timestep.first():
      raise ValueError(f'add_first needs the first timestep of an episode, got {timestep}.')
    self._windows.clear()
    self._next_row = self._start_row(timestep.observation)

  def add(
    self,
    action: types.NestedArray,
    next_timestep: dm_env.TimeStep,
    extras: types.NestedArray = (),
  ) -> None:
    """Adds a step, waiting while the table's rate limiter holds inserts back.

    Args:
      action: what was done.
      next_timestep: what came of it.
      extras: what the policy adds, in the structure of the table's `extras_spec`.

    Raises:
      ValueError: no episode was started, or the step does not fit the table.
      RuntimeError: the adder was closed.
      ConnectionError: the replay server is gone.
    """
    if self._next_row is None:
      raise ValueError('add_first must be called before add, at the start of every episode.')
    if next_timestep.first():
      raise ValueError('add needs a step within the episode, got the first timestep of another.')
    row = self._next_row
    self._layout.write(row, action=action, extras=extras)
    self._windows.append(_Window(row))
    reward, discount = _scalars(next_timestep)
    for window in self._windows:
      window.reward += window.discount * reward
      window.discount *= self._discount * discount
    last = next_timestep.last()
    self._next_row = None if last else self._start_row(next_timestep.observation)
    while self._windows and (last or len(self._windows) == self._n_step):
      self._insert(self._windows.popleft(), next_timestep.observation)
    self._wait(0 if last else _MAX_IN_FLIGHT_ITEMS)

  def reset(self) -> None:
    """Drops windows still open and waits until all inserts have arrived."""
    self._windows.clear()
    self._next_row = None
    self._wait(0)

  def close(self) -> None:
    """Ends the connection, from any thread; an `add` that waits for room raises RuntimeError."""
    self._writer.close()

  def _start_row(self, observation: types.NestedArray) -> np.ndarray:
    row = self._layout.empty_row()
    self._layout.write(row, observation=observation)
    return row

  def _insert(self, window: _Window, next_observation: types.NestedArray) -> None:
    self._layout.write(
      window.row,
      reward=window.reward,
      discount=window.discount,
      next_observation=next_observation,
    )
    self._writer.append(window.row)
    self._writer.create_item(self._table_name, 1.0, self._writer.history[-1])

  def _wait(self, num_items: int) -> None:
    """Waits until all but `num_items` inserts have arrived."""
    while True:
      try:
        return self._writer.flush(num_items, timeout_ms=1000 * _SERVER_CHECK_S)
      except reverb.DeadlineExceededError:
        check_server(self._client)


def _scalars(timestep: dm_env.TimeStep) -> tuple[float, float]:
  """Returns a step's reward and discount in float64."""
  for name in ('reward', 'discount'):
    value = getattr(timestep, name)
    if value is None or np.shape(value) != ():
      raise ValueError(f'the {name} of a step must be one scalar, got {value!r}.')
  return float(timestep.reward), float(timestep.discount)
