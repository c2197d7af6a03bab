"""The notebooks are in step with their sources, show what they say, and run."""

from __future__ import annotations

import ast
import importlib
import importlib.util
import pathlib
import re
import subprocess
import sys
import textwrap
import types
from collections.abc import Iterable, Iterator

import nbformat
import pytest

from colabs import execute
from tests.colabs.solutions import MISTAKES, SOLUTIONS

SCRIPTS = execute.sources()
BUDGET = 0.02
NOT_ANSWERED = 'not answered yet'
ACCEPTED = 'a wrong answer is accepted:'
PLACEHOLDER = re.compile(r'^(answer\w* = None|def answer\w*\(.*\): \.\.\.)$', re.MULTILINE)

notebooks = pytest.mark.parametrize('script', SCRIPTS, ids=[s.stem for s in SCRIPTS])


def committed(script: pathlib.Path) -> nbformat.NotebookNode:
  return nbformat.read(script.with_suffix('.ipynb'), as_version=4)


def code_cells(notebook: nbformat.NotebookNode) -> list[nbformat.NotebookNode]:
  return [cell for cell in notebook.cells if cell.cell_type == 'code']


def text_of(notebook: nbformat.NotebookNode) -> str:
  return '\n'.join(str(output.get('text/plain', '')) for output in execute.outputs(notebook))


def test_there_are_notebooks_and_no_strays():
  assert SCRIPTS
  assert sorted(execute.FOLDER.glob('*.ipynb')) == [s.with_suffix('.ipynb') for s in SCRIPTS]
  assert sorted(SOLUTIONS) == [s.stem for s in SCRIPTS]


def test_names_select_notebooks():
  assert execute.sources([SCRIPTS[0].stem[:2]]) == SCRIPTS[:1]
  with pytest.raises(ValueError, match='No notebook starts with'):
    execute.sources(['99'])


def test_notebooks_of_the_other_stack_are_executed_there(monkeypatch):
  others = [s.stem for s in SCRIPTS if execute.stack(execute.read(s)) != execute.this_stack()]
  calls = []
  monkeypatch.setattr(subprocess, 'run', lambda command, **options: calls.append((command, options)))
  monkeypatch.setattr(sys, 'argv', ['execute.py', '--check', *others])
  execute.main()
  ((command, options),) = calls
  other, python = {'acme': ('modern', '3.13'), 'modern': ('acme', '3.10')}[execute.this_stack()]
  assert command[1:4] == ['run', '--python', python]
  assert command[-len(others) - 3 :] == [*others, '--budget=0.02', '--check', f'--stack={other}']
  assert options['env']['UV_PROJECT_ENVIRONMENT'] == {'acme': '.venv', 'modern': '.venv-modern'}[other]


def test_the_other_stack_is_refused_here(monkeypatch, capsys):
  other = {'acme': 'modern', 'modern': 'acme'}[execute.this_stack()]
  monkeypatch.setattr(sys, 'argv', ['execute.py', f'--stack={other}'])
  with pytest.raises(SystemExit):
    execute.main()
  assert f'--stack={other}, but this Python' in capsys.readouterr().err


def test_a_notebook_without_a_stack_is_refused():
  with pytest.raises(ValueError, match='entry stack'):
    execute.stack(nbformat.v4.new_notebook())


@notebooks
def test_source_and_notebook_are_in_step(script: pathlib.Path):
  source, notebook = execute.read(script), committed(script)
  nbformat.validate(notebook)
  assert [(c.cell_type, c.id, c.source) for c in source.cells] == [
    (c.cell_type, c.id, c.source) for c in notebook.cells
  ], 'execute colabs/execute.py anew'


@notebooks
def test_it_begins_with_aims_and_an_install_cell(script: pathlib.Path):
  notebook = committed(script)
  title, install = notebook.cells[0].source, notebook.cells[1].source
  assert title.startswith('# ')
  assert 3 <= len(re.findall(r'^- ', title, re.MULTILINE)) <= 5, 'three to five aims'
  assert install.startswith('try:\n  import sac_blocks\nexcept ImportError:')
  # Plain pip cannot install the extra `acme`.
  assert re.search(r'^  (%pip install -q|!\{UV\}) .*sac-blocks\[.*git\+', install, re.MULTILINE)
  assert ('-m uv pip install' in install) == (execute.stack(execute.read(script)) == 'acme')
  assert 'BUDGET = float(os.environ.get(' in '\n'.join(c.source for c in code_cells(notebook))


@notebooks
def test_lines_are_short(script: pathlib.Path):
  long = [line for line in script.read_text().splitlines() if len(line) > 100]
  # A row of a table or a formula cannot be broken.
  assert [line for line in long if not line.startswith(('# |', '# $$'))] == []


@notebooks
def test_outputs_show_pictures_and_nothing_of_the_machine(script: pathlib.Path):
  notebook = committed(script)
  assert any('image/png' in output for output in execute.outputs(notebook))
  text = text_of(notebook)
  for pattern in (
    r'Traceback',
    r'(?<![\w.])/(root|home|tmp|usr|opt|work|var|mnt|content)/',
    r' at 0x',
    r'Warning',
  ):
    assert not re.search(pattern, text), pattern
  assert not any(o.output_type == 'error' for c in code_cells(notebook) for o in c.outputs)
  assert script.with_suffix('.ipynb').stat().st_size < 1.5e6


