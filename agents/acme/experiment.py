"""What an experiment is: names, fields, defaults and meaning are those of `acme.jax.experiments`."""

from __future__ import annotations

import dataclasses
import datetime
from collections.abc import Callable, Sequence
from typing import Any, Generic, Protocol

import dm_env
import jax

from agents.acme import compat
from agents.acme.compat import Networks, Policy, Sample

from acme import core, specs  # isort: skip
from acme.utils import counting, observers  # isort: skip

_prefer_acme = compat.prefer_acme('acme.jax.experiments')


@_prefer_acme
class NetworkFactory(Protocol):
  """Makes the networks for an environment."""

  def __call__(self, environment_spec: specs.EnvironmentSpec) -> Any:
    """Returns the networks."""


@_prefer_acme
class PolicyFactory(Protocol):
  """Makes the policy for acting, or for evaluation."""

  def __call__(self, networks: Any, environment_spec: specs.EnvironmentSpec, evaluation: bool) -> Any:
    """Returns the policy."""


@_prefer_acme
class DeprecatedPolicyFactory(Protocol):
  """Makes a policy from the networks alone; builders' `make_policy` has taken its place."""

  def __call__(self, networks: Any) -> Any:
    """Returns the policy."""


@_prefer_acme
class MakeActorFn(Protocol):
  """Makes an actor that only acts, as evaluators need."""

  def __call__(
    self,
    random_key: jax.Array,
    policy: Any,
    environment_spec: specs.EnvironmentSpec,
    variable_source: core.VariableSource,
  ) -> core.Actor:
    """Returns the actor."""


@_prefer_acme
class EvaluatorFactory(Protocol):
  """Makes an evaluator that runs beside the training, as a worker of its own."""

  def __call__(
    self,
    random_key: jax.Array,
    variable_source: core.VariableSource,
    counter: counting.Counter,
    make_actor_fn: MakeActorFn,
  ) -> core.Worker:
    """Returns the evaluator."""


@_prefer_acme
@dataclasses.dataclass(frozen=True)
class CheckpointingConfig:
  """Where checkpoints go, how often they are made, and which are kept.

  Attributes:
    max_to_keep: number of checkpoints to keep.
    directory: where they go.
    add_uid: whether to put them into a subdirectory that is new for each process, or named by the
      flag `--acme_id`. An experiment resumes only from a directory that it finds again.
    time_delta_minutes: minutes from one checkpoint to the next.
    keep_checkpoint_every_n_hours: of the older ones, keep one for every so many hours.
    replay_checkpointing_time_delta_minutes: minutes between checkpoints of replay, in distributed
      programs; `run_experiment` keeps none.
    checkpoint_ttl_seconds: for file systems that delete by age; ordinary ones ignore it.
  """

  max_to_keep: int = 1
  directory: str = '~/acme'
  add_uid: bool = True
  time_delta_minutes: int = 5
  keep_checkpoint_every_n_hours: int | None = None
  replay_checkpointing_time_delta_minutes: int | None = None
  checkpoint_ttl_seconds: int | None = int(datetime.timedelta(days=5).total_seconds())


