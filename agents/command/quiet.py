"""Keeps what libraries say about themselves off the terminal; warnings and errors stay."""

from __future__ import annotations

import contextlib
import os

from absl import logging


def before_imports() -> None:
  """Quietens TensorFlow, absl and Gym, which read or print it when they are imported."""
  os.environ.setdefault('TF_CPP_MIN_LOG_LEVEL', '2')
  logging.set_verbosity(logging.WARNING)
  with contextlib.suppress(ImportError):
    # Gym, which Acme imports, asks its users to move to Gymnasium.
    from gym_notices import notices

    notices.notices.clear()
