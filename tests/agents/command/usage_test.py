from __future__ import annotations

import pytest

from agents.command.usage import UsageError, usage_errors


def test_chosen_exceptions_become_usage_errors():
  with (
    pytest.raises(UsageError, match='--tau: too large') as caught,
    usage_errors(ValueError, about='--tau: '),
  ):
    raise ValueError('too large')
  assert isinstance(caught.value.__cause__, ValueError)


def test_other_exceptions_pass():
  with pytest.raises(KeyError), usage_errors(ValueError, OSError):
    raise KeyError('x')
