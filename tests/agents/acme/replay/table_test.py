from __future__ import annotations

import math

import numpy as np
import pytest

reverb = pytest.importorskip('reverb')

from acme import specs  # noqa: E402

from agents.acme import replay  # noqa: E402

_LIMITS = {'max_size': 1000, 'min_size': 10, 'batch_size': 8}


def test_table_is_uniform_and_first_in_first_out(environment_spec):
  info = replay.make_table('replay', environment_spec, **_LIMITS).info
  assert info.name == 'replay'
  assert info.max_size == 1000
  assert info.max_times_sampled == 0
  assert info.sampler_options.uniform
  assert info.remover_options.fifo


def test_ratio_and_window_reach_the_limiter(environment_spec):
  table = replay.make_table('replay', environment_spec, **_LIMITS, samples_per_insert=4.0, error_buffer=12)
  info = table.info.rate_limiter_info
  assert info.samples_per_insert == 4.0
  assert info.min_size_to_sample == 10
  assert (info.min_diff, info.max_diff) == (4 * 10 - 12, 4 * 10 + 12)


@pytest.mark.parametrize('samples_per_insert', [None, math.inf])
def test_without_a_ratio_only_the_size_counts(environment_spec, samples_per_insert):
  table = replay.make_table('replay', environment_spec, **_LIMITS, samples_per_insert=samples_per_insert)
  info = table.info.rate_limiter_info
  assert info.min_size_to_sample == 10
  assert info.max_diff > 1e300
  assert info.min_diff < -1e300


@pytest.mark.parametrize(
  ('changes', 'message'),
  [
    ({'min_size': 2000}, r'min_size=2000 items.*max_size=1000'),
    ({'min_size': 0}, 'min_size must be at least 1, got 0'),
    ({'max_size': 0}, 'max_size must be at least 1, got 0'),
    ({'batch_size': 0}, 'batch_size must be at least 1, got 0'),
    ({'samples_per_insert': 0.0}, 'samples_per_insert must be positive, or None, got 0.0'),
    ({'samples_per_insert': math.nan}, 'got nan'),
    ({'samples_per_insert': 1.0}, 'error_buffer=None is too narrow'),
    # Less than one item, and less than one insert.
    ({'samples_per_insert': 0.1, 'error_buffer': 0.5, 'batch_size': 1}, 'at least 1.0'),
    ({'samples_per_insert': 256.0, 'error_buffer': 25.6}, 'error_buffer=25.6 .*at least 256.0'),
    # One insert allows a batch, but a window of 128 blocks inserts with 127 items left to sample.
    (
      {'samples_per_insert': 1.0, 'error_buffer': 64, 'batch_size': 256},
      r'error_buffer=64 is too narrow: with samples_per_insert=1.0 and batches of 256 .*at least 128.5',
    ),
  ],
)
def test_limits_that_can_never_be_met_are_refused(environment_spec, changes, message):
  with pytest.raises(ValueError, match=message):
    replay.make_table('replay', environment_spec, **(_LIMITS | changes))


def _blocks_both(client, table, limiter_batch):
  """Fills the table until inserts are blocked, and says whether a batch can't be sampled then."""
  with client.trajectory_writer(1) as writer:
    row = np.zeros(table.info.signature.shape, np.uint8)
    while table.can_insert(1):
      writer.append(row)
      writer.create_item('replay', 1.0, writer.history[-1])
      writer.flush()
  return not table.can_sample(limiter_batch)


@pytest.mark.parametrize(
  ('samples_per_insert', 'batch_size'), [(1.0, 16), (16.0, 16), (3.0, 10), (0.5, 4), (8.0, 1)]
)
def test_the_narrowest_window_lets_a_batch_through_when_inserts_are_blocked(
  environment_spec, serve, samples_per_insert, batch_size
):
  narrowest = max(1.0, samples_per_insert, (batch_size + samples_per_insert) / 2)
  table = replay.make_table(
    'replay',
    environment_spec,
    max_size=1000,
    min_size=3,
    batch_size=batch_size,
    samples_per_insert=samples_per_insert,
    error_buffer=narrowest,
  )
  assert not _blocks_both(serve(table), table, batch_size)


def test_a_narrower_window_would_block_reader_and_writer(environment_spec, serve):
  limiter = reverb.rate_limiters.SampleToInsertRatio(1.0, 3, error_buffer=7.0)
  table = replay.make_table('replay', environment_spec, max_size=1000, min_size=3, batch_size=16)
  table = table.replace(rate_limiter=limiter)
  assert _blocks_both(serve(table), table, 16)


def test_projected_bytes():
  scalar = specs.Array((), np.float32)
  spec = specs.EnvironmentSpec(
    observations=specs.Array((87,), np.float32),
    actions=specs.Array((8,), np.float32),
    rewards=scalar,
    discounts=scalar,
  )
  # 4 (2 * 87 + 8 + 2) bytes of data.
  row = 736
  assert replay.projected_bytes(spec, 1) == row + 1536
  assert replay.projected_bytes(spec, 10_000_000) == 10_000_000 * (row + 1536)
