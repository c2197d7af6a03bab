"""Executes the notebooks and writes them with their outputs.

    uv run python colabs/execute.py          # all
    uv run python colabs/execute.py 01 03    # some of them
    uv run python colabs/execute.py --check  # writes nothing

The sources are the scripts beside this one, `NN_name.py` in jupytext's percent format; each becomes
`NN_name.ipynb`. The entry `stack` of a script's header says where it runs: `acme` where Acme is
installed, `modern` where it isn't. Those of the other stack than this interpreter's run in that
stack's own environment, which `uv` makes if need be.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib.util
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence

import jupytext
import nbformat
from jupyter_client.kernelspec import KernelSpecManager
from jupyter_client.manager import KernelManager
from nbclient import NotebookClient

FOLDER = pathlib.Path(__file__).resolve().parent
CHECK_BUDGET = 0.02
# What notebook viewers need, and nothing of the machine.
KERNELSPEC = {'display_name': 'Python 3', 'language': 'python', 'name': 'python3'}
# What `uv` needs for each stack: its environment, and its Python.
_STACKS = {'acme': ('.venv', '3.10'), 'modern': ('.venv-modern', '3.13')}
# Set for tests, and no business of a notebook: the backend would hide its plots.
_UNWANTED_VARIABLES = ('MPLBACKEND', 'XLA_FLAGS', 'COLAB_BUDGET')


def sources(names: Sequence[str] = ()) -> list[pathlib.Path]:
  """Returns the scripts, all of them or those whose names start with one of `names`.

  Raises:
    ValueError: a name fits no script.
  """
  scripts = sorted(FOLDER.glob('[0-9][0-9]_*.py'))
  for name in names:
    if not any(script.stem.startswith(name) for script in scripts):
      raise ValueError(f'No notebook starts with {name!r}, expected {[s.stem for s in scripts]}.')
  return [s for s in scripts if not names or any(s.stem.startswith(name) for name in names)]


def read(script: pathlib.Path) -> nbformat.NotebookNode:
  """Converts a script into a notebook without outputs, the same one each time."""
  notebook = jupytext.read(script)
  for number, cell in enumerate(notebook.cells):
    cell.id = f'cell-{number}'
  return notebook


def stack(notebook: nbformat.NotebookNode) -> str:
  """Returns where a notebook of `read` runs, `acme` or `modern`.

  Raises:
    ValueError: its header doesn't say so.
  """
  value = notebook.metadata.get('stack')
  if value not in ('acme', 'modern'):
    raise ValueError(f"The header must have the entry stack: 'acme' or 'modern', got {value!r}.")
  return value


def this_stack() -> str:
  """Returns the stack of this interpreter."""
  return 'modern' if importlib.util.find_spec('acme') is None else 'acme'


def execute(notebook: nbformat.NotebookNode, budget: float, timeout: int = 1200) -> None:
  """Fills in the outputs, from a fresh kernel of this interpreter in an empty folder.

  Args:
    notebook: changed in place.
    budget: for COLAB_BUDGET, by which lengths and numbers scale.
    timeout: of a cell, in seconds.

  Raises:
    nbclient.exceptions.CellExecutionError: a cell raises.
  """
  environment = {k: v for k, v in os.environ.items() if k not in _UNWANTED_VARIABLES}
  environment['COLAB_BUDGET'] = str(budget)
  if budget < 1:
    # Most of the time is compiling then.
    environment['JAX_DISABLE_MOST_OPTIMIZATIONS'] = '1'
  path = [str(FOLDER.parent), *filter(None, [environment.get('PYTHONPATH')])]
  environment['PYTHONPATH'] = os.pathsep.join(path)
  with tempfile.TemporaryDirectory() as folder, _kernel(folder) as manager:
    client = NotebookClient(
      notebook,
      km=manager,
      timeout=timeout,
      record_timing=False,
      coalesce_streams=True,
      resources={'metadata': {'path': folder}},
    )
    client.execute(env=environment)


@contextlib.contextmanager
def _kernel(folder: str) -> Iterator[KernelManager]:
  """Yields a manager whose kernel is this interpreter, whatever kernels are installed."""
  directory = pathlib.Path(folder, '.kernels', 'this')
  directory.mkdir(parents=True)
  argv = [
    sys.executable,
    '-m',
    'ipykernel_launcher',
    '-f',
    '{connection_file}',
    '--log-level=ERROR',
  ]
  (directory / 'kernel.json').write_text(json.dumps({'argv': argv, **KERNELSPEC}))
  specs = KernelSpecManager(kernel_dirs=[str(directory.parent)], ensure_native_kernel=False)
  manager = KernelManager(kernel_name='this', kernel_spec_manager=specs)
  try:
    yield manager
  finally:
    if manager.has_kernel:
      manager.shutdown_kernel(now=True)


def strip(notebook: nbformat.NotebookNode) -> None:
  """Removes what differs from run to run or tells of the machine."""
  notebook.metadata = nbformat.from_dict({'kernelspec': KERNELSPEC})
  for cell in notebook.cells:
    cell.metadata = {}
    if cell.cell_type == 'code':
      cell.execution_count = None
      for output in cell.outputs:
        if 'metadata' in output:
          output.metadata = {}
        if 'execution_count' in output:
          output.execution_count = None


def outputs(notebook: nbformat.NotebookNode) -> Iterator[Mapping[str, str]]:
  """Yields the outputs of all cells by kind: text by `text/plain`, pictures by `image/png`."""
  for cell in notebook.cells:
    for output in cell.get('outputs', []):
      if output.output_type == 'stream':
        yield {'text/plain': output.text}
      elif output.output_type == 'error':
        yield {'text/plain': '\n'.join(output.traceback)}
      else:
        yield output.data


def execute_elsewhere(names: Sequence[str], options: Sequence[str], stack: str) -> None:
  """Runs this script in the environment of another stack.

  Raises:
    subprocess.CalledProcessError: it failed there.
  """
  folder, python = _STACKS[stack]
  # Of this environment, of which `uv` would warn.
  environment = {k: v for k, v in os.environ.items() if k != 'VIRTUAL_ENV'}
  # Under `uv run` the variable UV names the program.
  command = [os.environ.get('UV', 'uv'), 'run', '--python', python, 'python', __file__]
  subprocess.run(
    [*command, *names, *options, f'--stack={stack}'],
    env={**environment, 'UV_PROJECT_ENVIRONMENT': folder},
    cwd=FOLDER.parent,
    check=True,
  )


def main() -> None:
  parser = argparse.ArgumentParser(
    description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
  )
  parser.add_argument('names', nargs='*', help='how the names of notebooks start; all by default')
  parser.add_argument('--budget', type=float, help='scales lengths; 1 by default, 0.02 for --check')
  parser.add_argument('--check', action='store_true', help='execute, but leave the files')
  parser.add_argument('--stack', choices=list(_STACKS), help='only those of this stack, and here')
  arguments = parser.parse_args()
  budget = arguments.budget or (CHECK_BUDGET if arguments.check else 1.0)
  if arguments.stack not in (None, this_stack()):
    parser.error(
      f'--stack={arguments.stack}, but this Python {sys.version.split()[0]} is of another'
    )
  elsewhere = []
  for script in sources(arguments.names):
    notebook = read(script)
    if stack(notebook) != this_stack():
      elsewhere.append(script.stem)
      continue
    start = time.perf_counter()
    execute(notebook, budget)
    strip(notebook)
    print(f'{script.stem}: {time.perf_counter() - start:.0f} s', flush=True)
    if not arguments.check:
      nbformat.write(notebook, script.with_suffix('.ipynb'))
  if elsewhere and arguments.stack is None:
    options = [f'--budget={budget}', *(['--check'] if arguments.check else [])]
    execute_elsewhere(elsewhere, options, 'modern' if this_stack() == 'acme' else 'acme')


if __name__ == '__main__':
  main()
