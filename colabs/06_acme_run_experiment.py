# ---
# jupyter:
#   jupytext:
#     text_representation:
#       extension: .py
#       format_name: percent
#   kernelspec:
#     display_name: Python 3
#     language: python
#     name: python3
#   stack: acme
# ---

# %% [markdown]
# # 6. Acme: `run_experiment` and a Launchpad program
#
# Acme takes an agent apart into replay, actor, learner and loops around them. The same parts then
# run in step in one process, or as a program of many nodes. We look at each part, train on
# Pendulum, exchange a block of the algorithm, and launch the experiment with two actors.
#
# What you will learn:
#
# - what an `ExperimentConfig` holds, and what each method of a builder makes;
# - how `run_experiment` keeps acting and learning in step, by the rate limiter of replay;
# - how to put an algorithm of your own into Acme with one call;
# - what the nodes of a Launchpad program are, who talks to whom, and how the program ends.
#
# **This notebook needs Python 3.10** on Linux (x86-64), since Launchpad has no wheels for
# newer Pythons. Colab's own Python is newer, so its kernel cannot run this one. In a terminal on a
# machine of that kind:
#
# ```bash
# git clone https://github.com/sac-blocks/sac_blocks && cd sac_blocks
# pip install uv && uv sync
# uv run --with jupyterlab jupyter lab colabs/06_acme_run_experiment.ipynb
# ```
#
# On Colab's machine, which has no browser, the last line becomes
# `uv run python colabs/execute.py 06`: it executes the notebook in a Python 3.10 of its own and
# writes what it shows into the `.ipynb`.

# %%
try:
  import sac_blocks
except ImportError:
  import sys

  if sys.version_info[:2] != (3, 10):
    raise RuntimeError(
      f'Launchpad needs Python 3.10, but this kernel is Python {sys.version.split()[0]}: start the '
      'notebook as the text above says.'
    ) from None
  URL = 'https://github.com/sac-blocks/sac_blocks'
  # dm-acme asks for another Launchpad than the one that works. To leave that out takes uv.
  # !echo "dm-launchpad ; sys_platform == 'never'" > override.txt
  # %pip install -q uv
  UV = f'{sys.executable} -m uv pip install -q --python {sys.executable} --overrides override.txt'
  # !{UV} "sac-blocks[acme,envs,notebooks] @ git+{URL}"

# %%
import collections
import contextlib
import dataclasses
import functools
import io
import os
import signal
import time

os.environ.setdefault('TF_CPP_MIN_LOG_LEVEL', '2')
# Compiled libraries tell of all that they do on the file descriptor; Python's own messages stay. If
# the kernel dies, leave this line out, to read why.
os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
# Gym, which Acme imports, asks its users to move to Gymnasium.
with contextlib.redirect_stderr(io.StringIO()):
  from agents import environments, experiments, sac
  from agents.acme import BlocksBuilder

import acme
import chex
import jax
import jax.numpy as jnp
import launchpad as lp
import matplotlib.pyplot as plt
import numpy as np
import optax
import reverb
from absl import flags

import sac_blocks as sb
from sac_blocks import blocks, objectives, recipes

# Launchpad reads flags. This one keeps it from killing a kernel whose threads end late.
flags.FLAGS(['notebook', '--lp_termination_notice_secs=-1'])
# Tests set a small one: everything long is scaled by it.
BUDGET = float(os.environ.get('COLAB_BUDGET', '1'))
plt.rcParams.update({'figure.dpi': 90, 'axes.grid': True, 'grid.alpha': 0.3})

# %% [markdown]
# ## The parts of an agent
#
# An experiment names four things: an environment, networks for it, a builder that makes the
# agent's parts, and a number of steps. Two of them are functions, since a program of many processes
# makes environments and networks in each of them.


# %%
def make_environment(seed):
  return environments.make('gymnasium:Pendulum-v1', seed=seed)


make_networks = functools.partial(sac.make_networks, hidden_sizes=(64, 64))

environment = make_environment(0)
environment_spec = acme.make_environment_spec(environment)
for name, spec in environment_spec._asdict().items():
  print(f'{name:13}', spec)

