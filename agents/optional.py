"""Libraries that need not be installed."""

from __future__ import annotations

import importlib
from types import ModuleType


def import_module(module: str, mend: str) -> ModuleType:
  """Imports a module, or says how to get its package.

  Args:
    module: its name.
    mend: what brings the package, to end the message with.

  Raises:
    ImportError: the package is not installed.
  """
  package = module.partition('.')[0]
  try:
    return importlib.import_module(module)
  except ModuleNotFoundError as error:
    if error.name != package:
      raise
  raise ImportError(f'{package} is not installed: {mend}.')
