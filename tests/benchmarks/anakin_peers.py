"""Speed of the on-device trainer against rejax's SAC and brax's, interleaved in one run.

    uv run python -m tests.benchmarks.anakin_peers [--quick] [--count] [--here] [SETTING ...]

Environment steps per second, learning included. A setting is the task and the number of environments, as in
`pendulum:1`; an iteration takes a step in each of them and makes one update of all networks. Every line is
one trainer: the median of its rates, and the ratio ours / theirs of each round, as median [lowest, highest].
Only the ratios mean something, since machines are shared and their speed drifts. The second ratio is by the
processor time of the processes, which other users of the machine disturb least; on accelerators it says
nothing. brax's includes an evaluation of one episode a turn.

All trainers run in one environment of their own, which `uv` makes in `.cache/`: the peers as pinned below,
with the newest JAX that has all that they call. So they differ in nothing but themselves. `--here` takes the
environment that this runs in instead. Each trainer has a process of its own, which compiles, and then waits
for its turns.

What is the same for all: the task, one update of critics, actor and temperature by Adam per iteration,
hidden layers of 256 x 256 with relu, two critics, batches of 256, a replay of `--buffer_size` steps, 1000
steps before the first update, no evaluation within the time that counts. `--count` runs a few iterations with
counters in the tasks and the optimisers, and prints what was done instead of how fast; ours has a step more,
of its evaluation.

What is not, as read in the code of the peers:

- rejax draws batches without replacement, `jax.random.choice` over all of the replay, so its cost grows with
  the replay; ours and brax's draw with replacement. It moves the actor before the critics and the target
  networks after the iteration's updates.
- rejax steps gymnax's environments, and so do we when compared with it. brax cannot train in them, so that it
  steps our pendulum, and so do we when compared with it.
- brax starts every episode in the state in which the environment's first one started; ours and gymnax draw a
  new one. brax samples the actor once more for the temperature, and it updates normalisation statistics of
  observations also where they are not used.
"""

from __future__ import annotations

import os

# Several processes share an accelerator.
os.environ.setdefault('XLA_PYTHON_CLIENT_PREALLOCATE', 'false')

import argparse
import collections
import functools
import json
import pathlib
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from typing import Any, NamedTuple

ROOT = pathlib.Path(__file__).parents[2]
PYTHON = '3.11'  # The oldest that brax 0.14 runs on, and the newest that everything else does.
PEERS = ('rejax==0.1.3', 'brax==0.14.2', 'gymnax<1')
JAX = '0.9.2'

SETTINGS = ('pendulum:1', 'pendulum:128', 'cartpole:1', 'cartpole:128')
HIDDEN_SIZES = (256, 256)
BATCH_SIZE, WARM_UP_STEPS = 256, 1000
MAX_EPISODE_STEPS = {'pendulum': 200, 'cartpole': 500}
TRAINERS = {
  'pendulum': ('ours', 'ours_in_gymnax', 'rejax', 'brax'),
  'cartpole': ('ours_in_gymnax', 'rejax'),
}
OURS_AGAINST = {'rejax': 'ours_in_gymnax', 'brax': 'ours'}


class Setting(NamedTuple):
  """What is trained, and for how long.

  Attributes:
    task: `pendulum` or `cartpole`.
    num_envs: environments, which is also the environment steps of an iteration.
    iterations: of one turn.
    turns: that are going to be taken.
    buffer_size: environment steps that replay holds.
  """

  task: str
  num_envs: int
  iterations: int
  turns: int
  buffer_size: int

  @property
  def steps(self) -> int:
    """Environment steps of one turn."""
    return self.iterations * self.num_envs