# %% [markdown]
# The action is in $[-1, 1]$, and everything is float32, whatever the library behind it says.
#
# The builder takes a configuration, of the algorithm and of replay. Its methods make:
#
# | method | makes | which |
# |---|---|---|
# | `make_replay_tables` | tables of a Reverb server | hold transitions, and limit who may go on |
# | `make_adder` | the writer to a table | forms n-step transitions of the steps |
# | `make_dataset_iterator` | an iterator over batches | reads them from the table |
# | `make_learner` | a learner | takes one batch a step and updates |
# | `make_policy` | a policy, or the greedy one | maps params and observation to an action |
# | `make_actor` | an actor | acts, and hands what it sees to the adder |
#
# Here they are made by hand, for one episode of acting and five updates. Learning waits for 100
# transitions, and nothing limits the ratio of samples to inserts yet.

# %%
networks = make_networks(environment_spec)
small = sac.SACBuilder(sac.SACConfig(batch_size=32, min_replay_size=100, samples_per_insert=None))
policy = small.make_policy(networks, environment_spec)

server = reverb.Server(small.make_replay_tables(environment_spec, policy))
client = reverb.Client(f'localhost:{server.port}')
adder = small.make_adder(client, environment_spec, policy)
batches = small.make_dataset_iterator(client)

log = acme.utils.loggers.InMemoryLogger()
learner_key, actor_key = jax.random.split(jax.random.PRNGKey(0))
learner = small.make_learner(learner_key, networks, batches, lambda label: log, environment_spec)
actor = small.make_actor(actor_key, policy, environment_spec, learner, adder)

episode = acme.EnvironmentLoop(environment, actor, logger=log).run_episode()
print(f'one episode of {episode["episode_length"]} steps, return {episode["episode_return"]:.0f}')
table = client.server_info()['replay']
print(f'{table.current_size} transitions in replay, of at most {table.max_size:,}')
batch = next(batches).data
print('a batch of them:', {k: v.shape for k, v in batch._asdict().items() if k != 'extras'})

for _ in range(5):
  learner.step()  # Starts an update, and logs the one before, which has finished.
  actor.update()  # Takes the newest params.
print(f'{learner.save().counter["counts"]["steps"]} updates; the last but one:')
for name in ('critic_loss', 'actor_loss', 'policy_entropy', 'alpha'):
  print(f'  {name:15} {log.data[-1][name]:8.3f}')

batches.close()
server.stop()

# %% [markdown]
# The discount of a stored transition holds $\gamma$ already: the adder multiplies it in.

# %%
print('discounts in the batch:', np.unique(batch.discount))

# %% [markdown]
# ## `run_experiment`
#
# Nobody writes that by hand: `run_experiment` takes an `ExperimentConfig` and does it all, with
# evaluations now and then. Three fields matter beside the four parts:
#
# - `logger_factory(label, steps_key, task_instance)` makes the loggers of actor, learner and
#   evaluator. Ours keep the rows in a list.
# - `checkpointing` says where and how often to save. None saves nothing; the default writes to
#   `~/acme`.
# - `seed`, of networks, noise and environments. Replay samples without one, so two runs differ.
#
# In replay two numbers decide how much is learned from each step. Per transition inserted,
# `samples_per_insert` are sampled, and one update takes `batch_size` of them. So
#
# $$\text{updates per environment step} = \frac{\mathtt{samples\_per\_insert}}
#    {\mathtt{batch\_size}} = \frac{128}{128} = 1$$
#
# from `min_replay_size` transitions on. It is Reverb's rate limiter that holds this ratio, by
# making whoever is ahead wait.

# %%
NUM_STEPS = max(400, int(5000 * BUDGET))
WARM_UP = max(200, int(1000 * BUDGET))  # Transitions before learning, of random actions.
NUM_EPISODES = 5  # Of an evaluation.

CONFIG = sac.SACConfig(
  batch_size=128,
  samples_per_insert=128.0,
  min_replay_size=WARM_UP,
  random_steps=WARM_UP,
  critic_learning_rate=1e-3,
  temperature_learning_rate=1e-3,
  tau=0.01,
)


class Log:
  """Keeps what an experiment logs: lists of rows, by label."""

  def __init__(self):
    self.rows = collections.defaultdict(list)

  def __call__(self, label, steps_key=None, task_instance=0):
    rows = self.rows[label]

    class Logger(acme.utils.loggers.Logger):
      def write(self, data):
        rows.append({**data, 'task': task_instance, 'time': time.monotonic()})

      def close(self):
        pass

    return Logger()

  def column(self, label, name):
    return np.array([float(row[name]) for row in self.rows[label]])

  def counts(self, label, name):
    """Returns a column of counts; nothing is logged of a part that has not begun."""
    return np.array([int(row.get(name, 0)) for row in self.rows[label]])


