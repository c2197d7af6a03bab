"""Throughput of a distributed run, what its nodes can do one by one, and a model of larger ones made of that.

    uv run python -m tests.benchmarks.distributed throughput
    uv run python -m tests.benchmarks.distributed constants

`throughput` trains on Pendulum with 1, 2 and 4 actors in turn, twice: with the default options, where each
step allows an update, and without a limit or an update, where the actors are alone and fetch the params every
p steps. Steps are counted from the first fifth of them on, so the start of the program doesn't count. It
takes half an hour.

`constants` measures each node's part alone, with two processes that talk over the loopback device, and prints
the table of the model in agents/README.md.
"""

from __future__ import annotations

import os

os.environ.setdefault('TF_CPP_MIN_LOG_LEVEL', '3')
os.environ.setdefault('JAX_PLATFORMS', 'cpu')

import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

ROUNDS = 2
_ACTING = 'samples_per_insert=None,min_replay_size=30000'
SETTINGS = {
  'learning': ('--steps=6000', '--eval_every=6000'),
  **{
    f'acting only, p={period}': (
      '--steps=30000',
      '--eval_every=30000',
      f'--config_overrides={_ACTING},variable_update_period={period}',
    )
    for period in (1, 10, 100)
  },
}


def run(num_actors: int, flags: tuple[str, ...]) -> dict[str, float]:
  """Returns steps and updates per second of a run, and its measured samples per insert."""
  from agents.records import metrics

  directory = Path(tempfile.mkdtemp()) / 'run'
  common = (
    '--runner=distributed',
    f'--num_actors={num_actors}',
    '--num_eval_episodes=1',
    f'--logdir={directory}',
  )
  subprocess.run(
    [sys.executable, '-m', 'agents.run', *common, *flags],
    check=True,
    stdout=subprocess.DEVNULL,
    stderr=subprocess.DEVNULL,
  )
  rows = metrics.read(directory / metrics.FILE_NAME)
  rates = {}
  for name, label, metric in (('steps', 'train', 'episode_return'), ('updates', 'learner', 'steps')):
    points = [
      (row.wall_time, row.value if label == 'learner' else row.step)
      for row in rows
      if (row.label, row.metric) == (label, metric)
    ]
    points = [point for point in points if point[1] > 0.2 * points[-1][1]]
    if len(points) > 1:
      rates[name] = (points[-1][1] - points[0][1]) / (points[-1][0] - points[0][0])
  ratios = [row.value for row in rows if (row.label, row.metric) == ('replay', 'samples_per_insert')]
  return {**rates, **({'ratio': ratios[-1]} if ratios else {})}


def throughput() -> None:
  """Prints steps per second for each setting and number of actors."""
  actors = (1, 2, 4)
  results: dict[tuple[str, int], list[dict[str, float]]] = {}
  for _ in range(ROUNDS):
    for name, flags in SETTINGS.items():
      for num_actors in actors:
        results.setdefault((name, num_actors), []).append(run(num_actors, flags))
  print(f'{"":<20} {"actors":>6} {"steps/s":>18} {"updates/s":>10} {"samples/insert":>15}')
  for (name, num_actors), runs in results.items():
    steps = [r['steps'] for r in runs]
    updates = statistics.mean(r.get('updates', 0.0) for r in runs)
    ratio = statistics.mean(r.get('ratio', 0.0) for r in runs)
    spread = f'{statistics.mean(steps):,.0f} [{min(steps):,.0f}, {max(steps):,.0f}]'
    print(f'{name:<20} {num_actors:>6} {spread:>18} {updates:>10,.0f} {ratio:>15.1f}')


def _parts() -> tuple[Any, Any, Any]:
  """Returns builder, environment spec and networks of the default agent on Pendulum."""
  from acme import specs

  from agents import environments, sac

  environment = environments.make('gymnasium:Pendulum-v1')
  spec = specs.make_environment_spec(environment)
  # Without a limit, so that neither side waits for the other.
  builder = sac.SACBuilder(sac.SACConfig(samples_per_insert=None, min_replay_size=1))
  return builder, spec, sac.make_networks(spec)


def serve() -> None:
  """Serves replay and the policy's params until the input ends."""
  import courier
  import jax
  import portpicker
  import reverb

  builder, spec, networks = _parts()
  replay = reverb.Server(builder.make_replay_tables(spec, builder.make_policy(networks, spec)))
  params = builder.make_algorithm(networks).init(jax.random.PRNGKey(0)).params
  variables = [jax.device_get({'actor': params['actor']})]
  port = portpicker.pick_unused_port()
  server = courier.Server(port=port)
  server.Bind('get_variables', lambda names: variables)
  server.Start()
  print(replay.port, port, flush=True)
  sys.stdin.read()
  server.Stop()


