"""Configurations refuse what cannot be meant, and say what would be."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from agents.config import ReplayConfig


@pytest.mark.parametrize(
  ('options', 'message'),
  [
    ({'batch_size': 0}, 'batch_size must be an integer of at least 1, got 0'),
    ({'batch_size': True}, 'batch_size must be an integer of at least 1, got True'),
    ({'n_step': 1.5}, 'n_step must be an integer of at least 1, got 1.5'),
    ({'random_steps': -1}, 'random_steps must be an integer of at least 0, got -1'),
    ({'discount': 1.01}, r'discount must be in \[0, 1\], got 1.01'),
    ({'reward_scale': 0.0}, 'reward_scale must be positive, got 0.0'),
    ({'samples_per_insert': -1.0}, 'samples_per_insert must be positive, or None for no limit'),
    ({'samples_per_insert_tolerance_rate': 0.0}, 'tolerance_rate must be positive'),
    (
      {'min_replay_size': 200, 'max_replay_size': 100},
      r'min_replay_size must be at most max_replay_size \(100\), got 200',
    ),
  ],
)
def test_wrong_options_are_named(options: dict[str, Any], message: str):
  with pytest.raises(ValueError, match=message):
    ReplayConfig(**options)


def test_a_configuration_is_frozen_and_checked_again_when_replaced():
  config = ReplayConfig()
  with pytest.raises(dataclasses.FrozenInstanceError):
    config.batch_size = 3  # type: ignore[misc]
  with pytest.raises(ValueError, match='batch_size'):
    dataclasses.replace(config, batch_size=-1)