@_prefer_acme
@dataclasses.dataclass(frozen=True)
class ExperimentConfig(Generic[Networks, Policy, Sample]):
  """An agent, an environment and a budget.

  Attributes:
    builder: makes the parts of the agent.
    network_factory: makes the agent's networks from the environment's spec.
    environment_factory: makes an environment from a seed.
    max_num_actor_steps: environment steps to train for; the episode under way is finished.
    seed: of the environment, the networks, the learner and the actor.
    policy_network_factory: takes the place of the builder's policy for acting (deprecated).
    evaluator_factories: evaluators of a distributed program; None for the default one, empty for
      none.
    eval_policy_network_factory: takes the place of the builder's policy for evaluation (deprecated).
    environment_spec: spares the asking of an environment, where it is known.
    observers: add to what the environment loops log.
    logger_factory: makes the loggers of learner, actor and evaluator.
    checkpointing: when and where to save; None for never.
  """

  builder: compat.ActorLearnerBuilder[Networks, Policy, Sample]
  network_factory: NetworkFactory
  environment_factory: Callable[[int], dm_env.Environment]
  max_num_actor_steps: int
  seed: int
  policy_network_factory: DeprecatedPolicyFactory | None = None
  evaluator_factories: Sequence[EvaluatorFactory] | None = None
  eval_policy_network_factory: DeprecatedPolicyFactory | None = None
  environment_spec: specs.EnvironmentSpec | None = None
  observers: Sequence[observers.EnvLoopObserver] = ()
  logger_factory: compat.LoggerFactory = dataclasses.field(
    default_factory=compat.create_experiment_logger_factory
  )
  checkpointing: CheckpointingConfig | None = CheckpointingConfig()

  def get_evaluator_factories(self) -> Sequence[EvaluatorFactory]:
    """Returns the evaluators that were given, or the default one."""
    if self.evaluator_factories is not None:
      return self.evaluator_factories

    def policy_factory(
      networks: Networks, environment_spec: specs.EnvironmentSpec, evaluation: bool
    ) -> Policy:
      return make_policy(self, networks, environment_spec, evaluation)

    return [
      default_evaluator_factory(
        environment_factory=self.environment_factory,
        network_factory=self.network_factory,
        policy_factory=policy_factory,
        logger_factory=self.logger_factory,
        observers=self.observers,
      )
    ]


@_prefer_acme
def default_evaluator_factory(
  environment_factory: Callable[[int], dm_env.Environment],
  network_factory: NetworkFactory,
  policy_factory: PolicyFactory,
  logger_factory: compat.LoggerFactory,
  observers: Sequence[observers.EnvLoopObserver] = (),
) -> EvaluatorFactory:
  """Makes a factory of evaluators that have an environment of their own.

  Args:
    environment_factory: makes an environment from a seed.
    network_factory: makes networks from the environment's spec.
    policy_factory: makes the policy, here for evaluation.
    logger_factory: makes the evaluator's logger.
    observers: add to what the evaluator logs.

  Returns:
    The factory; its evaluators run without end.
  """

  def evaluator(
    random_key: jax.Array,
    variable_source: core.VariableSource,
    counter: counting.Counter,
    make_actor_fn: MakeActorFn,
  ) -> core.Worker:
    environment_key, actor_key = jax.random.split(random_key)
    seed = int(jax.random.bits(environment_key, dtype='uint32'))
    environment = environment_factory(seed)
    environment_spec = specs.make_environment_spec(environment)
    policy = policy_factory(network_factory(environment_spec), environment_spec, True)
    actor = make_actor_fn(actor_key, policy, environment_spec, variable_source)
    return compat.EnvironmentLoop(
      environment,
      actor,
      # By default it would be up to a second behind, and lose its last counts when the program ends.
      compat.Counter(counter, 'evaluator', time_delta=0.0),
      logger_factory('evaluator', 'actor_steps', 0),
      observers=observers,
    )

  return evaluator


@_prefer_acme
def make_policy(
  experiment: ExperimentConfig[Networks, Policy, Any],
  networks: Networks,
  environment_spec: specs.EnvironmentSpec,
  evaluation: bool,
) -> Policy:
  """Makes the experiment's policy.

  Args:
    experiment: whose policy to make.
    networks: as its network factory has made them.
    environment_spec: of its environment.
    evaluation: whether it is the policy to be judged, rather than the one that explores.

  Returns:
    What the experiment's policy factory makes, where it has one, else its builder.
  """
  factory = experiment.eval_policy_network_factory if evaluation else experiment.policy_network_factory
  if factory is not None:
    return factory(networks)
  return experiment.builder.make_policy(networks, environment_spec, evaluation)


def make_environment_spec(environment: dm_env.Environment) -> specs.EnvironmentSpec:
  """Returns Acme's spec of an environment, for those who import no Acme themselves."""
  return specs.make_environment_spec(environment)
