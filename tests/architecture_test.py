"""The layers may import only downwards, and importing stays cheap."""

from __future__ import annotations

import ast
import graphlib
import importlib
import pathlib
import re
import subprocess
import sys
from collections.abc import Iterator

import pytest

import sac_blocks
from tests.sources import ROOT, dotted, files

# What each part of sac_blocks may import of the others.
LAYERS = {
  'types': set(),
  'checks': {'types'},
  'densities': {'types', 'checks'},
  # They bring distrax along, which takes seconds to import: only networks may.
  'distributions': {'types', 'checks', 'densities'},
  'observations': set(),
  'reductions': {'types', 'checks'},
  'losses': {'types', 'checks', 'densities', 'reductions'},
  'actions': {'types', 'densities', 'losses'},
  # A block that moves targets calls the formula rather than repeat it.
  'blocks': {'types', 'checks', 'losses.targets'},
  # For every kind of action, so none of them may ask which it is.
  'objectives': {'types', 'checks', 'reductions', 'losses'},
  'recipes': {'types', 'checks', 'reductions', 'actions', 'losses', 'blocks', 'objectives'},
  'networks': {'types', 'distributions', 'actions', 'observations'},
}

# What each folder and top-level module of agents may import of the others, the lowest first.
AGENTS = {
  'optional': set(),
  'signals': set(),
  'data_parallel': set(),
  'records': set(),
  'config': {'data_parallel'},
  'environments': {'optional'},
  'acme.replay': set(),
  'acme': {'acme.replay', 'config', 'data_parallel'},
  'acme.local': {'acme', 'signals'},
  'acme.distributed': {'acme', 'data_parallel', 'signals'},
  'experiments': {'acme', 'acme.local', 'acme.distributed'},
  # Their builders only.
  'sac': {'config', 'acme'},
  'sac_discrete': {'config', 'acme'},
  'anakin.environments': {'optional'},
  'anakin': {'anakin.environments', 'config', 'data_parallel'},
  'anakin.callbacks': {'anakin', 'anakin.environments', 'optional', 'records'},
  'command': {
    'acme',
    'acme.distributed',
    'anakin',
    'anakin.callbacks',
    'anakin.environments',
    'config',
    'environments',
    'experiments',
    'records',
    'sac',
    'sac_discrete',
    'signals',
  },
  'run': {'acme', 'anakin.callbacks', 'command', 'records', 'signals'},
}

# What only agents.acme may import.
ACME = ('acme', 'courier', 'launchpad', 'reverb', 'tensorflow')

HEAVY = (
  'acme',
  'distrax',
  'haiku',
  'launchpad',
  'reverb',
  'sonnet',
  'tensorflow',
  'tensorflow_probability',
)


def imports(path: pathlib.Path, *, top_level_only: bool = False) -> Iterator[str]:
  """Yields the dotted names that a file imports; `from a import b` gives a.b."""
  tree = ast.parse(path.read_text())
  for node in tree.body if top_level_only else ast.walk(tree):
    if isinstance(node, ast.Import):
      yield from (alias.name for alias in node.names)
    elif isinstance(node, ast.ImportFrom):
      assert node.level == 0, f'{dotted(path)} has a relative import, which the table cannot see'
      yield from (f'{node.module}.{alias.name}' for alias in node.names)


@pytest.mark.parametrize('path', files('sac_blocks'), ids=dotted)
def test_sac_blocks_imports_only_downwards(path: pathlib.Path):
  if path == ROOT / 'sac_blocks' / '__init__.py':
    return
  layer = path.relative_to(ROOT / 'sac_blocks').parts[0].removesuffix('.py')
  assert layer in LAYERS, f'{path} is in no layer of the import table'
  for name in imports(path):
    assert not name.startswith('agents'), f'{dotted(path)} imports {name}'
    assert name != 'sac_blocks', f'{dotted(path)} imports the whole package'
    if not name.startswith('sac_blocks.'):
      continue
    below = name.removeprefix('sac_blocks.')
    allowed = {layer, *LAYERS[layer]}
    assert any(below == part or below.startswith(f'{part}.') for part in allowed), (
      f'{dotted(path)} imports {name}; {layer} may import {sorted(allowed)}'
    )


def part_of_agents(name: str) -> str:
  """The entry of the table that a module, or a name in one, belongs to."""
  below = name.removeprefix('agents.')
  fitting = [part for part in AGENTS if f'{below}.'.startswith(f'{part}.')]
  assert fitting, f'{name} is in no entry of the table'
  return max(fitting, key=len)


def imported_parts() -> dict[str, set[str]]:
  """What each part of agents imports of the others."""
  found: dict[str, set[str]] = {part: set() for part in AGENTS}
  for path in files('agents'):
    module = dotted(path)
    if module == 'agents':
      continue
    part = part_of_agents(module)
    for name in imports(path):
      # A package may re-export what is in its folders.
      re_exported = path.name == '__init__.py' and name.startswith(f'{module}.')
      if name.startswith('agents.') and not re_exported:
        found[part] |= {part_of_agents(name)} - {part}
  return found


def test_the_parts_of_agents_import_only_downwards():
  assert set(AGENTS) == {
    path.removesuffix('/').removesuffix('.py').replace('/', '.') for path in parts_of_agents()
  }
  for part, found in imported_parts().items():
    assert found <= AGENTS[part], f'agents.{part} imports {sorted(found - AGENTS[part])}'


