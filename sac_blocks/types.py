"""Aliases, records and protocols that all layers share."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, Protocol, TypeAlias

import chex

Array: TypeAlias = chex.Array
PRNGKey: TypeAlias = chex.PRNGKey
#: A tree of arrays; `Any`, since observations, actions and params are nested as their owners like.
PyTree: TypeAlias = Any

#: Named parameter components of an algorithm, for example `actor`, `critic`, `target_critic`, `log_alpha`.
Components: TypeAlias = dict[str, PyTree]

#: What the blocks of one update have computed so far, by name.
Info: TypeAlias = Mapping[str, Any]


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

  Uniform actions for a warm-up come from its `sample_uniformly(seed=)`, which ours have, or from its shapes.
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
    apply: `apply(params, *inputs) -> output`, for any leading batch shape of the inputs. A stochastic network
      has a further argument: `apply(params, *inputs, key=key)`, which is None where it is to be
      deterministic, as in acting.
    stochastic: whether it uses randomness, such as dropout.
  """

  init: Callable[[PRNGKey], PyTree]
  apply: Callable[..., Any]
  stochastic: bool = False

  def __call__(self, params: PyTree, *inputs: Any, key: PRNGKey | None = None) -> Any:
    """Applies the network; a key that it has no use for is dropped."""
    return self.apply(params, *inputs, key=key) if self.stochastic else self.apply(params, *inputs)


class ReduceFn(Protocol):
  """What stands for Q where there are several critics, such as `sac_blocks.reductions.minimum`."""

  def __call__(self, q: Array, key: PRNGKey | None, /) -> Array:
    """Returns `[...]` of values `[N, ...]` under N critics; the key is consumed, None where there is none."""
    ...


class SoftValue(NamedTuple):
  """The soft value of a state, and what it was made of.

  Attributes:
    value: `[...]`, the expectation of the reduced Q plus alpha times the entropy.
    entropy: `[...]` in nats, an estimate or exact; a dict of them where the parts of an action have one each.
    legal: `[..., A]` bool, the actions that the state allows; None where nothing is enumerated.
  """

  value: Array
  entropy: PyTree
  legal: Array | None = None


class Actions(NamedTuple):
  """A kind of action: how an expectation over actions is taken, and how Q of the action taken is read.

  `sac_blocks.actions` has the three kinds, `sampled`, `enumerated` and `hybrid`. Everything else asks the
  record and never which kind it is.

  Attributes:
    soft_value: `soft_value(policy, critic, alpha, reduce, key) -> SoftValue`, with `critic(*inputs) -> q` the
      critics at one observation, of which the kind knows the inputs; alpha has the structure of the entropy.
      The key is consumed.
    taken: `taken(policy, critic, action) -> q`, `[N, ...]`, the values of the actions taken; of the policy,
      that of any state, only the layout of its actions is read.
    greedy: `greedy(policy) -> action`, the best guess without randomness.
    uniform: `uniform(policy, key) -> action`, uniform over the (legal) actions.
    target_entropy: what `temperature_objective` takes where nothing else is asked for.
    parts: the names of the parts of an action that have a temperature each; empty where there is one.
    num_dimensions: D, of the continuous action, None where there is none.
    num_actions: A, the number of enumerated actions or branches, None where there are none.
  """

  soft_value: Callable[[Any, Callable[..., Array], PyTree, ReduceFn, PRNGKey | None], SoftValue]
  taken: Callable[[Any, Callable[..., Array], Any], Array]
  greedy: Callable[[Any], Any]
  uniform: Callable[[Any, PRNGKey], Any]
  target_entropy: Any
  parts: tuple[str, ...] = ()
  num_dimensions: int | None = None
  num_actions: int | None = None


class ActorCritic(NamedTuple):
  """The networks of a Soft Actor-Critic.

  Attributes:
    actor: `apply(params, obs) -> Distribution` over actions `[..., D]` in [-1, 1]; for discrete actions a
      `DiscreteDistribution`, for hybrid ones a `Hybrid`.
    critic: `apply(params, obs, action) -> q [N, ...]`, an ensemble of N critics on the first axis; for
      discrete actions `apply(params, obs) -> q [N, ..., A]`; for hybrid ones `apply(params, obs, x) -> q
      [N, ..., A]` with a continuous action for each branch, x `[..., A, D]`, of which the value of branch k
      depends on that of branch k alone.
    actions: the kind of action, `actions.sampled(D)`, `actions.enumerated(A)` or `actions.hybrid(A, D)`.
    observation_spec: a tree with the `shape` and `dtype` of one observation's leaves; only needed where a
      recipe normalises observations.
  """

  actor: Network
  critic: Network
  actions: Actions
  observation_spec: PyTree = None


class LossFn(Protocol):
  """A scalar loss of the params, bound to networks."""

  def __call__(
    self, params: Components, batch: Any, key: PRNGKey, info: Info
  ) -> tuple[Array, dict[str, Any]]:
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
    updates_per_call: the number of updates that one call of `update` makes, each on its own minibatch, so
      that the batch leads with `[updates_per_call B]`; whoever samples it reads this.
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
  updates_per_call: int = 1
  update_with_info: Callable[[TrainingState, Any], tuple[TrainingState, Info]] | None = None
