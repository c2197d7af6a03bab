"""The public names and their docstrings, read from the sources: no library has to be there for it."""

from __future__ import annotations

import ast
import dataclasses
import functools
import pathlib
import re
from collections.abc import Iterator

from tests.sources import ROOT, dotted, files

PACKAGES = ('sac_blocks', 'agents')

_HEADING = re.compile(r'^(Args|Attributes|Returns|Raises|Example|Reference): ?')
_ENTRY = re.compile(r'^  (\*{0,2}\w+): ?')


@dataclasses.dataclass(frozen=True)
class Docstring:
  """A docstring and its sections, by heading."""

  text: str
  sections: dict[str, str]

  @classmethod
  def parse(cls, text: str | None) -> Docstring:
    """A section ends where the text is back at the margin, a reference at an empty line."""
    sections: dict[str, str] = {}
    heading = ''
    for line in (text or '').splitlines():
      if found := _HEADING.match(line):
        heading = found[1]
        sections[heading] = line[found.end() :]
      elif heading and (line if heading == 'Reference' else line.startswith(' ') or not line):
        sections[heading] += f'\n{line}'
      else:
        heading = ''
    return cls(text or '', sections)

  def section(self, heading: str) -> str:
    return self.sections.get(heading, '').strip()

  def entries(self, heading: str) -> dict[str, str]:
    """What a section says of each name."""
    entries: dict[str, str] = {}
    name = ''
    for line in self.sections.get(heading, '').splitlines():
      if found := _ENTRY.match(line):
        name = found[1]
        entries[name] = line[found.end() :]
      elif name:
        entries[name] += f' {line.strip()}'
    return {name: entry.strip() for name, entry in entries.items()}


@dataclasses.dataclass(frozen=True)
class Definition:
  """What a public name stands for: a function, a class, a module, or a value."""

  name: str  # as users write it
  place: str  # where it is defined
  node: ast.AST = dataclasses.field(repr=False)
  doc: Docstring = dataclasses.field(repr=False)

  @classmethod
  def parse(cls, name: str, source: str) -> Definition:
    """The definition that a source text consists of."""
    (node,) = ast.parse(source).body
    return cls(name, name, node, Docstring.parse(_docstring(node)))

  @property
  def is_function(self) -> bool:
    return isinstance(self.node, ast.FunctionDef)

  @property
  def is_class(self) -> bool:
    return isinstance(self.node, ast.ClassDef)

  @property
  def bases(self) -> list[str]:
    """The names of the classes that a class inherits from, without their parameters."""
    bases = self.node.bases if isinstance(self.node, ast.ClassDef) else []
    return [ast.unparse(base).partition('[')[0] for base in bases]

  @property
  def _body(self) -> list[ast.stmt]:
    return self.node.body if isinstance(self.node, ast.ClassDef) else []

  @property
  def returns(self) -> str:
    """The annotation of what a function returns."""
    return _returns(self.node) if isinstance(self.node, ast.FunctionDef) else ''

  @property
  def parameters(self) -> dict[str, str]:
    """The annotations of what a function, or the making of an instance, takes."""
    functions = [self.node, *(f for f in self._body if getattr(f, 'name', '') == '__init__')]
    return _parameters(functions[-1]) if isinstance(functions[-1], ast.FunctionDef) else {}

  @property
  def fields(self) -> dict[str, str]:
    """The annotations of the public fields of a NamedTuple or a dataclass."""
    return {
      field.target.id: ast.unparse(field.annotation)
      for field in self._body
      if isinstance(field, ast.AnnAssign)
      and isinstance(field.target, ast.Name)
      and not field.target.id.startswith('_')
    }

  @property
  def methods(self) -> Iterator[Method]:
    for node in self._body:
      if isinstance(node, ast.FunctionDef) and not node.name.startswith('_'):
        is_property = any('property' in ast.unparse(decorator) for decorator in node.decorator_list)
        yield Method(node.name, ast.get_docstring(node) or '', _returns(node), is_property)


@dataclasses.dataclass(frozen=True)
class Method:
  """A public method of a class."""

  name: str
  doc: str
  returns: str
  is_property: bool


def _parameters(function: ast.FunctionDef) -> dict[str, str]:
  """The annotations of a function's parameters, by name as a docstring spells it."""
  spec = function.args
  named = [(arg.arg, arg) for arg in (*spec.posonlyargs, *spec.args, *spec.kwonlyargs)]
  starred = [(star + arg.arg, arg) for star, arg in (('*', spec.vararg), ('**', spec.kwarg)) if arg]
  return {
    name: ast.unparse(arg.annotation) if arg.annotation else ''
    for name, arg in (*named, *starred)
    if name not in ('self', 'cls')
  }