class Counts:
  """Counts environment steps, and the optimisers' updates by the number of parameters."""

  def __init__(self) -> None:
    self.counter: collections.Counter[str] = collections.Counter()

  def install(self) -> None:
    """Makes all three trainers count, who know their optimiser as `optax.adam`."""
    import jax
    import optax

    adam = optax.adam

    def counted(*args: Any, **options: Any) -> optax.GradientTransformation:
      inner = adam(*args, **options)

      def update(updates: Any, state: Any, params: Any = None, **extra: Any) -> tuple[Any, Any]:
        name = f'updates of {sum(x.size for x in jax.tree.leaves(updates)):,}'
        jax.debug.callback(lambda: self.counter.update([name]))
        return inner.update(updates, state, params, **extra)

      return optax.GradientTransformation(inner.init, update)

    optax.adam = counted

  def step(self, reward: Any) -> None:
    """Is called in each environment step."""
    import jax

    jax.debug.callback(lambda reward: self.counter.update({'steps': reward.size}), reward)

  def take(self) -> dict[str, int]:
    """Returns what was counted since the last call."""
    import jax

    jax.effects_barrier()
    taken = dict(self.counter)
    self.counter.clear()
    return taken


# Is given the seconds of a turn, or None once all is compiled, and returns when the next turn begins.
Turn = Callable[[float | None], None]


def train_ours(setting: Setting, turn: Turn, counts: Counts | None, library: str) -> None:
  """Our trainer, by its public function, with an evaluation of a single step between the turns."""
  import types

  import jax

  from agents import sac, sac_discrete
  from agents.anakin import AnakinConfig, environments, train

  names = {'pendulum': 'Pendulum-v1', 'cartpole': 'CartPole-v1'} if library == 'gymnax' else {}
  environment = environments.make(f'{library}:{names.get(setting.task, setting.task)}')
  if counts is not None:
    inner = environment

    def step(state: Any, action: Any, key: Any) -> Any:
      state, timestep = inner.step(state, action, key)
      counts.step(timestep.reward)
      return state, timestep

    environment = inner._replace(step=step)
  spec = types.SimpleNamespace(observations=environment.observation_spec, actions=environment.action_spec)
  if setting.task == 'pendulum':
    algorithm = sac.make_algorithm(sac.SACConfig(), sac.make_networks(spec, hidden_sizes=HIDDEN_SIZES))
  else:
    networks = sac_discrete.make_networks(spec, hidden_sizes=HIDDEN_SIZES)
    algorithm = sac_discrete.make_algorithm(sac_discrete.SACDiscreteConfig(), networks)
  config = AnakinConfig(
    num_steps=WARM_UP_STEPS + setting.steps * (setting.turns + 3),
    num_envs=setting.num_envs,
    batch_size=BATCH_SIZE,
    buffer_size=setting.buffer_size,
    learning_starts=WARM_UP_STEPS,
    eval_every=setting.steps,
    num_eval_episodes=1,
    max_eval_steps=1,
  )
  start = time.perf_counter()

  def callback(report: Any) -> None:
    nonlocal start
    seconds = time.perf_counter() - start
    if report.num_updates:
      # The first piece compiles, and is shorter by the warm-up.
      turn(seconds if report.num_updates > setting.iterations else None)
    start = time.perf_counter()

  train(environment, algorithm, config, jax.random.key(0), [callback])


