"""What the on-device trainer asks of an environment."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, TypeAlias

import jax

PRNGKey: TypeAlias = jax.Array


class TimeStep(NamedTuple):
  """What a step leads to.

  Attributes:
    observation: a tree of arrays; at the end of an episode its final one, not the first of the next.
    reward: of the step, float32 `[]`.
    discount: float32 `[]`, 0 where the step terminates the task and 1 elsewhere, time limits included.
    last: bool `[]`, whether the episode is over, be it by termination or by a time limit.
  """

  observation: Any
  reward: jax.Array
  discount: jax.Array
  last: jax.Array


class Environment(NamedTuple):
  """One environment as pure functions, which the trainer maps over many states and compiles.

  Attributes:
    observation_spec: a tree of `dm_env.specs.Array`.
    action_spec: a `dm_env.specs.BoundedArray`, or a `DiscreteArray` for actions counted from 0.
    reset: `reset(key) -> (state, observation)` starts an episode.
    step: `step(state, action, key) -> (state, TimeStep)`; what follows the last step of an episode is the
      caller's affair.
    render: `render(state) -> image`, NumPy uint8 `[height, width, 3]`, outside of compiled code; None if it
      cannot be drawn.
  """

  observation_spec: Any
  action_spec: Any
  reset: Callable[[PRNGKey], tuple[Any, Any]]
  step: Callable[[Any, Any, PRNGKey], tuple[Any, TimeStep]]
  render: Callable[[Any], Any] | None = None