@notebooks
def test_metadata_are_stripped(script: pathlib.Path):
  notebook = committed(script)
  assert notebook.metadata == {'kernelspec': execute.KERNELSPEC}
  assert not any(cell.metadata for cell in notebook.cells)
  for cell in code_cells(notebook):
    assert cell.execution_count is None
    for output in cell.outputs:
      assert not output.get('metadata')
      assert output.get('execution_count') is None


@notebooks
def test_exercises_are_left_to_the_reader(script: pathlib.Path):
  notebook = committed(script)
  answers = [c for c in code_cells(notebook) if PLACEHOLDER.search(c.source)]
  assert 2 <= len(answers) <= 4
  assert len(SOLUTIONS[script.stem]) == len(answers)
  assert text_of(notebook).count(NOT_ANSWERED) == len(answers)
  for solution in SOLUTIONS[script.stem]:
    assert solution.strip() not in script.read_text()


def is_public(module: types.ModuleType, name: str) -> bool:
  """Whether a module exports a name, or has a module of that name which exports names itself."""
  if name in getattr(module, '__all__', ()):
    return True
  full = f'{module.__name__}.{name}'
  if not hasattr(module, '__path__') or importlib.util.find_spec(full) is None:
    return False
  return hasattr(importlib.import_module(full), '__all__')


def foreign_names(source: str) -> Iterator[str]:
  """Yields what is used of this project and is not public."""
  tree, modules = ast.parse(source), {}

  def public_module(name: str) -> types.ModuleType | None:
    module = importlib.import_module(name.partition('.')[0])
    for part in name.split('.')[1:]:
      if not is_public(module, part):
        return None
      module = importlib.import_module(f'{module.__name__}.{part}')
    return module

  for node in ast.walk(tree):
    if isinstance(node, ast.Import):
      for alias in node.names:
        if alias.name.partition('.')[0] in ('sac_blocks', 'agents'):
          module = public_module(alias.name)
          if module is None:
            yield alias.name
          modules[alias.asname or alias.name] = module
    elif isinstance(node, ast.ImportFrom) and (node.module or '').partition('.')[0] in (
      'sac_blocks',
      'agents',
    ):
      module = public_module(node.module)
      for alias in node.names:
        if module is None or not is_public(module, alias.name):
          yield f'{node.module}.{alias.name}'
        elif isinstance(value := getattr(module, alias.name, None), types.ModuleType):
          modules[alias.asname or alias.name] = value

  def resolve(node: ast.AST) -> types.ModuleType | None:
    if isinstance(node, ast.Name):
      return modules.get(node.id)
    if isinstance(node, ast.Attribute) and (module := resolve(node.value)) is not None:
      value = getattr(module, node.attr, None)
      return value if isinstance(value, types.ModuleType) else None
    return None

  for node in ast.walk(tree):
    if not isinstance(node, ast.Attribute):
      continue
    module = resolve(node.value)
    if module is not None and not is_public(module, node.attr):
      yield f'{module.__name__}.{node.attr}'


@notebooks
def test_only_public_names_are_used(script: pathlib.Path):
  if execute.stack(execute.read(script)) != execute.this_stack():
    pytest.skip('its modules cannot be imported on this stack')
  # The magics are comments in the script.
  assert list(foreign_names(script.read_text())) == []


@pytest.mark.parametrize(
  'source',
  [
    'import sac_blocks as sb\nsb.checks',
    'import sac_blocks as sb\nsb.losses.values.soft_value',
    'import sac_blocks.losses.values',
    'from sac_blocks.losses.values import soft_value',
    'from agents.anakin import rollout',
    'from agents.anakin import callbacks\ncallbacks.curve',
  ],
)
def test_private_names_are_found(source: str):
  assert list(foreign_names(source))


def with_mistakes(solution: str, mistakes: Iterable[tuple[str, str]], check_cell: str) -> str:
  """Returns code that tries wrong answers, each of which the check has to notice, and then the right one."""
  check = check_cell[check_cell.rindex('\ncheck(') :].strip()
  code = []
  for old, new in mistakes:
    assert solution.count(old) == 1, f'{old!r} does not stand once in {solution}'
    tried = f'try:\n{textwrap.indent(check, "  ")}\nexcept AssertionError:\n  pass\n'
    code.append(f'{solution.replace(old, new)}\n{tried}else:\n  print({ACCEPTED!r}, {new!r})')
  return '\n'.join([*code, solution])


@pytest.mark.slow
@notebooks
def test_it_runs_with_the_exercises_solved(script: pathlib.Path):
  notebook = execute.read(script)
  if execute.stack(notebook) != execute.this_stack():
    pytest.skip(f'runs on the {execute.stack(notebook)} stack')
  answers = [
    i for i, cell in enumerate(notebook.cells) if cell.cell_type == 'code' and PLACEHOLDER.search(cell.source)
  ]
  solved = list(zip(answers, SOLUTIONS[script.stem], MISTAKES[script.stem], strict=True))
  for i, solution, mistakes in reversed(solved):
    assert mistakes
    notebook.cells[i].source = solution.strip()
    code = with_mistakes(solution.strip(), mistakes, notebook.cells[i + 1].source)
    notebook.cells.insert(i + 2, nbformat.v4.new_code_cell(code, id=f'mistakes-{i}'))
  execute.execute(notebook, BUDGET)
  text = text_of(notebook)
  assert NOT_ANSWERED not in text
  assert [line for line in text.splitlines() if line.startswith(ACCEPTED)] == []
  assert len(re.findall(r'^correct$', text, re.MULTILINE)) == len(answers)
