"""From networks and a block to a whole algorithm."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp

from sac_blocks import blocks, checks
from sac_blocks.types import (
  ActorCritic,
  Algorithm,
  Array,
  Components,
  Distribution,
  Info,
  PRNGKey,
  PyTree,
  TrainingState,
)


def algorithm(
  networks: ActorCritic,
  block: blocks.Block,
  *,
  initial_alpha: PyTree = 1.0,
  normalize_observations: bool = False,
  updates_per_call: int = 1,
  axis_name: str | None = None,
) -> Algorithm:
  """Makes an algorithm of one update's block, with the initial params and policies of an actor-critic.

  Args:
    networks: actor and critics.
    block: one update of the components `actor`, `critic`, `target_critic` and `log_alpha`, on a batch that
      is a `Transition`; usually a `chain`.
    initial_alpha: the temperature at the start, a positive scalar, in units of reward per nat; a dict of
      scalars where the parts of an action have one each.
    normalize_observations: whether networks see observations normalised by running statistics of the
      batches, a further component `observation_statistics`; needs `networks.observation_spec`.
    updates_per_call: updates made by one call of `update`, as a compiled loop over a batch of that many
      minibatches, `[updates_per_call B, ...]`; above 1 no per-example entry of `info` leaves it.
    axis_name: the mapped axis of a data-parallel update: statistics are merged over it, and every device
      draws its own noise while the state, its key included, stays equal on all. Gradients and metrics are
      the block's to average, `gradient_step(..., axis_name=axis_name)`.

  Returns:
    The algorithm as pure functions.

  Raises:
    ValueError: an option is out of range.

  >>> from sac_blocks.networks import make_networks
  >>> networks = make_networks(jax.ShapeDtypeStruct((3,), 'float32'), action_size=1, hidden_sizes=(8,))
  >>> targets_only = algorithm(networks, blocks.polyak_step('critic', 'target_critic', tau=0.005))
  >>> state = jax.eval_shape(targets_only.init, jax.random.key(0))  # the shapes alone
  >>> sorted(state.params)
  ['actor', 'critic', 'log_alpha', 'target_critic']
  >>> jax.eval_shape(targets_only.policy, state.params, jnp.zeros((5, 3)), state.key).shape
  (5, 1)
  """
  jax.tree.map(lambda alpha: checks.in_range('initial_alpha', alpha, 0.0, open_low=True), initial_alpha)
  if normalize_observations:
    if networks.observation_spec is None:
      raise ValueError('normalize_observations needs networks.observation_spec, got None.')
    block = blocks.chain(
      blocks.observation_statistics(axis_name=axis_name),
      blocks.map_batch(blocks.normalize_transition, block),
    )
  if updates_per_call != 1:
    block = blocks.repeat(updates_per_call, block)

  def init(key: PRNGKey) -> TrainingState:
    actor_key, critic_key, key = jax.random.split(key, 3)
    critic_params = networks.critic.init(critic_key)
    params = {
      'actor': networks.actor.init(actor_key),
      'critic': critic_params,
      # Copied, since a buffer that stands in the state twice could not be donated.
      'target_critic': jax.tree.map(lambda x: jnp.array(x, copy=True), critic_params),
      'log_alpha': jax.tree.map(lambda alpha: jnp.log(jnp.asarray(alpha, jnp.float32)), initial_alpha),
    }
    if normalize_observations:
      params['observation_statistics'] = blocks.init_statistics(networks.observation_spec)
    return TrainingState(params, block.init(params), key)

  def update_with_info(state: TrainingState, batch: Any) -> tuple[TrainingState, Info]:
    key, update_key = jax.random.split(state.key)
    if axis_name is not None:
      update_key = jax.random.fold_in(update_key, jax.lax.axis_index(axis_name))
    params, block_state, info = block.update(state.params, state.blocks, batch, update_key, {})
    return TrainingState(params, block_state, key), info

  def update(state: TrainingState, batch: Any) -> tuple[TrainingState, Mapping[str, Array]]:
    state, info = update_with_info(state, batch)
    return state, blocks.scalars(info)

  def distribution(params: Components, obs: PyTree) -> Distribution:
    if normalize_observations:
      obs = blocks.normalize(params['observation_statistics'], obs)
    return networks.actor.apply(params['actor'], obs)

  def policy(params: Components, obs: PyTree, key: PRNGKey) -> Array:
    return distribution(params, obs).sample_and_log_prob(seed=key)[0]

  def evaluation_policy(params: Components, obs: PyTree, key: PRNGKey) -> Array:
    del key
    return distribution(params, obs).mode()

  def random_policy(params: Components, obs: PyTree, key: PRNGKey) -> Array:
    # From the policy's own distribution, which knows the actions' kind and which of them are legal.
    uniform = getattr(distribution(params, obs), 'sample_uniformly', None)
    if uniform is None:
      raise TypeError('Uniform actions need a policy with `sample_uniformly(seed=)`, as `Categorical` has.')
    return uniform(seed=key)

  components = ('actor', 'observation_statistics') if normalize_observations else ('actor',)
  return Algorithm(init, update, policy, evaluation_policy, random_policy, components, update_with_info)
