from __future__ import annotations

import threading

import pytest

reverb = pytest.importorskip('reverb')
tf = pytest.importorskip('tensorflow')

from agents.acme import replay  # noqa: E402
from agents.acme.replay import server as server_lib  # noqa: E402


def _table(name, signature):
  return reverb.Table(
    name,
    reverb.selectors.Uniform(),
    reverb.selectors.Fifo(),
    10,
    reverb.rate_limiters.MinSize(1),
    signature=signature,
  )


def test_layout_comes_back_from_another_client(environment_spec, serve):
  client = serve(replay.make_table('replay', environment_spec, max_size=9, min_size=1, batch_size=1))
  layout = server_lib.table_layout(reverb.Client(client.server_address), 'replay')
  assert layout.to_json() == replay.RowLayout.from_environment_spec(environment_spec).to_json()


def test_unknown_table_is_named_with_those_that_there_are(serve):
  with pytest.raises(ValueError, match=r"no replay table 'replay', only \['other'\]"):
    server_lib.table_layout(serve(_table('other', None)), 'replay')


@pytest.mark.parametrize(
  'signature',
  [None, tf.TensorSpec((3,), tf.uint8), tf.TensorSpec((), tf.uint8, 'x'), {'a': tf.TensorSpec(())}],
)
def test_tables_of_another_make_are_refused(serve, signature):
  with pytest.raises(ValueError, match=r'holds no rows of bytes.*make_table'):
    server_lib.table_layout(serve(_table('replay', signature)), 'replay')


def test_check_server(serve, monkeypatch):
  monkeypatch.setattr(server_lib, '_MAX_CALLS', 3)
  client = serve(_table('replay', None))
  server_lib.check_server(client)
  client.server.stop()
  with pytest.raises(ConnectionError, match='gave no answer in 3 calls'):
    server_lib.check_server(client)


def test_check_server_stops_when_told_to(serve):
  client = serve(_table('replay', None))
  client.server.stop()
  stop = threading.Event()
  stop.set()
  server_lib.check_server(client, stop)
