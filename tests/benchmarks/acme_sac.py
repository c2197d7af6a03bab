"""Speed of the SAC agent against Acme 0.4.0's own, interleaved in one run.

    uv run python -m tests.benchmarks.acme_sac [learner|acting|loop|start ...]

Each line is one setting: the median of both sides and the ratio ours / Acme's of each pair of neighbouring
runs, as median [lowest, highest]. Only the ratios mean something, since machines are shared and their
speed drifts.
"""

from __future__ import annotations

import os

os.environ.setdefault('TF_CPP_MIN_LOG_LEVEL', '3')
os.environ.setdefault('JAX_PLATFORMS', 'cpu')

import functools
import itertools
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from typing import Any

SIDES = ('ours', 'acmes')
OBSERVATION_SIZE, ACTION_SIZE = 17, 6
WARM_UP_STEPS, LOOP_STEPS = 1000, 3000


def report(
  name: str, unit: str, ours: list[float], acmes: list[float], *, higher_is_better: bool = True
) -> None:
  """Prints medians, and ratios of which more than 1 means that ours is faster."""
  ratios = [a / b if higher_is_better else b / a for a, b in zip(ours, acmes, strict=True)]
  print(
    f'{name:<44} {statistics.median(ours):>9.1f} {statistics.median(acmes):>9.1f} {unit:<10}'
    f' {statistics.median(ratios):>5.2f} [{min(ratios):.2f}, {max(ratios):.2f}]',
    flush=True,
  )


def interleave(
  measures: Sequence[Callable[[], float]], rounds: int = 7, uncounted: int = 1
) -> list[list[float]]:
  """Takes all measures in turn, round by round; the first rounds, which compile, don't count."""
  results = [[measure() for measure in measures] for _ in range(rounds + uncounted)]
  return [list(column) for column in zip(*results[uncounted:], strict=True)]


def environment_spec() -> Any:
  import numpy as np
  from acme import specs

  return specs.EnvironmentSpec(
    observations=specs.Array((OBSERVATION_SIZE,), np.float32),
    actions=specs.BoundedArray((ACTION_SIZE,), np.float32, -1.0, 1.0),
    rewards=specs.Array((), np.float32),
    discounts=specs.BoundedArray((), np.float32, 0.0, 1.0),
  )


def make_learner(side: str, hidden: int, batch_size: int, updates: int) -> Any:
  """A learner on an endless stream of one NumPy batch."""
  import jax
  import numpy as np

  from agents import sac
  from agents.acme import compat
  from acme import types  # isort: skip
  from acme.utils import loggers  # isort: skip
  import reverb

  rng = np.random.default_rng(0)
  size = batch_size * updates
  transition = types.Transition(
    observation=rng.normal(size=(size, OBSERVATION_SIZE)).astype(np.float32),
    action=np.tanh(rng.normal(size=(size, ACTION_SIZE))).astype(np.float32),
    reward=rng.normal(size=size).astype(np.float32),
    discount=np.full(size, 0.99, np.float32),
    next_observation=rng.normal(size=(size, OBSERVATION_SIZE)).astype(np.float32),
  )
  samples = itertools.repeat(reverb.ReplaySample(info=(), data=transition))
  spec, key, quiet = environment_spec(), jax.random.PRNGKey(0), loggers.NoOpLogger()
  if side == 'ours':
    config = sac.SACConfig(batch_size=batch_size, num_sgd_steps_per_step=updates)
    networks = sac.make_networks(spec, hidden_sizes=(hidden, hidden))
    counter = compat.Counter()
    return sac.SACBuilder(config).make_learner(
      key, networks, samples, lambda label: quiet, spec, counter=counter
    )
  import optax
  from acme.agents.jax.sac import learning
  from acme.agents.jax.sac import networks as acme_networks

  return learning.SACLearner(
    acme_networks.make_networks(spec, hidden_layer_sizes=(hidden, hidden)),
    key,
    samples,
    optax.adam(3e-4),
    optax.adam(3e-4),
    target_entropy=-float(ACTION_SIZE),
    logger=quiet,
    num_sgd_steps_per_step=updates,
  )