@pytest.mark.parametrize('parts', [AGENTS, imported_parts()], ids=['allowed', 'found'])
def test_the_parts_of_agents_import_in_no_circle(parts: dict[str, set[str]]):
  assert set(graphlib.TopologicalSorter(parts).static_order()) == set(AGENTS)


@pytest.mark.parametrize('path', files('agents'), ids=dotted)
def test_only_agents_acme_imports_acme(path: pathlib.Path):
  if not dotted(path).startswith('agents.acme'):
    assert [name for name in imports(path) if name.split('.')[0] in ACME] == []


def test_of_an_agent_only_the_builder_needs_acme():
  for package in ('agents/sac', 'agents/sac_discrete'):
    importers = [p.name for p in files(package) if any(n.startswith('agents.acme.') for n in imports(p))]
    assert importers == ['builder.py']


def parts_of_agents() -> set[str]:
  """The folders of agents at any depth, with a slash at their end, and the modules at the top."""
  root = ROOT / 'agents'
  folders = {f'{path.parent.relative_to(root)}/' for path in files('agents') if path.parent != root}
  return folders | {path.name for path in root.glob('*.py')} - {'__init__.py'}


def drawn_parts(text: str) -> list[str]:
  """The paths in a tree of which each line is a name, indented by two spaces, and what it is."""
  drawn, above = [], []
  for line in text.splitlines():
    name, _, meaning = line.strip().partition(' ')
    assert meaning.strip(), f'{name} has no meaning'
    depth = (len(line) - len(line.lstrip())) // 2 - 1
    above[depth:] = [name]
    drawn.append(''.join(above))
  return drawn


def test_the_drawing_of_agents_names_what_is_there():
  tree = re.search(r'```\nagents/\n(.*?)```', (ROOT / 'agents' / 'README.md').read_text(), re.DOTALL)
  assert tree is not None
  drawn = drawn_parts(tree.group(1))
  assert len(drawn) == len(set(drawn))
  assert set(drawn) == parts_of_agents()


def test_drawings_are_read_by_their_indentation():
  assert drawn_parts('  a/  x\n    b/  y\n    c/  z\n  d.py  w\n') == ['a/', 'a/b/', 'a/c/', 'd.py']
  with pytest.raises(AssertionError, match='b/ has no meaning'):
    drawn_parts('  a/  x\n  b/\n')


def test_only_networks_import_haiku():
  importers = {
    dotted(path)
    for package in ('sac_blocks', 'agents')
    for path in files(package)
    if any(name.split('.')[0] == 'haiku' for name in imports(path))
  }
  assert importers
  assert all(name.startswith('sac_blocks.networks.') for name in importers), importers


def test_only_the_compatibility_module_asks_which_acme_is_installed():
  for path in files('agents'):
    if dotted(path) != 'agents.acme.compat':
      source = path.read_text()
      assert not re.search(r'hasattr\(acme|acme\.__version__|find_spec\(.acme', source), dotted(path)


@pytest.mark.parametrize('path', files('agents'), ids=dotted)
def test_agents_use_public_names_of_sac_blocks(path: pathlib.Path):
  for name in imports(path):
    if name.startswith('sac_blocks.'):
      module, attribute = name.rsplit('.', 1)
      exported = getattr(importlib.import_module(module), '__all__', None)
      assert exported is not None, f'{dotted(path)} reaches into {module}'
      assert attribute in exported or name == 'sac_blocks.networks', f'{name} is not public'


@pytest.mark.parametrize('package', ['sac_blocks', 'agents', 'agents.run'])
def test_importing_is_cheap(package: str):
  code = f'import sys, {package}; print(*sorted(set(sys.modules) & set({HEAVY!r})))'
  result = subprocess.run([sys.executable, '-c', code], capture_output=True, text=True, check=True, cwd=ROOT)
  assert result.stdout.split() == []


def test_on_device_training_loads_what_writes_files_only_for_callbacks_that_do():
  names = ('PIL', 'matplotlib', 'orbax', 'scipy', 'tensorboardX', 'tqdm')
  code = f'import sys, agents.anakin; print(*sorted(set(sys.modules) & set({names!r})))'
  result = subprocess.run([sys.executable, '-c', code], capture_output=True, text=True, check=True, cwd=ROOT)
  assert result.stdout.split() == []


@pytest.mark.parametrize(
  'path',
  [p for package in ('sac_blocks', 'agents') for p in files(package) if p.name == '__init__.py'],
  ids=dotted,
)
def test_init_files_only_re_export(path: pathlib.Path):
  for node in ast.parse(path.read_text()).body:
    docstring = isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
    names = [t.id for t in node.targets if isinstance(t, ast.Name)] if isinstance(node, ast.Assign) else []
    constant = bool(names) and all(name in ('__all__', '__version__') for name in names)
    # A name that is imported on demand, with its import for type checkers.
    on_demand = isinstance(node, ast.If) or (isinstance(node, ast.FunctionDef) and node.name == '__getattr__')
    assert docstring or constant or on_demand or isinstance(node, ast.ImportFrom), ast.unparse(node)


def test_the_version_stands_in_one_place():
  pyproject = (ROOT / 'pyproject.toml').read_text()
  assert re.fullmatch(r'\d+\.\d+\.\d+', sac_blocks.__version__)
  assert 'dynamic = ["version"]' in pyproject
  assert sac_blocks.__version__ not in pyproject.replace('hatchling', '')
