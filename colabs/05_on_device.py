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
#   stack: modern
# ---

# %% [markdown]
# # 5. On the device
#
# Where the environment is a pure function, too, all of training is one: environments, replay and
# updates compile into a single program, and the host has nothing to do between two evaluations.
# This is called the Anakin architecture (Hessel et al. 2021). What costs no code then is
# `jax.vmap`: many seeds, and many hyper-parameters, train side by side in that one program.
#
# What you will learn:
#
# - which pure functions the loop is made of, and what `vmap` makes of them;
# - how to sweep hyper-parameters in one compilation;
# - what an interval over few seeds can tell, and why the winner of a sweep disappoints;
# - how to report sixteen seeds: the interquartile mean and its bootstrap interval.

# %%
try:
  import sac_blocks
except ImportError:
  REPOSITORY = 'https://github.com/sac-blocks/sac_blocks'
  # %pip install -q "sac-blocks[train] @ git+{REPOSITORY}" "scipy>=1.15"

# %%
import dataclasses
import os

import jax
import jax.numpy as jnp
import matplotlib.pyplot as plt
import numpy as np
import optax
from scipy import stats

from agents import anakin
from agents.anakin import environments
from sac_blocks import recipes
from sac_blocks.networks import make_networks

# Tests set a small one: everything long is scaled by it.
BUDGET = float(os.environ.get('COLAB_BUDGET', '1'))
plt.rcParams.update({'figure.dpi': 90, 'axes.grid': True, 'grid.alpha': 0.3})

# %% [markdown]
# ## Pure functions
#
# An environment is `reset(key)` and `step(state, action, key)`. Nothing is hidden in an object, so
# `vmap` makes any number of environments of one.

# %%
environment = environments.make('builtin:pendulum')
keys = jax.random.split(jax.random.key(0), 3)
env_states, observations = jax.vmap(environment.reset)(keys)
env_states, timesteps = jax.vmap(environment.step)(env_states, jnp.zeros((3, 1)), keys)
print('rewards of three environments: ', timesteps.reward)
print('discounts, 0 where a task ends:', timesteps.discount)

# %% [markdown]
# `anakin.make_trainer` makes the loop of an environment and an algorithm, as pure functions again:
# `init(key)`, `warm_up(state)`, `iteration(state)` and `evaluate(params, key)`. An iteration takes
# `rollout_length` steps in each of `num_envs` environments, puts them into replay, and makes
# `num_updates` updates. With the numbers below that is one update a step.

# %%
networks = make_networks(environment.observation_spec, action_size=1, hidden_sizes=(32, 32))
NUM_STEPS = max(120, int(5000 * BUDGET))
config = anakin.AnakinConfig(
  num_steps=NUM_STEPS,
  num_envs=4,
  num_updates=4,
  batch_size=64,
  buffer_size=NUM_STEPS,
  learning_starts=NUM_STEPS // 5,
  random_steps=NUM_STEPS // 5,
  eval_every=NUM_STEPS // 20,
  num_eval_episodes=5,
  max_eval_steps=200,
)
trainer = anakin.make_trainer(environment, recipes.sac(networks), config)

one = jax.eval_shape(trainer.init, jax.random.key(0))
sixteen = jax.eval_shape(jax.vmap(trainer.init), jax.random.split(jax.random.key(0), 16))
for name, state in (('one seed', one), ('sixteen seeds', sixteen)):
  rewards = state.replay.rows.reward
  print(
    f'{name:13}  rewards in replay {rewards.shape}, number of updates {state.num_updates.shape}'
  )

# %% [markdown]
# (`eval_shape` only follows shapes, so this cost nothing.) That state holds all there is of a
# training run. What would be a lot of code elsewhere, sixteen runs at once, is an axis here.
#
# ## A sweep in one compilation
#
# `anakin.train` runs these functions with an evaluation every so often, for one key or for many.
# With `options`, each key has its own hyper-parameters: a row of arrays, with which `algorithm` is
# called inside of the compiled program. We sweep four learning rates and three speeds $\tau$ of the
# target critics, each pair with three seeds: 36 training runs.

# %%
LEARNING_RATES, TAUS = (3e-4, 1e-3, 3e-3, 1e-2), (0.005, 0.02, 0.08)
NUM_SEEDS = 3 if BUDGET == 1 else 2


def algorithm(row):
  adam = optax.adam(row['learning_rate'])
  return recipes.sac(
    networks,
    actor_optimizer=adam,
    critic_optimizer=adam,
    temperature_optimizer=adam,
    tau=row['tau'],
  )