def learner() -> None:
  """Updates per second."""
  import jax

  for hidden, batch_size in ((256, 256), (64, 64)):
    for updates in (1, 64):
      calls = max(2, (200 if hidden == 256 else 2000) // updates)

      def rate(learner: Any, calls: int = calls, updates: int = updates) -> float:
        start = time.perf_counter()
        for _ in range(calls):
          learner.step()
        jax.block_until_ready(learner._state)
        return calls * updates / (time.perf_counter() - start)

      learners = [make_learner(side, hidden, batch_size, updates) for side in SIDES]
      results = interleave([functools.partial(rate, learner) for learner in learners])
      report(f'learner {hidden}x{hidden}, batch {batch_size}, {updates} a call', 'updates/s', *results)


def acting() -> None:
  """Microseconds per action."""
  import dm_env
  import jax
  import numpy as np

  from agents import sac
  from agents.acme import compat  # noqa: F401  (mends Acme before acme.jax is imported)
  from acme.agents.jax import actor_core, actors  # isort: skip
  from acme.agents.jax.sac import networks as acme_networks  # isort: skip
  from acme.jax import variable_utils  # isort: skip

  spec = environment_spec()
  learners = [make_learner(side, 256, 256, 1) for side in SIDES]
  builder = sac.SACBuilder(sac.SACConfig())
  policy = builder.make_policy(sac.make_networks(spec), spec)
  ours = builder.make_actor(jax.random.PRNGKey(0), policy, spec, learners[0])
  networks = acme_networks.make_networks(spec)
  acmes = actors.GenericActor(
    actor_core.batched_feed_forward_to_actor_core(acme_networks.apply_policy_and_sample(networks)),
    jax.random.PRNGKey(0),
    variable_utils.VariableClient(learners[1], 'policy', device='cpu'),
  )
  observation = np.zeros(OBSERVATION_SIZE, np.float32)

  def microseconds(actor: Any) -> float:
    actor.observe_first(dm_env.restart(observation))
    start = time.perf_counter()
    for _ in range(2000):
      actor.select_action(observation)
    return (time.perf_counter() - start) / 2000 * 1e6

  results = interleave([functools.partial(microseconds, actor) for actor in (ours, acmes)])
  report('select_action, 256x256', 'us', *results, higher_is_better=False)


class EpisodeClock:
  """A logger that notes when each episode ended."""

  def __init__(self) -> None:
    self.ends: list[tuple[float, float, float | None]] = []

  def write(self, data: Any) -> None:
    self.ends.append((time.perf_counter(), float(data['episode_length']), data.get('learner_steps')))

  def close(self) -> None:
    pass

  def steps_per_second(self, from_step: int) -> float:
    steps = list(itertools.accumulate(length for _, length, _ in self.ends))
    first = next(i for i, step in enumerate(steps) if step >= from_step)
    seconds = self.ends[-1][0] - self.ends[first][0]
    rate = (steps[-1] - steps[first]) / seconds
    if self.ends[-1][2] is None:
      return rate
    # A learner that falls behind its one update a step must not count as a faster loop.
    return min(rate, (self.ends[-1][2] - self.ends[first][2]) / seconds)


def loop_in_process(side: str, started: float) -> float:
  """Steps per second on Pendulum at one update of 256 per step, once learning is under way."""
  del started
  from agents import environments, experiments, sac
  from acme import specs  # isort: skip
  from acme.utils import loggers  # isort: skip

  clock = EpisodeClock()
  environment = environments.make('gymnasium:Pendulum-v1')
  if side == 'ours':
    experiment = experiments.ExperimentConfig(
      builder=sac.SACBuilder(sac.SACConfig(min_replay_size=WARM_UP_STEPS)),
      network_factory=sac.make_networks,
      environment_factory=lambda seed: environment,
      max_num_actor_steps=LOOP_STEPS,
      seed=0,
      logger_factory=lambda label, *_: clock if label == 'actor' else loggers.NoOpLogger(),
      checkpointing=None,
    )
    experiments.run_experiment(experiment, num_eval_episodes=0)
  else:
    from agents.acme import compat
    from acme.agents.jax import sac as acme_sac  # isort: skip

    spec = specs.make_environment_spec(environment)
    config = acme_sac.SACConfig(min_replay_size=WARM_UP_STEPS, target_entropy=-1.0)
    agent = acme_sac.SAC(spec, acme_sac.make_networks(spec), config, seed=0, normalize_input=False)
    compat.EnvironmentLoop(environment, agent, logger=clock).run(num_steps=LOOP_STEPS)
  return clock.steps_per_second(from_step=WARM_UP_STEPS + 400)


def start_in_process(side: str, started: float) -> float:
  """Seconds from the start of the process to its learner's first finished update."""
  import jax

  learner = make_learner(side, 256, 256, 1)
  learner.step()
  jax.block_until_ready(learner._state)
  return time.time() - started


def in_processes(name: str) -> list[list[float]]:
  """Runs both sides in turn, each time in a fresh process."""

  def run(side: str) -> float:
    arguments = [f'{name}_in_process', side, str(time.time())]
    command = [sys.executable, '-m', 'tests.benchmarks.acme_sac', *arguments]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    return float(done.stdout.splitlines()[-1])

  return interleave([functools.partial(run, side) for side in SIDES], rounds=3, uncounted=0)


def loop() -> None:
  """Environment steps per second of the whole local agent."""
  report('local loop, Pendulum, 1 update a step', 'steps/s', *in_processes('loop'))


def start() -> None:
  """Seconds to the first update."""
  report('process start to first update', 's', *in_processes('start'), higher_is_better=False)


def main(arguments: list[str]) -> None:
  if arguments and arguments[0].endswith('_in_process'):
    print(globals()[arguments[0]](arguments[1], float(arguments[2])))
    return
  print(f'{"":<44} {"ours":>9} {"Acme":>9} {"":<10} ratio [lowest, highest]')
  for part in arguments or ['learner', 'acting', 'loop', 'start']:
    {'learner': learner, 'acting': acting, 'loop': loop, 'start': start}[part]()


if __name__ == '__main__':
  main(sys.argv[1:])
