"""Shared set-up: the environment that jax, TensorFlow and matplotlib read when first imported."""

from __future__ import annotations

import os
import pathlib
import signal
import sys

if 'jax' in sys.modules:
  raise RuntimeError(
    'jax was imported before tests/conftest.py, so it has one CPU device where the data-parallel '
    'tests need two: import it inside the tests, not in a pytest plugin.'
  )

_HOST_DEVICES = '--xla_force_host_platform_device_count'
if _HOST_DEVICES not in os.environ.get('XLA_FLAGS', ''):
  os.environ['XLA_FLAGS'] = f'{os.environ.get("XLA_FLAGS", "")} {_HOST_DEVICES}=2'.strip()
os.environ.setdefault('TF_CPP_MIN_LOG_LEVEL', '3')
os.environ.setdefault('MPLBACKEND', 'Agg')

# A shell ignores it for what it runs in the background, and so would the programs that tests start.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
  signal.signal(signal.SIGINT, signal.default_int_handler)

import hypothesis  # noqa: E402
import jax  # noqa: E402
import pytest  # noqa: E402

# Most of the time of the tests is compiling. Programs that they start as processes are optimised as ever.
jax.config.update('jax_disable_most_optimizations', True)
# Compiled once per checkout: entries are found by program, options, flags, jaxlib and the processor's kind.
# Not for those processes either: jax writes an entry in place, so one that is killed would leave half of it.
jax.config.update('jax_compilation_cache_dir', str(pathlib.Path(__file__).parents[1] / '.cache' / 'jax'))
jax.config.update('jax_persistent_cache_min_compile_time_secs', 0.0)
jax.config.update('jax_persistent_cache_min_entry_size_bytes', -1)

# The same examples in every run, so that a failure is a change of the code. No deadline, since the
# first example of each shape compiles.
hypothesis.settings.register_profile(
  'sac_blocks', deadline=None, derandomize=True, database=None, max_examples=25
)
hypothesis.settings.load_profile('sac_blocks')

# The trees of pure array functions. Networks and agents call libraries that promote ranks.
_STRICT_RANK_TREES = frozenset({'losses', 'distributions'})


@pytest.fixture(autouse=True)
def strict_ranks(request: pytest.FixtureRequest):
  """Makes jax refuse [B] with [N, B] in the pure functions' tests, unless aligned on purpose."""
  if request.path.parent.name in _STRICT_RANK_TREES:
    with jax.numpy_rank_promotion('raise'):
      yield
  else:
    yield