pairs = [(rate, tau) for rate in LEARNING_RATES for tau in TAUS]


def rows_of(pairs, num_seeds):
  """Returns options with `num_seeds` rows for each pair."""
  rates, taus = np.repeat(np.array(pairs), num_seeds, axis=0).T
  return {'learning_rate': jnp.array(rates), 'tau': jnp.array(taus)}


def train(pairs, num_seeds, key):
  """Returns steps [evaluations] and mean returns [evaluations, pairs, seeds]."""
  keys = jax.random.split(key, len(pairs) * num_seeds)
  seconds = []
  result = anakin.train(
    environment,
    algorithm,
    config,
    keys,
    [lambda report: seconds.append(report.seconds)],
    options=rows_of(pairs, num_seeds),
  )
  updates = int(result.state.num_updates.sum())
  print(
    f'{len(keys)} runs: {seconds[1]:.0f} s for compiling, warm-up and the first updates, then '
    f'{seconds[-1] - seconds[1]:.0f} s; {updates:,} updates in all'
  )
  returns = result.episode_return.mean(axis=-1)
  return result.num_steps, returns.reshape(-1, len(pairs), num_seeds)


steps, returns = train(pairs, NUM_SEEDS, jax.random.key(0))

# %% [markdown]
# Compiling is paid once for all 36. A run is scored by its return, averaged over the evaluations of
# all of training: high means good and early. The heat map shows the mean of the seeds.

# %%
scores = returns.mean(axis=0)  # [pairs, seeds]
grid = scores.mean(axis=1).reshape(len(LEARNING_RATES), len(TAUS))
figure, axes = plt.subplots(figsize=(5, 3.6))
image = axes.imshow(grid, cmap='viridis')
for (i, j), value in np.ndenumerate(grid):
  dark = value < (grid.min() + grid.max()) / 2
  axes.text(j, i, f'{value:.0f}', ha='center', va='center', color='w' if dark else 'k')
axes.set_xticks(range(len(TAUS)), [str(tau) for tau in TAUS])
axes.set_yticks(range(len(LEARNING_RATES)), [f'{rate:g}' for rate in LEARNING_RATES])
axes.set(xlabel=r'speed of the targets $\tau$', ylabel='learning rate')
axes.set_title('Return, mean over training')
axes.grid(visible=False)
figure.colorbar(image)
figure.tight_layout()
plt.show()

# %% [markdown]
# The usual values, a rate of 3e-4 with $\tau = 0.005$, are made for a million steps. For five
# thousand both have to be higher. The best pairs are at the edge of the grid, so better ones may
# lie outside: a real sweep would go on there.
#
# ## What three seeds can tell
#
# A mean of three numbers is known badly. Its 95% interval (Student's t) is $\pm 2.5$ standard
# deviations of the seeds: $t_{0.975}(2) / \sqrt{3} = 4.3 / 1.7$.


# %%
def t_interval(values):
  """Returns mean and half width of the 95% interval of the mean, over the last axis."""
  half_width = stats.t.ppf(0.975, np.shape(values)[-1] - 1) * stats.sem(values, axis=-1)
  return np.mean(values, axis=-1), half_width


order = np.argsort(scores.mean(axis=1))
labels = [f'{rate:g}, {tau}' for rate, tau in pairs]
means, half_widths = t_interval(scores)
figure, axes = plt.subplots(figsize=(7, 4))
for place, i in enumerate(order):
  axes.errorbar(means[i], place, xerr=half_widths[i], fmt='s', color='tab:blue', capsize=3)
  axes.plot(scores[i], np.full(NUM_SEEDS, place), '.', color='tab:orange')
axes.set(yticks=range(len(pairs)), yticklabels=[labels[i] for i in order])
axes.set(xlabel='return, mean over training', ylabel=r'learning rate, $\tau$')
axes.set_title(f'Mean and its 95% interval of {NUM_SEEDS} seeds (dots)')
figure.tight_layout()
plt.show()

# %% [markdown]
# The sweep does tell rates: with $\tau$ of 0.02 or more, the intervals of 3e-3 and 1e-2 touch none
# of those of 1e-3 and 3e-4. It doesn't tell the best from the second, nor most neighbours from each
# other.
#
# ## Sixteen new seeds
#
# The winner of a sweep was picked for its score, and so for its luck. Its score is too good on
# average, the more so the more candidates and the fewer seeds there were. An honest number needs
# new seeds. We train the best two again, with sixteen each, and again in one program.