def _returns(function: ast.FunctionDef) -> str:
  annotation = ast.unparse(function.returns) if function.returns else ''
  return annotation if annotation != 'None' else ''


def _docstring(node: ast.AST) -> str:
  return (isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef)) and ast.get_docstring(node)) or ''


def modules(package: str) -> list[str]:
  """The dotted names of all modules of a package, itself included."""
  return sorted(map(dotted, files(package)))


def _file(module: str) -> pathlib.Path:
  path = ROOT.joinpath(*module.split('.'))
  return path / '__init__.py' if path.is_dir() else path.with_suffix('.py')


def is_package(module: str) -> bool:
  return _file(module).name == '__init__.py'


@functools.cache
def _tree(module: str) -> ast.Module:
  return ast.parse(_file(module).read_text())


def exported(module: str) -> list[str]:
  """The names in a module's `__all__`."""
  for node in _tree(module).body:
    if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == '__all__':
      return ast.literal_eval(node.value)
  return []


def find(module: str, name: str) -> Definition:
  """Follows a name through the imports to its definition."""
  for node in ast.walk(_tree(module)):
    # Also inside of `if TYPE_CHECKING`, where names stand that are imported on demand.
    if isinstance(node, ast.ImportFrom) and str(node.module).partition('.')[0] in PACKAGES:
      for alias in node.names:
        if name == (alias.asname or alias.name):
          inner = f'{node.module}.{alias.name}'
          if _file(inner).exists():
            tree = _tree(inner)
            return Definition(f'{module}.{name}', inner, tree, Docstring.parse(_docstring(tree)))
          return dataclasses.replace(find(str(node.module), alias.name), name=f'{module}.{name}')
  place = f'{module}.{name}'
  for node in _tree(module).body:
    if getattr(node, 'name', '') == name:
      return Definition(place, place, node, Docstring.parse(_docstring(node)))
    target = getattr(node, 'target', None) or getattr(node, 'targets', [None])[0]
    if isinstance(target, ast.Name) and target.id == name:
      return Definition(place, place, node, Docstring.parse(_beside(module, node)))
  raise LookupError(f'{place} is neither imported from here nor defined in {_file(module)}.')


def _beside(module: str, assignment: ast.stmt) -> str:
  """What is said of a value: in a comment `#:` above it, or in a string below it."""
  line = _file(module).read_text().splitlines()[assignment.lineno - 2]
  if line.startswith('#: '):
    return line.removeprefix('#: ')
  body = _tree(module).body
  below = body[body.index(assignment) + 1 :][:1]
  is_string = below and isinstance(below[0], ast.Expr) and isinstance(below[0].value, ast.Constant)
  return str(below[0].value.value) if is_string else ''


def bases(definition: Definition) -> Iterator[Definition]:
  """The classes of this project that a class inherits from, near and far."""
  module = definition.place.rpartition('.')[0]
  for name in definition.bases:
    try:
      base = find(module, name)
    except LookupError:
      continue
    base = dataclasses.replace(base, name=base.place)
    yield base
    yield from bases(base)


@functools.cache
def public() -> tuple[Definition, ...]:
  """What stands behind the names in every `__all__`, each once, and what public classes inherit from."""
  found: dict[str, Definition] = {}
  for package in PACKAGES:
    # The root comes first, so that the names of its inner packages win.
    for module in modules(package):
      for name in exported(module):
        definition = find(module, name)
        found[definition.place] = definition
  for definition in tuple(found.values()):
    for base in bases(definition):
      found.setdefault(base.place, base)
  return tuple(sorted(found.values(), key=lambda definition: definition.name))


def everything() -> Iterator[tuple[str, str]]:
  """Yields the place and the docstring of all that has one, public or not."""

  def visit(node: ast.AST, place: str) -> Iterator[tuple[str, str]]:
    if doc := _docstring(node):
      yield place, doc
    for child in getattr(node, 'body', ()):
      if isinstance(child, (ast.ClassDef, ast.FunctionDef)):
        yield from visit(child, f'{place}.{child.name}')

  for package in PACKAGES:
    for module in modules(package):
      yield from visit(_tree(module), module)
