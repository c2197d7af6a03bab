"""Kills each process of a distributed run at several moments, resumes it, and prints a table of the outcomes.

    uv run python -m tests.benchmarks.kill_matrix

It takes about half an hour on 2 cores; with arguments, only the nodes that they name.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from agents.command import preparation
from tests.agents.command import kill_test


def main(nodes: list[str]) -> None:
  print(
    f'{"killed":>10} {"moment":>9} {"exit":>5} {"ended in":>9} {"steps":>6} {"saved":>6}  resumed', flush=True
  )
  for node in nodes or kill_test.NODES:
    for moment in kill_test.MOMENTS:
      directory = Path(tempfile.mkdtemp()) / 'run'
      outcome = kill_test.kill(directory, node, moment)
      kill_test.check_outcome(outcome, node)
      if outcome.saved_steps is None:
        resumed = 'nothing was saved yet'
      else:
        resumed = kill_test.resume(directory, outcome)
      saved = '-' if outcome.saved_steps is None else f'{outcome.saved_steps:,}'
      print(
        f'{node:>10} {moment:>9} {outcome.code:>5} {outcome.seconds:>7.1f} s {outcome.steps:>6,} {saved:>6}  '
        f'{resumed}',
        flush=True,
      )


if __name__ == '__main__':
  preparation.quieten_imports()
  main(sys.argv[1:])
