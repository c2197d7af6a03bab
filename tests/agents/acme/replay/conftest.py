"""Replay servers for the tests of `agents.acme.replay`."""

from __future__ import annotations

import numpy as np
import pytest


@pytest.fixture
def environment_spec():
  specs = pytest.importorskip('acme.specs')
  return specs.EnvironmentSpec(
    observations=specs.Array((2,), np.float32),
    actions=specs.BoundedArray((1,), np.float32, -1.0, 1.0),
    rewards=specs.Array((), np.float64),
    discounts=specs.BoundedArray((), np.float64, 0.0, 1.0),
  )


@pytest.fixture
def serve():
  """Returns a function that starts a server of one table and returns its client."""
  reverb = pytest.importorskip('reverb')
  servers = []

  def start(table):
    servers.append(reverb.Server([table]))
    client = reverb.Client(f'localhost:{servers[-1].port}')
    client.server = servers[-1]
    return client

  yield start
  for server in servers:
    server.stop()


@pytest.fixture
def queue(environment_spec, serve):
  """Returns a client whose table 'replay' hands out each item once, in the order of insertion."""
  reverb = pytest.importorskip('reverb')
  from agents.acme import replay

  def start(spec=environment_spec, **kwargs):
    table = replay.make_table('replay', spec, max_size=1000, min_size=1, batch_size=1, **kwargs)
    return serve(table.replace(sampler=reverb.selectors.Fifo(), max_times_sampled=1))

  return start