def train_rejax(setting: Setting, turn: Turn, counts: Counts | None) -> None:
  """rejax's SAC, by its public function, with nothing for an evaluation."""
  import gymnax
  import jax
  import jax.numpy as jnp
  import rejax

  environment, params = gymnax.make({'pendulum': 'Pendulum-v1', 'cartpole': 'CartPole-v1'}[setting.task])
  if counts is not None:
    step_env = environment.step_env

    def step(*args: Any) -> Any:
      values = step_env(*args)
      counts.step(values[2])
      return values

    environment.step_env = step
  algorithm = rejax.SAC.create(
    env=environment,
    env_params=params,
    hidden_layer_sizes=HIDDEN_SIZES,  # In `agent_kwargs` they would be overwritten, by 64 x 64.
    num_envs=setting.num_envs,
    num_epochs=1,
    batch_size=BATCH_SIZE,
    buffer_size=setting.buffer_size,
    fill_buffer=WARM_UP_STEPS,
    polyak=0.995,
    total_timesteps=setting.steps,
    eval_freq=setting.steps,
    skip_initial_evaluation=True,
  ).replace(eval_callback=lambda algorithm, state, key: jnp.zeros(()))
  train = jax.jit(lambda state: algorithm.train(train_state=state)[0])
  state = jax.jit(algorithm.init_state)(jax.random.key(0))
  while int(state.global_step) <= WARM_UP_STEPS:
    state = jax.block_until_ready(train(state))
  turn(None)
  while True:
    start = time.perf_counter()
    state = jax.block_until_ready(train(state))
    turn(time.perf_counter() - start)


