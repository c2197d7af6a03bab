"""What the replay server says of itself."""

from __future__ import annotations

import threading

import reverb

from agents.acme.replay.layout import RowLayout

# A server that another process of the same program starts may come up later than its clients.
_START_TIMEOUT_S = 300
# How often a server that gives no answer within a second is asked again. Short calls, since a thread that
# is in one at the interpreter's exit aborts the process; many, since the machine may be busy.
_MAX_CALLS = 10


def table_layout(client: reverb.Client, table_name: str) -> RowLayout:
  """Reads the layout of a table's rows from the replay server, waiting until that has started.

  Args:
    client: a client of the server.
    table_name: a table of `make_table`.

  Returns:
    The layout.

  Raises:
    reverb.DeadlineExceededError: the server did not answer within five minutes.
    ValueError: there is no such table, or something else made it.
  """
  tables = client.server_info(timeout=_START_TIMEOUT_S)
  if table_name not in tables:
    raise ValueError(f'there is no replay table {table_name!r}, only {sorted(tables)}.')
  signature = tables[table_name].signature
  try:
    return RowLayout.from_json(signature.name)
  except (AttributeError, TypeError, ValueError) as error:
    raise ValueError(
      f'the replay table {table_name!r} holds no rows of bytes but {signature}: make it with '
      'agents.acme.replay.make_table.'
    ) from error


def check_server(client: reverb.Client, stop: threading.Event | None = None) -> None:
  """Raises if the replay server is gone: Reverb's readers and writers would wait for it for ever.

  Args:
    client: a client of the server.
    stop: ends the check early, without a result.

  Raises:
    ConnectionError: the server did not answer within ten seconds.
  """
  for _ in range(_MAX_CALLS):
    if stop is not None and stop.is_set():
      return
    try:
      client.server_info(timeout=1)
      return
    except (reverb.DeadlineExceededError, RuntimeError):
      # A RuntimeError is a connection that broke, and the next call makes a new one.
      continue
  raise ConnectionError(
    f'the replay server at {client.server_address} gave no answer in {_MAX_CALLS} calls of a second: it has '
    'stopped, or its machine is overloaded.'
  )
