"""Aliases, records and protocols that all layers share."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, Protocol, TypeAlias

import jax

Array: TypeAlias = jax.Array
PRNGKey: TypeAlias = jax.Array
PyTree: TypeAlias = Any

#: Named parameter components of an algorithm, for example `actor`, `critic`, `target_critic`, `log_alpha`.
Components: TypeAlias = dict[str, PyTree]

#: What the blocks of one update have computed so far, by name.
Info: TypeAlias = dict[str, Any]


class Transition(NamedTuple):
  """A batch of (n-step) transitions in the notation of rlax.

  `B` is the batch size. Observations may be any tree of arrays that lead with `[B]`.

  Attributes:
    obs_tm1: `[B, ...]`, the observation acted from.
    a_tm1: `[B, D]`, the action taken, in the canonical box [-1, 1]; discrete actions int `[B]`, factored
      ones int `[B, K]`, hybrid ones a dict of both kinds, `discrete` and `continuous`.
    r_t: `[B]`, the reward that followed; for n-step data the discounted sum of n rewards.
    discount_t: `[B]`, the final bootstrap factor: gamma (to the n-th power) included, 0 only where the
      episode truly terminated, never at a time limit.
    obs_t: `[B, ...]`, the observation arrived at; at an episode's end the final one, not the next reset's.
    weights: `[B]` importance weights of the critic loss, or None for 1.
  """

  obs_tm1: PyTree
  a_tm1: Any
  r_t: Array
  discount_t: Array
  obs_t: PyTree
  weights: Array | None = None


class Distribution(Protocol):
  """What a policy's output must offer; every distrax distribution does, and so do those of this package.

  For uniform actions in a warm-up it also needs `sample_uniformly(seed=)`, which distrax doesn't have.
  """

  def sample_and_log_prob(self, *, seed: PRNGKey) -> tuple[Array, Array]:
    """Returns an action `[..., D]` and its log-probability `[...]`, in nats."""
    ...

  def mode(self) -> Array:
    """Returns the action `[..., D]` to take when acting greedily."""
    ...


class DiscreteDistribution(Distribution, Protocol):
  """What discrete policies offer besides, as this package's do and distrax's `Categorical`.

  One whose actions are not the numbers 0 to A - 1 themselves has a method `index(action)`, which gives their
  places among the logits.
  """

  @property
  def logits(self) -> Array:
    """The logits `[..., A]` of all actions, minus infinity where illegal."""
    ...


class Network(NamedTuple):
  """A pair of pure functions, of any network library.

  Attributes:
    init: `init(key) -> params`.
    apply: `apply(params, *inputs) -> output`, for any leading batch shape of the inputs.
  """

  init: Callable[[PRNGKey], PyTree]
  apply: Callable[..., Any]


class ActorCritic(NamedTuple):
  """The networks of a Soft Actor-Critic.

  Attributes:
    actor: `apply(params, obs) -> Distribution` over actions `[..., D]` in [-1, 1]; for discrete actions a
      `DiscreteDistribution`, for hybrid ones a `Hybrid`.
    critic: `apply(params, obs, action) -> q [N, ...]`, an ensemble of N critics on the first axis; for
      discrete actions `apply(params, obs) -> q [N, ..., A]`; for hybrid ones `apply(params, obs, x) -> q
      [N, ..., A]` with a continuous action for each branch, x `[..., A, D]`, of which the value of branch k
      depends on that of branch k alone.
    action_size: D, the number of action dimensions; A, the number of discrete actions; (A, D) for hybrid
      actions. Recipes take their default target entropy from it.
    observation_spec: a tree with the `shape` and `dtype` of one observation's leaves; only needed where a
      recipe normalises observations.
  """

  actor: Network
  critic: Network
  action_size: Any
  observation_spec: PyTree = None


class LossFn(Protocol):
  """A scalar loss of the params, bound to networks."""

  def __call__(
    self, params: Components, batch: Any, key: PRNGKey, info: Info
  ) -> tuple[Array, dict[str, Array]]:
    """Returns the loss to descend, and what the next blocks or the log may use, by name."""
    ...


class Objective(NamedTuple):
  """A loss together with the names of the scalars it reports.

  Attributes:
    loss: `loss(params, batch, key, info) -> (scalar, aux)`; the aux is added to `info`.
    metrics: the names of the scalars in aux.
  """

  loss: LossFn
  metrics: tuple[str, ...] = ()


class TrainingState(NamedTuple):
  """All that changes in training; a plain pytree to scan, vmap, donate and save.

  Attributes:
    params: the named parameter components, trees of arrays, target networks and statistics included.
    blocks: tree of arrays, the states of the algorithm's blocks (optimiser states, counters).
    key: the random key of the next update.
  """

  params: Components
  blocks: PyTree
  key: PRNGKey


class Algorithm(NamedTuple):
  """A whole algorithm as pure functions.

  Attributes:
    init: `init(key) -> TrainingState`. The key is consumed.
    update: `update(state, batch) -> (TrainingState, metrics)`; metrics are float scalars by name.
    policy: `policy(params, obs, key) -> action`, for acting while training.
    evaluation_policy: the same signature, greedy.
    random_policy: the same signature, uniform over the (legal) actions, for a warm-up.
    policy_components: the names in `params` that the policies read, so that an actor fetches no more.
    update_with_info: `update_with_info(state, batch) -> (TrainingState, info)`, the same update with all that
      its blocks have computed, per-example arrays too, such as the critics' `td_error` `[N, B]` of which
      prioritised replay makes priorities; `blocks.scalars(info)` are the metrics. None where there is none.
  """

  init: Callable[[PRNGKey], TrainingState]
  update: Callable[[TrainingState, Any], tuple[TrainingState, Mapping[str, Array]]]
  policy: Callable[[Components, PyTree, PRNGKey], PyTree]
  evaluation_policy: Callable[[Components, PyTree, PRNGKey], PyTree]
  random_policy: Callable[[Components, PyTree, PRNGKey], PyTree]
  policy_components: tuple[str, ...]
  update_with_info: Callable[[TrainingState, Any], tuple[TrainingState, Info]] | None = None
