"""Keeps what libraries say about themselves off the terminal; warnings and errors stay."""

from __future__ import annotations

import contextlib
import ctypes
import os
import sys

from absl import logging


def before_imports() -> None:
  """Quietens TensorFlow, absl and Gym, which read or print it when they are imported."""
  os.environ.setdefault('TF_CPP_MIN_LOG_LEVEL', '2')
  logging.set_verbosity(logging.WARNING)
  with contextlib.suppress(ImportError):
    # Gym, which Acme imports, asks its users to move to Gymnasium.
    from gym_notices import notices  # type: ignore[import-not-found]

    notices.notices.clear()


def after_imports() -> None:
  """Quietens Reverb: std::clog discards what it is given.

  Reverb tells it about every server and client, and has no setting for that. Its fatal errors go to
  std::cerr. Before a library in C++ is imported there is no std::clog yet.
  """
  if sys.platform != 'linux':
    return
  with contextlib.suppress(OSError, ValueError, AttributeError):
    library = ctypes.CDLL('libstdc++.so.6')
    stream = ctypes.c_char.in_dll(library, '_ZSt4clog')
    # clog.setstate(badbit). An ostream is a pointer to its table of functions, and then its basic_ios.
    set_state = library['_ZNSt9basic_iosIcSt11char_traitsIcEE5clearESt12_Ios_Iostate']
    set_state(ctypes.c_void_p(ctypes.addressof(stream) + ctypes.sizeof(ctypes.c_void_p)), ctypes.c_int(1))