def make_experiment(builder, log, num_steps=NUM_STEPS):
  return experiments.ExperimentConfig(
    builder=builder,
    network_factory=make_networks,
    environment_factory=make_environment,
    max_num_actor_steps=num_steps,
    seed=0,
    logger_factory=log,
    checkpointing=None,
  )


def run(builder):
  """Trains an agent in this process, and returns its log."""
  log = Log()
  experiments.run_experiment(
    make_experiment(builder, log),
    eval_every=max(200, int(500 * BUDGET)),
    num_eval_episodes=NUM_EPISODES,
  )
  return log


def evaluations(log):
  """Returns steps [E] and returns [E, episodes]."""
  steps = log.counts('evaluator', 'actor_steps').reshape(-1, NUM_EPISODES)
  return steps[:, 0], log.column('evaluator', 'episode_return').reshape(-1, NUM_EPISODES)


# %%
logs = {'learned': run(sac.SACBuilder(CONFIG))}

steps, returns = evaluations(logs['learned'])
print('  step   mean return of greedy episodes')
for step, values in zip(steps, returns, strict=True):
  print(f'{step:6.0f} {values.mean():10.1f}')
if BUDGET == 1:
  assert returns.mean(axis=1)[-3:].max() > -300  # A single evaluation may fall into a dip.


# %%
FIXED_ALPHA = 1.0  # Of a second run, below.


