"""What compiled programs do with large arrays."""

from __future__ import annotations

import math
import re
from typing import Any


def large_instructions(compiled: Any, size: int) -> list[str]:
  """Returns the operations whose result has at least `size` elements, those inside of fusions too."""
  found = re.findall(r'= \w+\[([\d,]+)\]\S* ([\w-]+)\(', compiled.as_text())
  return [name for shape, name in found if math.prod(map(int, shape.split(','))) >= size]