def constants() -> None:
  """Measures what each node can do, and prints the model."""
  import courier
  import jax
  import numpy as np
  import psutil
  import reverb

  from agents import environments
  from agents.command import preparation

  preparation.quieten_imports()
  builder, spec, networks = _parts()
  server = subprocess.Popen(
    [sys.executable, '-m', 'tests.benchmarks.distributed', 'serve'],
    stdin=subprocess.PIPE,
    stdout=subprocess.PIPE,
    stderr=subprocess.DEVNULL,
    text=True,
  )
  replay_port, params_port = map(int, server.stdout.readline().split())
  client = reverb.Client(f'localhost:{replay_port}')
  source = courier.Client(f'localhost:{params_port}')
  environment = environments.make('gymnasium:Pendulum-v1', seed=0)
  policy = builder.make_policy(networks, spec)
  learner_params = source.get_variables(['policy'])

  class Source:
    def get_variables(self, names: Any) -> Any:
      return learner_params

  def server_seconds() -> float:
    times = psutil.Process(server.pid).cpu_times()
    return times.user + times.system

  def act(adder: Any, steps: int) -> float:
    actor = builder.make_actor(jax.random.PRNGKey(0), policy, spec, Source(), adder)
    timestep = environment.reset()
    actor.observe_first(timestep)
    start = time.perf_counter()
    for _ in range(steps):
      action = actor.select_action(timestep.observation)
      timestep = environment.step(action)
      actor.observe(action, timestep)
      if timestep.last():
        timestep = environment.reset()
        actor.observe_first(timestep)
    return steps / (time.perf_counter() - start)

  def insert(steps: int) -> float:
    adder = builder.make_adder(client, spec, policy)
    timestep = environment.reset()
    adder.add_first(timestep)
    following = environment.step(np.zeros(1, np.float32))
    start = time.perf_counter()
    for _ in range(steps):
      adder.add(np.zeros(1, np.float32), following)
    adder.reset()
    return steps / (time.perf_counter() - start)

  act(None, 200)
  acting = act(None, 5000)
  insert(200)
  before = server_seconds()
  inserts = insert(10_000)
  server_inserts = 10_000 / (server_seconds() - before)
  dataset = builder.make_dataset_iterator(client)
  for _ in range(20):
    next(dataset)
  before, start = server_seconds(), time.perf_counter()
  for _ in range(400):
    next(dataset)
  batch_size = builder._config.batch_size
  samples = 400 * batch_size / (time.perf_counter() - start)
  server_samples = 400 * batch_size / (server_seconds() - before)
  dataset.close()
  start = time.perf_counter()
  for _ in range(500):
    source.get_variables(['policy'])
  fetches = 500 / (time.perf_counter() - start)

  from acme.utils import loggers

  sample = next(builder.make_dataset_iterator(client))
  learner = builder.make_learner(
    jax.random.PRNGKey(0), networks, iter(lambda: sample, None), lambda label: loggers.NoOpLogger(), spec
  )
  for _ in range(20):
    learner.step()
  jax.block_until_ready(learner._state)
  start = time.perf_counter()
  for _ in range(300):
    learner.step()
  jax.block_until_ready(learner._state)
  updates = 300 / (time.perf_counter() - start)
  server.stdin.close()
  server.wait()

  row_bytes = sum(
    int(np.prod(s.shape, dtype=int)) * np.dtype(s.dtype).itemsize
    for s in (spec.observations, spec.actions, spec.rewards, spec.discounts, spec.observations)
  )
  params_bytes = sum(leaf.nbytes for leaf in jax.tree.leaves(learner_params))
  print(f'an actor acts: {acting:,.0f} steps/s')
  print(f'an actor inserts: {inserts:,.0f} items/s of {row_bytes} bytes')
  print(f'a learner reads: {samples:,.0f} samples/s')
  print(f'a core of the server takes {server_inserts:,.0f} items/s, or gives {server_samples:,.0f} samples/s')
  print(f'params are fetched: {fetches:,.0f} times/s, {params_bytes / 1e6:.2f} MB each')
  print(f'a learner learns: {updates:,.0f} updates/s')
  model(
    actor_steps=1 / (1 / acting + 1 / inserts),
    server_inserts=server_inserts,
    server_samples=server_samples,
    samples=samples,
    fetches=fetches,
    updates=updates,
    row_bytes=row_bytes,
    params_bytes=params_bytes,
    batch_size=batch_size,
  )


def model(
  *,
  actor_steps: float,
  server_inserts: float,
  server_samples: float,
  samples: float,
  fetches: float,
  updates: float,
  row_bytes: int,
  params_bytes: int,
  batch_size: int,
) -> None:
  """Prints what many actors come to, each on a core of its own, and what holds them back.

  With N actors of s steps/s, r samples per insert, batches of B and a fetch each p steps, the rate of inserts
  is the least of
    actors    N s
    replay    1 / (1 / I + r / S), where a core of the server takes I inserts/s or gives S samples/s
    reading   R / r, where the learner reads R samples/s
    updates   U B / r, where it makes U updates/s
    fetches   F p, where it answers F fetches/s

  Args:
    actor_steps: s, of an actor that acts and inserts; the table also has actors of 20 ms a step.
    server_inserts: I.
    server_samples: S.
    samples: R.
    fetches: F.
    updates: U.
    row_bytes: of an item.
    params_bytes: of the policy's params.
    batch_size: B.
  """
  print('\n  s      r     p actors  inserts/s  samples/s updates/s    limit   actor  learner  (MB/s)')
  for steps, ratio, period in ((actor_steps, 256, 10), (50.0, 16, 100), (50.0, 1, 1000)):
    for number in (10, 100, 1000):
      limits = {
        'actors': number * steps,
        'replay': 1 / (1 / server_inserts + ratio / server_samples),
        'reading': samples / ratio,
        'updates': updates * batch_size / ratio,
        'fetches': fetches * period,
      }
      limit = min(limits, key=lambda name: limits[name])
      rate = limits[limit]
      actor_bytes = rate / number * (row_bytes + params_bytes / period)
      learner_bytes = rate * (ratio * row_bytes + params_bytes / period)
      print(
        f'{steps:>5,.0f} {ratio:>4} {period:>5} {number:>6} {rate:>10,.0f} {rate * ratio:>10,.0f} '
        f'{rate * ratio / batch_size:>9,.1f} {limit:>8} {actor_bytes / 1e6:>7.3f} {learner_bytes / 1e6:>8.1f}'
      )


if __name__ == '__main__':
  {'throughput': throughput, 'constants': constants, 'serve': serve}[sys.argv[1]]()