# %%
MANY = 16 if BUDGET == 1 else 3
finalists = [int(i) for i in order[::-1][:2]]
steps, new_returns = train([pairs[i] for i in finalists], MANY, jax.random.key(1))
new_scores = new_returns.mean(axis=0)  # [2, seeds]

figure, axes = plt.subplots(figsize=(7, 2.6))
for place, (i, values) in enumerate(zip(finalists, new_scores, strict=True)):
  for offset, color, sample, name in (
    (0.15, 'tab:blue', scores[i], f'{NUM_SEEDS} seeds of the sweep'),
    (-0.15, 'tab:green', values, f'{MANY} new seeds'),
  ):
    mean, half_width = t_interval(sample)
    where = offset - place
    label = name if place == 0 else None
    axes.errorbar(mean, where, xerr=half_width, fmt='s', color=color, capsize=3, label=label)
    axes.plot(sample, np.full(len(sample), where), '.', color=color, alpha=0.5)
axes.set(yticks=(0, -1), yticklabels=[labels[i] for i in finalists], ylim=(-1.5, 0.6))
axes.set(xlabel='return, mean over training', title='The best two of the sweep, trained again')
axes.legend(fontsize=8, loc='center left', bbox_to_anchor=(1.0, 0.5), frameon=False)
figure.tight_layout()
plt.show()

for i, values in zip(finalists, new_scores, strict=True):
  old, (mean, half_width) = scores[i].mean(), t_interval(values)
  print(f'{labels[i]:12} sweep {old:5.0f}   new seeds {mean:5.0f} +- {half_width:.0f}')
one, other = new_scores
spread = np.sqrt(stats.sem(one) ** 2 + stats.sem(other) ** 2)
margin = stats.t.ppf(0.975, 2 * (MANY - 1)) * spread
print(f'difference {(one - other).mean():.0f} +- {margin:.0f}')

# %% [markdown]
# The factor before the standard deviation fell from 2.5 to $2.1 / 4 = 0.53$. (How much narrower an
# interval really comes out depends on the three seeds, whose spread is itself known badly.) On
# average over sweeps the new means are lower. In a single sweep that drowns in the intervals. And
# the interval of the difference still says whether the two can be told apart. Trust the green, and
# report how many candidates there were.
#
# ## Reporting
#
# Means of returns are pulled by single bad seeds. So papers have come to report the interquartile
# mean (Agarwal et al. 2021), the mean of the middle half of all runs, with a bootstrap interval:
# draw the runs with replacement, again and again, and see where 95% of the results lie. (Over
# several tasks, draw within each.) Both are functions of SciPy. The band in the picture is for each
# step, not for the curve as a whole.


# %%
def iqm(values, axis):
  return stats.trim_mean(values, 0.25, axis=axis)


def bootstrap_interval(values):
  """Returns the low and high end of the 95% interval of the IQM, `[seeds, ...]` to `[...]` each."""
  interval = stats.bootstrap(
    (values,), iqm, n_resamples=2000, method='percentile', rng=np.random.default_rng(0)
  ).confidence_interval
  return interval.low, interval.high


figure, (left, right) = plt.subplots(1, 2, figsize=(10, 3.6), width_ratios=(3, 2))
for column, color in ((0, 'tab:blue'), (1, 'tab:orange')):
  values = new_returns[:, column].T  # [seeds, evaluations]
  left.plot(steps, values.T, color=color, linewidth=0.5, alpha=0.4)
  left.plot(steps, iqm(values, 0), color=color, linewidth=2, label=labels[finalists[column]])
  left.fill_between(steps, *bootstrap_interval(values), color=color, alpha=0.2)
left.set(xlabel='environment steps', ylabel='greedy return')
left.set_title(f'IQM of {MANY} seeds, its 95% interval, and each seed')
left.legend(title=r'learning rate, $\tau$', fontsize=8)

few = [n for n in (4, 8, 12, 16) if n <= MANY] or [MANY]
centres = np.array([iqm(new_scores[0, :n], 0) for n in few])
ends = np.array([bootstrap_interval(new_scores[0, :n]) for n in few]).T
right.errorbar(few, centres, yerr=np.abs(ends - centres), fmt='s', color='tab:blue', capsize=3)
right.set(xlabel='seeds', ylabel='return, mean over training', xticks=few)
right.set_title('IQM of the first seeds only')
figure.tight_layout()
plt.show()

