from __future__ import annotations

import subprocess
import sys

import pytest

pytest.importorskip('acme')

_PROGRAM = """
import sys
from agents.command import quiet
quiet.before_imports()
import agents.sac, reverb
quiet.after_imports()
table = reverb.Table.queue('queue', max_size=1)
server = reverb.Server([table])
reverb.Client(f'localhost:{server.port}').server_info()
server.stop()
print('an error', file=sys.stderr)
"""


@pytest.mark.slow
def test_only_errors_reach_the_terminal():
  result = subprocess.run([sys.executable, '-c', _PROGRAM], capture_output=True, text=True, check=True)
  assert result.stderr == 'an error\n'
  assert result.stdout == ''
