from __future__ import annotations

import dataclasses
import math
import sys

import numpy as np
import pytest

pytest.importorskip('acme')

from agents.acme import rate_limits
from agents.acme.prefetch import PrefetchingIterator

import reverb  # isort: skip
import tensorflow as tf  # isort: skip
from reverb import rate_limiters  # isort: skip

_SIGNATURE = {'a': tf.TensorSpec([2, 3], tf.float32), 'b': (tf.TensorSpec([None], tf.int64),)}


def _table(limiter, max_size: int = 1000, signature=_SIGNATURE) -> reverb.Table:
  return reverb.Table(
    'replay', reverb.selectors.Uniform(), reverb.selectors.Fifo(), max_size, limiter, signature=signature
  )


def make_info(limiter, num_items: int, inserts: int, samples: int):
  """Returns what Reverb says about a table after so many inserts and samples."""
  info = _table(limiter).info
  info.rate_limiter_info.insert_stats.completed = inserts
  info.rate_limiter_info.sample_stats.completed = samples
  return dataclasses.replace(info, current_size=num_items)


def test_accepts_limits_that_can_be_met():
  table = _table(rate_limiters.SampleToInsertRatio(4.0, 100, 8.0), max_size=100)
  rate_limits.check_reachable([table], num_steps=100)
  rate_limits.check_reachable([_table(rate_limiters.MinSize(7)), _table(rate_limiters.Queue(7))], 7)


def test_refuses_a_table_smaller_than_its_limiter_asks_for():
  table = _table(rate_limiters.SampleToInsertRatio(4.0, 100, 8.0), max_size=99)
  with pytest.raises(ValueError, match=r"'replay' holds at most 99 items.* below 100: .*Enlarge the table"):
    rate_limits.check_reachable([table], num_steps=10_000)


def test_refuses_an_experiment_that_ends_before_learning_could_start():
  table = _table(rate_limiters.SampleToInsertRatio(4.0, 100, 8.0))
  with pytest.raises(ValueError, match='sampled before 100 inserts, but the experiment ends after 99 steps'):
    rate_limits.check_reachable([table], num_steps=99)


def test_refuses_a_balance_that_the_experiment_never_reaches():
  # 4 inserts - 1 sample >= 40 needs 11 inserts, though 5 items would be enough to sample from.
  table = _table(rate_limiters.RateLimiter(4.0, 5, 40.0, 100.0))
  rate_limits.check_reachable([table], num_steps=11)
  with pytest.raises(ValueError, match='sampled before 11 inserts, but the experiment ends after 10 steps'):
    rate_limits.check_reachable([table], num_steps=10)


def test_unblocked_tables_differ_in_nothing_but_the_upper_bound():
  table = _table(rate_limiters.SampleToInsertRatio(4.0, 100, 8.0))
  (unblocked,) = rate_limits.unblock_inserts([table])
  before, after = table.info.rate_limiter_info, unblocked.info.rate_limiter_info
  assert after.max_diff == sys.float_info.max
  assert (after.samples_per_insert, after.min_size_to_sample, after.min_diff) == (4.0, 100, 392.0)
  assert before.max_diff == 408.0
  assert (unblocked.name, unblocked.info.max_size) == ('replay', 1000)
  assert unblocked.info.signature == table.info.signature


@pytest.mark.parametrize(
  ('limiter', 'backlog'),
  [
    (lambda: rate_limiters.SampleToInsertRatio(4.0, 100, 8.0), 8.0),
    (lambda: rate_limiters.Queue(7), 3.5),
    (lambda: rate_limiters.Queue(1), 1.0),
    (lambda: rate_limiters.MinSize(100), math.inf),
  ],
)
def test_the_tolerated_backlog_is_half_the_window(limiter, backlog):
  assert rate_limits.tolerated_backlog(_table(limiter())) == backlog


