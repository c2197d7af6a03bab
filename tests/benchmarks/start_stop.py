"""Starts a short distributed run many times in a row, and checks that each ends by itself and leaves nothing.

uv run python -m tests.benchmarks.start_stop [number of runs, by default 20]
"""

from __future__ import annotations

import sys
import tempfile
import time
from pathlib import Path

from tests.agents.command import program
from tests.agents.command.program import TINY, Program


def main(number: int) -> None:
  seconds = []
  for i in range(number):
    directory = Path(tempfile.mkdtemp()) / 'run'
    start = time.monotonic()
    # It also checks that no process is left.
    code, _, errors = Program(*TINY, '--steps=400', f'--logdir={directory}').finish()
    seconds.append(time.monotonic() - start)
    assert code == 0, errors
    last = program.check_episodes(directory)
    assert program.evaluation_steps(directory).count(last) == 1
    assert program.checkpoints(directory) == ['checkpoint-00000001.pickle']
    print(f'{i + 1:>3}: exit code 0 after {seconds[-1]:.1f} s and {last} steps, nothing left', flush=True)
  print(f'{number} of {number}, in {min(seconds):.1f} to {max(seconds):.1f} s each')


if __name__ == '__main__':
  main(int(sys.argv[1]) if len(sys.argv) > 1 else 20)
