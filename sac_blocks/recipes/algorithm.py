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


def actor_critic_components(networks: ActorCritic, *, initial_alpha: PyTree = 1.0) -> dict[str, blocks.Start]:
  """Says which components a Soft Actor-Critic has and how they start.

  Args:
    networks: actor and critics.
    initial_alpha: the temperature at the start, a positive scalar, in units of reward per nat; a dict of
      scalars where the parts of an action have one each, or a scalar for all of them.

  Returns:
    `actor` and `critic`, drawn at random, `target_critic`, equal to `critic`, and `log_alpha`. Add to them or
    leave some out for an algorithm of your own.

  Raises:
    ValueError: a temperature is not positive, or the parts are not those of the networks' actions.

  >>> from sac_blocks.networks import make_networks
  >>> networks = make_networks(jax.ShapeDtypeStruct((3,), 'float32'), action_size=1, hidden_sizes=(8,))
  >>> list(actor_critic_components(networks))
  ['actor', 'critic', 'target_critic', 'log_alpha']

  Reference: Haarnoja et al. 2018, algorithm 1, arXiv 1812.05905.
  """
  parts = networks.actions.parts
  if parts and not isinstance(initial_alpha, Mapping):
    initial_alpha = dict.fromkeys(parts, initial_alpha)
  given = sorted(initial_alpha) if isinstance(initial_alpha, Mapping) else []
  if given != sorted(parts):
    expected = f'a number or a dict of {sorted(parts)}' if parts else 'a number'
    raise ValueError(f'initial_alpha must be {expected} for these actions, got {initial_alpha}.')
  jax.tree.map(lambda alpha: checks.in_range('initial_alpha', alpha, 0.0, open_low=True), initial_alpha)
  log_alpha = jax.tree.map(lambda alpha: jnp.log(jnp.asarray(alpha, jnp.float32)), initial_alpha)
  return {
    'actor': blocks.drawn(networks.actor.init),
    'critic': blocks.drawn(networks.critic.init),
    'target_critic': blocks.copied('critic'),
    'log_alpha': blocks.constant(log_alpha),
  }


def algorithm(
  networks: ActorCritic,
  block: blocks.Block,
  *,
  components: Mapping[str, blocks.Start] | None = None,
  normalize_observations: bool = False,
  updates_per_call: int = 1,
  axis_name: str | None = None,
) -> Algorithm:
  """Makes an algorithm of one update's block, with the policies of an actor-critic.

  Args:
    networks: actor and critics.
    block: one update of the components, on a batch that is a `Transition`; usually a `chain`.
    components: which components there are and how they start, in this order, `actor` among them; those of
      `actor_critic_components` by default.
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
    ValueError: an option is out of range, or there is no component `actor` to act by.

  >>> from sac_blocks.networks import make_networks
  >>> networks = make_networks(jax.ShapeDtypeStruct((3,), 'float32'), action_size=1, hidden_sizes=(8,))
  >>> targets_only = algorithm(networks, blocks.polyak_step('critic', 'target_critic', tau=0.005))
  >>> state = jax.eval_shape(targets_only.init, jax.random.key(0))  # the shapes alone
  >>> sorted(state.params)
  ['actor', 'critic', 'log_alpha', 'target_critic']
  >>> jax.eval_shape(targets_only.policy, state.params, jnp.zeros((5, 3)), state.key).shape
  (5, 1)
  """
  starts = dict(actor_critic_components(networks) if components is None else components)
  if 'actor' not in starts:
    raise ValueError(f"components must name 'actor', by which to act, got {sorted(starts)}.")
  if normalize_observations:
    if networks.observation_spec is None:
      raise ValueError('normalize_observations needs networks.observation_spec, got None.')
    starts['observation_statistics'] = blocks.constant(blocks.init_statistics(networks.observation_spec))
    block = blocks.chain(
      blocks.observation_statistics(axis_name=axis_name),
      blocks.map_batch(blocks.normalize_transition, block),
    )
  if updates_per_call != 1:
    block = blocks.repeat(updates_per_call, block)

  def init(key: PRNGKey) -> TrainingState:
    *component_keys, key = jax.random.split(key, blocks.num_keys(starts) + 1)
    params = blocks.init_components(starts, component_keys)
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
    return networks.actor(params['actor'], obs)

  def policy(params: Components, obs: PyTree, key: PRNGKey) -> PyTree:
    return distribution(params, obs).sample_and_log_prob(seed=key)[0]

  def evaluation_policy(params: Components, obs: PyTree, key: PRNGKey) -> PyTree:
    del key
    return networks.actions.greedy(distribution(params, obs))

  def random_policy(params: Components, obs: PyTree, key: PRNGKey) -> PyTree:
    # From the policy's own distribution, which knows the actions' shape and which of them are legal.
    return networks.actions.uniform(distribution(params, obs), key)

  return Algorithm(
    init,
    update,
    policy,
    evaluation_policy,
    random_policy,
    policy_components=('actor', 'observation_statistics') if normalize_observations else ('actor',),
    updates_per_call=updates_per_call,
    update_with_info=update_with_info,
  )