@pytest.mark.parametrize(
  ('limiter', 'numbers'),
  [
    (
      lambda: rate_limiters.SampleToInsertRatio(4.0, 100, 8.0),
      'samples_per_insert=4, min_size_to_sample=100, min_diff=392, max_diff=408; sampling has to wait',
    ),
    (
      lambda: rate_limiters.MinSize(1),
      'samples_per_insert=1, min_size_to_sample=1, min_diff=-inf, max_diff=inf; sampling has to wait',
    ),
  ],
)
def test_the_description_has_the_numbers(limiter, numbers):
  assert rate_limits.describe(_table(limiter()).info) == (
    f"'replay' holds 0 items; 0 inserts, 0 samples; {numbers}"
  )


@pytest.mark.parametrize(
  ('num_items', 'inserts', 'samples', 'waiting'),
  [
    # The limiter takes 4 samples an insert, from 10 items on, and lets the balance be in [32, 48].
    (9, 9, 0, 'sampling'),
    (10, 10, 0, 'nothing'),
    (10, 10, 8, 'sampling'),
    (12, 12, 0, 'inserting'),
    (12, 12, 3, 'inserting'),
    (12, 12, 4, 'nothing'),
  ],
)
def test_the_description_says_who_has_to_wait(num_items, inserts, samples, waiting):
  limiter = rate_limiters.SampleToInsertRatio(4.0, 10, 8.0)
  info = make_info(limiter, num_items, inserts, samples)
  assert rate_limits.describe(info).endswith(f'; {waiting} has to wait')


@pytest.mark.parametrize('remote', [False, True])
@pytest.mark.parametrize('samples_per_insert', [1.0, 256.0])
@pytest.mark.parametrize('num_inserts', [0, 120])
def test_a_sampler_that_waits_for_its_limiter_is_satisfied(samples_per_insert, num_inserts, remote):
  error_buffer = max(2.0, samples_per_insert)
  limiter = rate_limiters.SampleToInsertRatio(samples_per_insert, 100, error_buffer)
  tables = rate_limits.unblock_inserts([_table(limiter)])
  server = reverb.Server(tables)
  client = reverb.Client(f'localhost:{server.port}')
  with client.trajectory_writer(1) as writer:
    for _ in range(num_inserts):
      writer.append({'a': np.ones((2, 3), np.float32), 'b': (np.ones((4,), np.int64),)})
      column = writer.history
      writer.create_item('replay', 1.0, {'a': column['a'][-1], 'b': (column['b'][0][-1],)})
    writer.flush()
  batches = PrefetchingIterator(client.sample('replay', num_samples=10**9, emit_timesteps=False))
  while batches.wait(0.1):
    next(batches)
  assert not batches.ready()
  if remote:
    assert rate_limits.satisfy_remote_samplers(client, timeout=10.0)
  else:
    assert rate_limits.satisfy_samplers(client, tables, timeout=10.0)
  assert batches.close(timeout=10.0)
  server.stop()


def test_a_server_that_is_gone_needs_no_satisfying():
  server = reverb.Server([_table(rate_limiters.MinSize(3))])
  client = reverb.Client(f'localhost:{server.port}')
  server.stop()
  assert not rate_limits.satisfy_remote_samplers(client, timeout=10.0)


def test_every_table_is_filled_with_items_of_its_own_shape():
  tables = [
    _table(rate_limiters.MinSize(3)),
    reverb.Table.queue('queue', 5, signature=tf.TensorSpec([], tf.bool)),
  ]
  server = reverb.Server(tables)
  client = reverb.Client(f'localhost:{server.port}')
  assert rate_limits.satisfy_samplers(client, tables, timeout=10.0)
  assert [table.info.current_size for table in tables] == [3, 1]
  server.stop()


@pytest.mark.parametrize('signature', [None, tf.TensorSpec([], tf.string), tf.TensorSpec(None, tf.float32)])
def test_a_table_whose_signature_does_not_say_what_fits_is_left_alone(signature):
  table = _table(rate_limiters.MinSize(1), signature=signature)
  server = reverb.Server([table])
  assert not rate_limits.satisfy_samplers(reverb.Client(f'localhost:{server.port}'), [table], 10.0)
  assert table.info.current_size == 0
  server.stop()