def draw(logs):
  figure, (left, middle, right) = plt.subplots(1, 3, figsize=(11, 3.3))
  for (name, log), style in zip(logs.items(), ('-', '--', ':'), strict=False):
    steps, returns = evaluations(log)
    (line,) = left.plot(steps, returns.mean(axis=1), 'o' + style, markersize=3, label=name)
    left.fill_between(
      steps, returns.min(axis=1), returns.max(axis=1), color=line.get_color(), alpha=0.15
    )
    x = log.counts('learner', 'learner_steps')
    entropy = log.column('learner', 'policy_entropy')
    window = max(1, len(x) // 50)
    smooth = np.convolve(entropy, np.ones(window) / window, 'valid')
    middle.plot(x[window - 1 :], smooth, style)
    if 'alpha' in log.rows['learner'][0]:
      right.plot(x, log.column('learner', 'alpha'), style)
    else:
      right.plot(x[[0, -1]], [FIXED_ALPHA, FIXED_ALPHA], style)
  left.set(title='Return of greedy episodes', ylabel='return')
  middle.axhline(-1.0, color='k', linewidth=1, linestyle=':')
  middle.set(title=r'Entropy; dotted its target $\bar H$', ylabel='nats')
  right.set(title=r'Temperature $\alpha$', ylim=(0, None))
  for axis, counted in ((left, 'environment steps'), (middle, 'updates'), (right, 'updates')):
    axis.set(xlabel=counted, xlim=(0, None))
  if len(logs) > 1:
    left.legend(title='temperature', fontsize=8, loc='lower right')
  figure.tight_layout()
  plt.show()


draw(logs)

# %% [markdown]
# Left the mean of five greedy episodes, in a band from the worst to the best. For 1,000 steps the
# actor is random and nothing is learned. Then the temperature falls from 1, and with it the entropy
# of the policy, towards the target of $-1$ nat.
#
# ## Acting and learning in step
#
# Every row that is logged has the counts of all parts. The steps of the learner over those of the
# actor show what the rate limiter does:

# %%
log = logs['learned']
inserted, learned = log.counts('actor', 'actor_steps'), log.counts('actor', 'learner_steps')
expected = np.maximum(0, inserted - WARM_UP)
# Of transitions, as one is for one update here.
tolerance = CONFIG.samples_per_insert_tolerance_rate * CONFIG.min_replay_size

figure, (left, right) = plt.subplots(1, 2, figsize=(9, 3.2))
left.plot(inserted, learned, '.', label='at the end of each episode')
left.plot(inserted, expected, 'k--', linewidth=1, label='one for each step')
left.set(xlabel='environment steps', ylabel='updates', title='The learner follows the actor')
left.legend()
right.plot(inserted, learned - expected, '.')
for limit in (-tolerance, tolerance):
  right.axhline(limit, color='k', linestyle='--', linewidth=1)
right.set(xlabel='environment steps', ylabel='updates', title='Ahead of it, and the limits')
figure.tight_layout()
plt.show()

# %% [markdown]
# As soon as it may, the learner goes ahead as far as the limiter lets it, and from then on waits
# for the actor. How far that is, `samples_per_insert_tolerance_rate` says: here 0.1 of
# `min_replay_size`.
#
# ## Swap a block
#
# For an algorithm of your own, hand `BlocksBuilder` a function from networks to an `Algorithm`.
# Replay, adder, learner and actor stay as they are. Here is SAC without the block that learns the
# temperature, which stays at 1, where it begins in the run above.


# %%
def fixed_temperature(networks):
  critic = objectives.critic_objective(networks)
  actor = objectives.actor_objective(networks)
  step = blocks.chain(
    blocks.gradient_step('critic', critic, optax.adam(CONFIG.critic_learning_rate)),
    blocks.gradient_step('actor', actor, optax.adam(CONFIG.actor_learning_rate)),
    blocks.polyak_step('critic', 'target_critic', tau=CONFIG.tau),
  )
  components = recipes.actor_critic_components(networks, initial_alpha=FIXED_ALPHA)
  return recipes.algorithm(networks, step, components=components)


logs['fixed'] = run(BlocksBuilder(CONFIG, fixed_temperature))
draw(logs)

print('temperature   last greedy episodes   last 10 episodes of acting')
for name, log in logs.items():
  acting = log.column('actor', 'episode_return')[-10:]
  print(f'{name:11}   {evaluations(log)[1][-1].mean():20.1f}   {acting.mean():26.1f}')

# %% [markdown]
# A fixed temperature sets the price of entropy, in units of reward, and the entropy follows; with a
# learned one it is the other way round. At a price of 1 the policy keeps clearly more
# entropy than the target asks for, and swings up all the same. Which of the two learns faster, one
# run each cannot tell: delays and dips as on the left come and go with the seed.
#
# ## The same experiment as a Launchpad program
#
# `make_distributed_experiment` takes the same `ExperimentConfig` and makes a program of nodes.
# Nothing runs yet: a node holds what is to be made later, and handles to the nodes that it calls.

# %%
NUM_ACTORS = 2
program_config = dataclasses.replace(CONFIG, random_steps=WARM_UP // NUM_ACTORS)
program_log = Log()
program = experiments.make_distributed_experiment(
  make_experiment(
    sac.SACBuilder(program_config), program_log, num_steps=max(400, int(4000 * BUDGET))
  ),
  num_actors=NUM_ACTORS,
)


for label, nodes in program.groups.items():
  print(f'{len(nodes)} {label}')

# %%
PLACES = {
  'counter': (5, 4),
  'replay': (1, 2),
  'learner': (9, 2),
  'actor': (3.5, 0),
  'evaluator': (9, 0),
}
CALLS = {
  ('actor', 'replay'): 'inserts\ntransitions',
  ('learner', 'replay'): 'samples batches',
  ('actor', 'learner'): 'fetches params',
  ('evaluator', 'learner'): 'fetches\nparams',
  # For the counts.
  ('actor', 'counter'): '',
  ('evaluator', 'counter'): '',
  ('learner', 'counter'): '',
  ('replay', 'counter'): '',
}
assert set(PLACES) == set(program.groups)
figure, axes = plt.subplots(figsize=(7.5, 3.8))
boxes = {}
for label, place in PLACES.items():
  number = len(program.groups[label])
  name = label if number == 1 else f'{number} x {label}'
  style = {'boxstyle': 'round,pad=0.5', 'facecolor': 'azure'}
  text = axes.text(*place, name, ha='center', va='center', bbox=style)
  boxes[label] = text.get_bbox_patch()
for (source, target), meaning in CALLS.items():
  axes.annotate(
    '',
    PLACES[target],
    PLACES[source],
    arrowprops={
      'arrowstyle': '->',
      'color': 'k' if meaning else 'silver',
      'patchA': boxes[source],
      'patchB': boxes[target],
    },
  )
  middle = np.mean([PLACES[source], PLACES[target]], axis=0)
  box = {'facecolor': 'w', 'edgecolor': 'none', 'pad': 1}
  axes.text(*middle, meaning, ha='center', va='center', fontsize=8, bbox=box)
axes.set(xlim=(0, 10), ylim=(-0.6, 4.6), title='Who calls whom (grey: for the counts)')
axes.axis('off')
figure.tight_layout()
plt.show()

# %% [markdown]
# What is a function call in `run_experiment` is a call over the network here (by courier, and to
# replay by Reverb's own protocol):
#
# - each actor has its own environment, and fetches the params every `variable_update_period` steps;
# - the rate limiter is in the replay server, so it holds for all actors together;
# - the counter adds up the steps of all and ends the program. At the budget the actors finish their
#   episodes, the learner stops, the evaluator judges the final params, and every node ends.
#
# ## Launch
#
# `local_mt` makes a thread of this kernel out of each node. That starts at once, and our log is
# within reach of all of them.


# %%
def launch(program):
  """Runs a program as threads, until it has ended."""
  # Launchpad takes Ctrl-C for itself and keeps it: give it back to the kernel.
  interrupt = signal.getsignal(signal.SIGINT)
  manager = lp.launch(program, 'local_mt')
  signal.signal(signal.SIGINT, interrupt)
  try:
    manager.wait()
  except KeyboardInterrupt:
    manager.stop_and_wait()
    raise


launched = time.monotonic()
launch(program)

for i in range(NUM_ACTORS):
  rows = [row for row in program_log.rows['actor'] if row['task'] == i]
  print(f'actor {i}: {len(rows)} episodes, {sum(row["episode_length"] for row in rows)} steps')
last = program_log.rows['evaluator'][-1]
print(f'in all: {last["actor_steps"]} steps, {last["learner_steps"]} updates')
rate = program_log.column('replay', 'samples_per_insert')[-1]
print(f'samples per insert: {rate:.1f} of {CONFIG.samples_per_insert:.0f}')

# %%
figure, (left, right) = plt.subplots(1, 2, figsize=(10, 3.4))
for i in range(NUM_ACTORS):
  rows = [row for row in program_log.rows['actor'] if row['task'] == i]
  seconds = [row['time'] - launched for row in rows]
  (line,) = left.plot(
    seconds,
    np.cumsum([row['episode_length'] for row in rows]),
    ('-', '--')[i],
    linewidth=(4, 2)[i],
    alpha=(0.5, 1)[i],
    label=f'steps of actor {i}',
  )
  right.plot(
    [row['actor_steps'] for row in rows],
    [row['episode_return'] for row in rows],
    '.',
    color=line.get_color(),
    label=f'actor {i}',
  )
left.plot(
  program_log.column('learner', 'time') - launched,
  program_log.counts('learner', 'learner_steps'),
  'k',
  label='updates of the learner',
)
right.plot(
  program_log.counts('evaluator', 'actor_steps'),
  program_log.column('evaluator', 'episode_return'),
  'kx',
  markersize=4,
  alpha=0.6,
  label='evaluator, greedy',
)
left.set(xlabel='seconds', ylabel='count', title='Who has done how much')
right.set(xlabel='environment steps of both actors', ylabel='return', title='Return of episodes')
left.legend(fontsize=8)
right.legend(fontsize=8, loc='lower right')
figure.tight_layout()
plt.show()

if BUDGET == 1:
  assert np.median(program_log.column('evaluator', 'episode_return')[-10:]) > -500

# %% [markdown]
# After the warm-up of 500 steps each, both actors go at the same pace, and the learner at that of
# both together: it makes an update for each step of either. At the end it may be behind by the 100
# that the limiter tolerates. The crosses are episodes of the evaluator, which plays without a
# pause; the last one is on the final params. Single episodes scatter more than the means of five
# above, and a few still fail.
#
# A program runs once. To launch again, make it anew.
#
# ## Processes
#
# Threads share Python's lock, so environments written in Python wait for each other. `local_mp`
# makes a process of each node, here from a script:
#
# ```python
# def main(_):
#   program = experiments.make_distributed_experiment(experiment, num_actors=4)
#   lp.launch(program, 'local_mp', terminal='current_terminal').wait()
#
# app.run(main)  # of absl
# ```
#
# Then no node can see the lists of our log: loggers have to write to files, or to a server. And
# each process imports TensorFlow for Reverb, about ten seconds of a core. The command below comes
# with such loggers, and leaves `metrics.csv`, a curve, checkpoints, and the output of each node in
# `nodes/`:
#
# ```bash
# uv run sac-train --runner=distributed --num_actors=4
# ```
#
# ## Exercises
#
# Put your answer into the cell that says `answer = None`, and run the cell below it.


# %%
def check(answer, test):
  """Runs a test of assertions on an answer, if there is one."""
  if answer is None:
    print('not answered yet')
  else:
    test(answer)
    print('correct')


# %% [markdown]
# **1. Samples per insert.** With `batch_size=256` and `num_sgd_steps_per_step=4` a step of the
# learner makes four updates of 256 transitions. With which `samples_per_insert` does it take one
# step for every 16 steps of the environment?

# %%
answer = None


# %%
def test_samples_per_insert(answer):
  config = sac.SACConfig(batch_size=256, num_sgd_steps_per_step=4, samples_per_insert=answer)
  (table,) = sac.SACBuilder(config).make_replay_tables(environment_spec, policy)
  rate = table.info.rate_limiter_info.samples_per_insert
  steps = rate / (config.batch_size * config.num_sgd_steps_per_step)
  assert np.isclose(steps, 1 / 16), f'{steps:.4g} steps of the learner per step, expected 1/16'


check(answer, test_samples_per_insert)

# %% [markdown]
# **2. A stored discount.** In the middle of an episode, each transition in replay is to have the
# discount 0.970299, while $\gamma$ stays 0.99. Make `answer` a `sac.SACConfig` that does it. (The
# test plays an episode, so it costs a few seconds.)

# %%
answer = None


# %%
def test_stored_discount(answer):
  assert answer.discount == 0.99
  builder = sac.SACBuilder(
    dataclasses.replace(answer, batch_size=200, min_replay_size=1, samples_per_insert=None)
  )
  server = reverb.Server(builder.make_replay_tables(environment_spec, policy))
  client = reverb.Client(f'localhost:{server.port}')
  adder = builder.make_adder(client, environment_spec, policy)
  adder.add_first(environment.reset())
  timestep = environment.step([0.0])
  while not timestep.last():  # At the end of an episode windows are shorter.
    adder.add(np.zeros(1, np.float32), timestep)
    timestep = environment.step([0.0])
  adder.reset()
  batches = builder.make_dataset_iterator(client)
  discounts = next(batches).data.discount
  batches.close()
  server.stop()
  np.testing.assert_allclose(discounts, 0.970299, rtol=1e-6)


check(answer, test_stored_discount)

# %% [markdown]
# **3. A builder with an option.** Write a function `answer(config, period)` that returns
# a builder whose algorithm updates actor and temperature at the first update and at every
# `period`-th after it, and critics and targets at each. The target entropy is $-1$; learning rates
# and `tau` are the configuration's.

# %%
answer = None


# %%
def test_delayed_actor(answer):
  builder = answer(CONFIG, period=3)
  assert isinstance(builder, BlocksBuilder)
  algorithm = builder.make_algorithm(networks)
  update, state = jax.jit(algorithm.update), jax.jit(algorithm.init)(jax.random.PRNGKey(0))
  rng = np.random.default_rng(0)
  for i in range(1, 8):
    obs_tm1, obs_t = rng.normal(size=(2, 8, 3)).astype(np.float32)
    batch = sb.Transition(obs_tm1, np.zeros((8, 1), np.float32), np.ones(8), np.ones(8), obs_t)
    before = state
    state, _ = update(state, jax.tree.map(np.float32, batch))
    moves = jax.tree.map(lambda new, old: new - old, state.params, before.params)
    furthest = {name: max(jnp.abs(x).max() for x in jax.tree.leaves(moves[name])) for name in moves}
    for component in ('actor', 'log_alpha', 'critic', 'target_critic'):
      expected = i in (1, 4, 7) or 'critic' in component
      assert (furthest[component] > 1e-7) == expected, f'update {i}, {component}: {not expected}'
    if i == 1:
      # The first step of Adam is the learning rate, in each weight with a slope.
      rates = {'actor': CONFIG.actor_learning_rate, 'critic': CONFIG.critic_learning_rate}
      for component, rate in rates.items():
        np.testing.assert_allclose(furthest[component], rate, rtol=0.01, err_msg=component)
      # The entropy is above -1 at first, so the temperature falls.
      rate = CONFIG.temperature_learning_rate
      np.testing.assert_allclose(moves['log_alpha'], -rate, rtol=0.01, err_msg='temperature')
      expected = jax.tree.map(lambda x: CONFIG.tau * x, moves['critic'])
      chex.assert_trees_all_close(moves['target_critic'], expected, atol=1e-6)


check(answer, test_delayed_actor)
