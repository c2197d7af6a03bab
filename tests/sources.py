"""The project's own source files."""

from __future__ import annotations

import pathlib

ROOT = pathlib.Path(__file__).parent.parent


def files(package: str) -> list[pathlib.Path]:
  """The files of all modules of a package, its inner packages included."""
  return sorted((ROOT / package).rglob('*.py'))


def dotted(path: pathlib.Path) -> str:
  """The name of the module in a file."""
  return '.'.join(path.relative_to(ROOT).with_suffix('').parts).removesuffix('.__init__')