def train_brax(setting: Setting, turn: Turn, counts: Counts | None) -> None:
  """brax's SAC, by its public function and its own clock, which leaves its evaluations out."""
  from brax.training.agents.sac import networks, train

  warm_up = -(-WARM_UP_STEPS // setting.num_envs) * setting.num_envs
  compiled = False

  def progress(step: int, metrics: Any) -> None:
    nonlocal compiled
    if 'training/sps' not in metrics:
      return
    turn(setting.steps / float(metrics['training/sps']) if compiled else None)
    compiled = True

  train.train(
    _brax_pendulum(counts),
    eval_env=_brax_pendulum(None),
    num_timesteps=warm_up + setting.steps * (setting.turns + 1),
    num_evals=setting.turns + 2,
    episode_length=MAX_EPISODE_STEPS[setting.task],
    num_envs=setting.num_envs,
    num_eval_envs=1,
    learning_rate=3e-4,
    discounting=0.99,
    batch_size=BATCH_SIZE,
    min_replay_size=WARM_UP_STEPS,
    max_replay_size=setting.buffer_size,
    grad_updates_per_step=1,
    max_devices_per_host=1,
    network_factory=functools.partial(networks.make_sac_networks, hidden_layer_sizes=HIDDEN_SIZES),
    progress_fn=progress,
  )


def _brax_pendulum(counts: Counts | None) -> Any:
  """Our pendulum as an environment of brax."""
  import jax
  import jax.numpy as jnp
  from brax.envs import base

  from agents.anakin import environments

  environment = environments.canonical_actions(environments.pendulum())

  class Pendulum(base.Env):
    observation_size, action_size, backend = 3, 1, 'none'

    def reset(self, rng: Any) -> Any:
      state, observation = environment.reset(rng)
      return base.State(state, observation, jnp.zeros(()), jnp.zeros(()))

    def step(self, state: Any, action: Any) -> Any:
      inner, timestep = environment.step(state.pipeline_state, action, jax.random.key(0))
      if counts is not None:
        counts.step(timestep.reward)
      return state.replace(pipeline_state=inner, obs=timestep.observation, reward=timestep.reward)

  return Pendulum()


RUN: dict[str, Callable[[Setting, Turn, Counts | None], None]] = {
  'ours': functools.partial(train_ours, library='builtin'),
  'ours_in_gymnax': functools.partial(train_ours, library='gymnax'),
  'rejax': train_rejax,
  'brax': train_brax,
}


def work(trainer: str, setting: Setting, counting: bool) -> None:
  """The process of a trainer: a line of JSON to say what the last turn came to, a line to begin the next."""
  counts = Counts() if counting else None
  if counts is not None:
    counts.install()
  out = sys.stdout
  sys.stdout = sys.stderr

  start = time.process_time()

  def turn(seconds: float | None) -> None:
    nonlocal start
    result = (seconds, time.process_time() - start) if counts is None else counts.take()
    print(json.dumps(result), file=out, flush=True)
    if not sys.stdin.readline():
      os._exit(0)  # From within a callback of a loop that would go on.
    start = time.process_time()

  RUN[trainer](setting, turn, counts)


class Worker:
  """The other side of `work`."""

  def __init__(self, trainer: str, python: str, setting: Setting, counting: bool):
    command = [python, '-m', 'tests.benchmarks.anakin_peers', '--work', trainer]
    command.append(json.dumps([*setting, counting]))
    self.trainer = trainer
    self._errors = tempfile.TemporaryFile('w+')  # noqa: SIM115 (closed with the process)
    self._process = subprocess.Popen(
      command,
      cwd=ROOT,
      env={**os.environ, 'PYTHONPATH': str(ROOT)},
      stdin=subprocess.PIPE,
      stdout=subprocess.PIPE,
      stderr=self._errors,
      text=True,
    )

  def wait(self) -> Any:
    """Returns what the turn came to."""
    line = self._process.stdout.readline()
    if not line:
      self._errors.seek(0)
      raise RuntimeError(f'{self.trainer} has ended:\n{self._errors.read()[-5000:]}')
    return json.loads(line)

  def turn(self) -> Any:
    """Lets it take a turn."""
    print(file=self._process.stdin, flush=True)
    return self.wait()

  def close(self) -> None:
    """Ends the process."""
    self._process.stdin.close()
    self._process.wait()
    self._process.stdout.close()
    self._errors.close()


class Trainer(NamedTuple):
  """A trainer, and the interpreter that it runs in."""

  name: str
  python: str


def make_environment() -> str:
  """Makes the environment of all trainers, unless it is there, and returns its interpreter."""
  # An accelerator's JAX, where there is one.
  jax = f'jax[cuda12]=={JAX}' if shutil.which('nvidia-smi') else f'jax=={JAX}'
  folder = ROOT / '.cache' / 'anakin_peers'
  python, stamp = folder / 'bin' / 'python', folder / 'requirements.txt'
  requirements = [jax, *PEERS]
  if not stamp.exists() or stamp.read_text().splitlines() != requirements:
    uv = os.environ.get('UV') or shutil.which('uv')
    if uv is None:
      raise SystemExit('uv is needed to make the environment of the peers: `pip install uv`.')
    print(f'Making an environment of {", ".join(requirements)} in {folder}.', file=sys.stderr)
    # Not in the project's environment, which `uv run` points to.
    clean = {name: value for name, value in os.environ.items() if name != 'VIRTUAL_ENV'}
    for command in (
      [uv, 'venv', '-q', '--clear', '--python', PYTHON, folder],
      [uv, 'pip', 'install', '-q', '--python', python, '-r', ROOT / 'pyproject.toml', *requirements],
    ):
      subprocess.run(command, check=True, cwd=ROOT, env=clean)
    stamp.write_text('\n'.join(requirements))
  return str(python)


def describe(python: str) -> str:
  """Names the versions and the device of an interpreter."""
  code = """
import importlib.metadata, platform
import jax
names = ['jax', 'jaxlib', 'rejax', 'brax', 'gymnax', 'optax', 'flax', 'dm-haiku']
found = {d.name: d.version for d in importlib.metadata.distributions()}
versions = [f'{name} {found[name]}' for name in names if name in found]
print(f'Python {platform.python_version()},', ', '.join(versions), 'on', jax.devices()[0].device_kind)
"""
  done = subprocess.run([python, '-c', code], check=True, capture_output=True, text=True)
  return done.stdout.strip()


class Rate(NamedTuple):
  """Environment steps per second of the clock, and per second of the processor, of all threads."""

  by_clock: float
  by_processor: float


def measure(setting: Setting, trainers: list[Trainer], uncounted: int = 1) -> dict[Trainer, list[Rate]]:
  """Returns the rates of every trainer in each round."""
  workers = {trainer: Worker(*trainer, setting, False) for trainer in trainers}
  try:
    # One by one, so that the compilation of one does not slow down the warm-up of another.
    for worker in workers.values():
      worker.wait()
    rates: dict[Trainer, list[Rate]] = {trainer: [] for trainer in trainers}
    for _ in range(setting.turns):
      for trainer, worker in workers.items():
        rates[trainer].append(Rate(*(setting.steps / seconds for seconds in worker.turn())))
  finally:
    for worker in workers.values():
      worker.close()
  return {trainer: values[uncounted:] for trainer, values in rates.items()}


def report(setting: Setting, rates: dict[Trainer, list[Rate]]) -> None:
  """Prints a line for each trainer; ratios of more than 1 mean that ours is faster."""
  by_name = {trainer.name: values for trainer, values in rates.items()}
  for trainer, values in rates.items():
    median = statistics.median(value.by_clock for value in values)
    line = f'{setting.task:<9} {setting.num_envs:>4} {trainer.name:<15} {median:>11,.0f}'
    line += f' {median / setting.num_envs:>9,.1f}'
    if trainer.name in OURS_AGAINST and OURS_AGAINST[trainer.name] in by_name:
      ours = by_name[OURS_AGAINST[trainer.name]]
      for clock in Rate._fields:
        ratios = [getattr(a, clock) / getattr(b, clock) for a, b in zip(ours, values, strict=True)]
        line += f'   {statistics.median(ratios):>5.2f} [{min(ratios):.2f}, {max(ratios):.2f}]'
    print(line, flush=True)


def count(setting: Setting, trainers: list[Trainer]) -> None:
  """Prints what each trainer does in a turn."""
  for trainer in trainers:
    worker = Worker(*trainer, setting, True)
    try:
      worker.wait()
      done = worker.turn()
    finally:
      worker.close()
    steps = done.pop('steps')
    updates = ', '.join(f'{number} {name}' for name, number in sorted(done.items()))
    print(f'{setting.task:<9} {setting.num_envs:>4} {trainer.name:<15} {steps} steps, {updates}', flush=True)


def main() -> None:
  parser = argparse.ArgumentParser(description=__doc__.partition('\n')[0])
  parser.add_argument(
    'settings', nargs='*', default=['pendulum:1', 'pendulum:128', 'cartpole:1', 'cartpole:128']
  )
  parser.add_argument('--rounds', type=int, default=7)
  parser.add_argument('--iterations', type=int, default=1000, help='of a turn')
  parser.add_argument('--buffer_size', type=int, default=100_000)
  parser.add_argument('--quick', action='store_true', help='short turns')
  parser.add_argument('--count', action='store_true', help='count the work of a turn instead')
  parser.add_argument('--here', action='store_true', help='run in this environment, as it is')
  parser.add_argument('--only', nargs='*', help='these trainers alone')
  parser.add_argument('--work', nargs=2, help=argparse.SUPPRESS)
  options = parser.parse_args()
  if options.work:
    trainer, (*setting, counting) = options.work[0], json.loads(options.work[1])
    work(trainer, Setting(*setting), counting)
    return
  python = sys.executable if options.here else make_environment()
  print(f'{describe(python)}; load {os.getloadavg()[0]:.1f} of {os.cpu_count()} cores', flush=True)
  if not options.count:
    header = f'{"task":<9} {"envs":>4} {"trainer":<15} {"env steps/s":>11} {"updates/s":>9}'
    print(f'{header}   ours/theirs [low, high]   by processor time', flush=True)
  for name in options.settings:
    task, _, num_envs = name.partition(':')
    iterations = 20 if options.count else 100 if options.quick else options.iterations
    setting = Setting(task, int(num_envs), iterations, options.rounds + 1, options.buffer_size)
    trainers = [Trainer(name, python) for name in TRAINERS[task] if not options.only or name in options.only]
    if options.count:
      count(setting, trainers)
    else:
      report(setting, measure(setting, trainers))
  print(f'load at the end {os.getloadavg()[0]:.1f}')


if __name__ == '__main__':
  main()