if BUDGET == 1:
  assert min(pairs[i][0] for i in finalists) >= 3e-3
  assert np.median(new_returns[-1]) > -200
  assert (t_interval(new_scores)[1] < 100).all()
  high, low = (
    [i for i, (rate, tau) in enumerate(pairs) if tau >= 0.02 and (rate > 2e-3) == is_high]
    for is_high in (True, False)
  )
  assert (means - half_widths)[high].min() > (means + half_widths)[low].max()

# %% [markdown]
# On the right is the first finalist, as if we had stopped at fewer seeds. A bootstrap can only draw
# again what it has seen. With three seeds, its 95% interval of the mean just reaches from the worst
# to the best: each of the two is drawn three times in a row with probability $1/27 = 3.7\%$, more
# than the 2.5% that are cut off. But three seeds lie all on one side of the median in one case of
# four. So with few seeds it is far too sure. Student's t is the honest choice there, and more seeds
# are the better one, which in a compiled loop cost little.
#
# ## Exercises
#
# Put your answer into the cell that says `answer`, and run the cell below it.


# %%
def check(answer, test):
  """Runs a test of assertions on an answer, if there is one."""
  if answer is None:
    print('not answered yet')
  else:
    test(answer)
    print('correct')


# %% [markdown]
# **1. Another task.** A pendulum with sparse rewards is a different matter. Write a function
# `answer(environment)` that returns the same environment with a reward of 1 where the tip is above
# 0.95 (the cosine of the angle, the first number of the observation that a step arrives at), and 0
# elsewhere. `Environment` and `TimeStep` are NamedTuples.


# %%
def answer(environment): ...


# %%
def test_sparse(sparse):
  state, _ = environment.reset(jax.random.key(0))
  keys = jax.random.split(jax.random.key(1), 400)

  def play(task):
    def step(state, key):
      action = jax.random.uniform(key, (1,), minval=-1.0, maxval=1.0)
      return task.step(state, 0.1 * action, key)

    top = jax.tree.map(jnp.zeros_like, state)  # Upright: angle and velocity are 0.
    return jax.lax.scan(step, top, keys)[1]

  dense_steps, sparse_steps = play(environment), play(sparse)
  np.testing.assert_array_equal(sparse_steps.observation, dense_steps.observation)
  np.testing.assert_array_equal(sparse_steps.last, dense_steps.last)
  np.testing.assert_array_equal(
    sparse_steps.reward, np.asarray(sparse_steps.observation)[:, 0] > 0.95
  )
  assert 0 < sparse_steps.reward.sum() < 400
  assert sparse_steps.reward.dtype == jnp.float32, sparse_steps.reward.dtype


check(answer(environment), test_sparse)

# %% [markdown]
# **2. An option of the loop.** With options, `config` may be a function of a row as well, for the
# discount and the scale of the rewards. Write `answer(row)`, which returns the `config` from above
# with the discount of the row, `row['discount']`. (A frozen dataclass changes by
# `dataclasses.replace`.)


# %%
def answer(row): ...


# %%
def test_discount(answer):
  assert answer({'discount': 0.9}) == dataclasses.replace(config, discount=0.9)
  traced = jax.jit(lambda discount: 2 * answer({'discount': discount}).discount)
  np.testing.assert_allclose(traced(0.4), 0.8, rtol=1e-6)


check(answer if answer({'discount': 0.9}) is not None else None, test_discount)

# %% [markdown]
# **3. The probability of improvement.** How probable is it that a run of X beats a run of Y?
# Estimate it from the scores of some seeds of each: the share of pairs $(x, y)$ with $x > y$, where
# a tie counts half. Write `answer(x, y)` for arrays `[M]` and `[N]`.


# %%
def answer(x, y): ...


# %%
def test_improvement(answer):
  np.testing.assert_allclose(answer(np.array([1.0, 2.0]), np.array([0.0, 3.0, 1.5])), 0.5)
  np.testing.assert_allclose(answer(np.array([1.0]), np.array([1.0, 0.0])), 0.75)
  x, y = np.random.default_rng(0).normal(size=(2, 12)).round(1)
  mann_whitney = stats.mannwhitneyu(x, y).statistic / (12 * 12)
  np.testing.assert_allclose(answer(x, y), mann_whitney)
  print(f'the winner beats the second with probability {answer(*new_scores):.2f}')


check(answer if answer(np.ones(2), np.ones(2)) is not None else None, test_improvement)
