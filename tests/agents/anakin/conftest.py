"""The slow tests run where there is nothing but the trainer to test."""

from __future__ import annotations

import importlib.util

import pytest


def pytest_runtest_setup(item: pytest.Item) -> None:
  """Leaves the slow tests to the stack without Acme, whose own tests take the time of the other."""
  if item.get_closest_marker('slow') and importlib.util.find_spec('acme') is not None:
    pytest.skip('runs on the stack without Acme')
