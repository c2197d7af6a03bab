"""From an algorithm's policy to an Acme actor."""

from __future__ import annotations

from typing import Any, NamedTuple

import dm_env
import jax
import jax.numpy as jnp

from agents.acme import compat  # noqa: F401  (mends Acme before acme.jax is imported)
from agents.acme.learner import BlocksLearner

from acme import adders, core  # isort: skip
from acme.agents.jax import actor_core, actors  # isort: skip
from acme.jax import variable_utils  # isort: skip

from sac_blocks import Algorithm


class _ActorState(NamedTuple):
  """The state of an actor: its random key, and the steps left of its warm-up."""

  key: jax.Array
  random_steps: jax.Array


def make_actor_core(algorithm: Algorithm, *, evaluation: bool, random_steps: int = 0) -> actor_core.ActorCore:
  """Wraps a policy as the pure functions of an Acme actor.

  Args:
    algorithm: whose policy to take.
    evaluation: whether to take the greedy one.
    random_steps: steps from the actor's start in which to act uniformly at random; not in evaluation.

  Returns:
    An actor core, which leaves no extras.
  """
  policy = algorithm.evaluation_policy if evaluation else algorithm.policy

  def init(key: jax.Array) -> _ActorState:
    return _ActorState(key, jnp.asarray(random_steps, jnp.int32))

  def select_action(params: Any, observation: Any, state: _ActorState) -> tuple[jax.Array, _ActorState]:
    key, action_key = jax.random.split(state.key)
    if evaluation or random_steps == 0:
      return policy(params, observation, action_key), state._replace(key=key)
    action = jax.lax.cond(
      state.random_steps > 0, algorithm.random_policy, policy, params, observation, action_key
    )
    return action, _ActorState(key, jnp.maximum(state.random_steps - 1, 0))

  def get_extras(state: _ActorState) -> tuple[()]:
    del state
    return ()

  return actor_core.ActorCore(init=init, select_action=select_action, get_extras=get_extras)


class _LocalVariables:
  """A variable client for a learner in the same process, which answers at once."""

  def __init__(self, learner: BlocksLearner):
    self._learner = learner
    self._newest: Any = None
    self.params: Any = None
    self.update()

  def update(self, wait: bool = False) -> None:
    """Takes the params of the learner's last finished update, or with `wait` of the one under way."""
    if wait:
      self._learner.wait()
    (newest,) = self._learner.get_variables(['policy'])
    if newest is not self._newest:
      # Moved once an update rather than with every action, where the learner has an accelerator.
      self._newest, self.params = newest, jax.device_put(newest, jax.local_devices(backend='cpu')[0])


class _Actor(actors.GenericActor):
  """An actor whose warm-up goes on over its episodes, at each of which Acme's starts with a new state."""

  _state: Any

  def observe_first(self, timestep: dm_env.TimeStep) -> None:
    before = self._state
    super().observe_first(timestep)
    if isinstance(before, _ActorState):
      self._state = self._state._replace(random_steps=before.random_steps)


def make_actor(
  core_functions: actor_core.ActorCore,
  random_key: jax.Array,
  variable_source: core.VariableSource,
  adder: adders.Adder | None = None,
  *,
  update_period: int = 1,
) -> core.Actor:
  """Makes an actor that follows the params of a learner.

  Args:
    core_functions: of `make_actor_core`.
    random_key: for the actions.
    variable_source: the learner, or its remote handle.
    adder: what writes experience to replay; None for an actor that only evaluates.
    update_period: calls of `update` between fetches from a remote source.

  Returns:
    The actor.
  """
  if isinstance(variable_source, BlocksLearner):
    client: Any = _LocalVariables(variable_source)
  else:
    client = variable_utils.VariableClient(
      variable_source, 'policy', update_period=update_period, device='cpu'
    )
  return _Actor(core_functions, random_key, client, adder, backend='cpu')
