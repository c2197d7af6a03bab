from __future__ import annotations

import pytest

pytest.importorskip('acme')

from agents.acme.distributed.watchdog import Watchdog, measure
from tests.agents.acme.rate_limits_test import make_info

from reverb import rate_limiters  # isort: skip


def _info(num_items, inserts, samples):
  return make_info(rate_limiters.SampleToInsertRatio(4.0, 10, 8.0), num_items, inserts, samples)


def test_a_replay_that_works_is_left_alone():
  watchdog = Watchdog(60.0)
  for i in range(20):
    assert not watchdog.look({'replay': _info(20, 20 + i, 4 * i)}, now=30.0 * i)


def test_a_replay_that_is_blocked_is_reported_once_each_time_with_the_numbers_of_its_limiter():
  watchdog = Watchdog(60.0)
  info = _info(12, 12, 0)
  assert not watchdog.look({'replay': info}, now=0.0)
  assert not watchdog.look({'replay': info}, now=59.0)
  (warning,) = watchdog.look({'replay': info}, now=60.0)
  assert warning == (
    'after 60 seconds of waiting for replay nothing is inserted nor sampled any more. The table '
    "'replay' holds 12 items; 12 inserts, 0 samples; samples_per_insert=4, min_size_to_sample=10, "
    'min_diff=32, max_diff=48; inserting has to wait.'
  )
  assert not watchdog.look({'replay': info}, now=119.0)
  assert len(watchdog.look({'replay': info}, now=120.0)) == 1


def test_a_sample_alone_is_progress():
  watchdog = Watchdog(60.0)
  assert not watchdog.look({'replay': _info(12, 12, 0)}, now=0.0)
  assert not watchdog.look({'replay': _info(12, 12, 1)}, now=59.0)
  assert not watchdog.look({'replay': _info(12, 12, 1)}, now=60.0)


def test_a_replay_that_stays_below_its_minimum_is_reported_though_it_fills():
  watchdog = Watchdog(60.0)
  assert not watchdog.look({'replay': _info(0, 0, 0)}, now=0.0)
  (warning,) = watchdog.look({'replay': _info(9, 9, 0)}, now=61.0)
  assert 'it is still below the size at which learning begins' in warning
  assert 'min_size_to_sample=10' in warning
  assert not watchdog.look({'replay': _info(10, 10, 0)}, now=130.0)


def test_each_table_has_a_clock_of_its_own():
  watchdog = Watchdog(60.0)
  assert not watchdog.look({'a': _info(12, 12, 0), 'b': _info(12, 12, 0)}, now=0.0)
  (warning,) = watchdog.look({'a': _info(12, 12, 0), 'b': _info(12, 12, 1)}, now=60.0)
  assert 'inserted' in warning


@pytest.mark.parametrize(
  ('inserts', 'samples', 'ratio'),
  # As the limiter counts: the first 10 inserts allow no samples.
  [(3, 0, 0.0), (10, 3, 0.0), (15, 0, 0.0), (15, 20, 4.0), (110, 380, 3.8)],
)
def test_the_ratio_is_that_of_the_limiter(inserts, samples, ratio):
  measured = measure(_info(10, inserts, samples))
  assert measured == {'items': 10, 'inserts': inserts, 'samples': samples, 'samples_per_insert': ratio}
