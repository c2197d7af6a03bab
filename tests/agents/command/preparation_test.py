from __future__ import annotations

import subprocess
import sys

import pytest

pytest.importorskip('acme')

_PROGRAM = """
import sys
from agents.command import preparation
preparation.quieten_imports()
import agents.sac.builder
print('an error', file=sys.stderr)
"""


@pytest.mark.slow
def test_imports_say_nothing():
  result = subprocess.run([sys.executable, '-c', _PROGRAM], capture_output=True, text=True, check=True)
  assert result.stderr == 'an error\n'
  assert result.stdout == ''
