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
# # 3. Discrete actions, masks, and how much entropy to ask for
#
# With a handful of actions nothing about the policy has to be sampled: values, losses and entropies
# are sums. This notebook meets the functions that compute them, forbids actions, and trains
# discrete SAC on CartPole with five target entropies at once.
#
# What you will learn:
#
# - what the `categorical_` functions compute, and how much noise the exact sums save;
# - how a mask makes actions illegal without NaN in values or gradients;
# - how `anakin.train` runs many settings side by side in one compiled loop;
# - why the target entropy of the paper, 0.98 of the largest, fails on CartPole.

# %%
try:
  import sac_blocks
except ImportError:
  REPOSITORY = 'https://github.com/sac-blocks/sac_blocks'
  # %pip install -q "sac-blocks[train] @ git+{REPOSITORY}"

# %%
import os

import jax
import jax.numpy as jnp
import matplotlib.pyplot as plt
import numpy as np
import optax

import sac_blocks as sb
from agents import anakin
from agents.anakin import environments
from sac_blocks import distributions, recipes
from sac_blocks.networks import make_discrete_networks

# Tests set a small one: everything long is scaled by it.
BUDGET = float(os.environ.get('COLAB_BUDGET', '1'))
plt.rcParams.update({'figure.dpi': 90, 'axes.grid': True, 'grid.alpha': 0.3})

# %% [markdown]
# ## Sums instead of samples
#
# A policy over $A$ actions is $p = \mathrm{softmax}(\text{logits})$, and critics give the values of
# all actions at once, `q [N, ..., A]`. So the soft value is no estimate,
#
# $$V = \sum_a p_a \big(\min_i q_{ia} - \alpha \log p_a\big),$$
#
# and neither is the loss of the actor, in which the values are constants:
#
# $$L = \sum_a p_a \big(\alpha \log p_a - \mathrm{sg}(\min_i q_{ia})\big).$$

# %%
q = jnp.array([[1.0, 2.0, 0.5, -1.0], [1.5, 1.8, 0.4, 0.0]])  # [N, A]
logits = jnp.zeros(4)
alpha = 0.5

loss, entropy = sb.categorical_actor_loss(logits, q, alpha)
print(f'soft value {sb.categorical_soft_value(q, logits, alpha):.4f}')
print(f'loss       {loss:.4f}, its negative')
print(f'entropy    {entropy:.4f}, of a uniform policy log 4 = {np.log(4):.4f}')

# %% [markdown]
# The other way would be to draw an action, and to weight the slope of its log-probability, as
# policy gradients do. Its mean is the slope of the sum. How noisy is it?


# %%
def sampled_slope(key):
  action = distributions.Categorical(logits).sample(seed=key)
  cost = alpha * distributions.Categorical(logits).log_prob(action) - q.min(axis=0)[action]
  return cost * jax.grad(lambda x: distributions.Categorical(x).log_prob(action))(logits)


exact = jax.grad(lambda x: sb.categorical_actor_loss(x, q, alpha)[0])(logits)
samples = jax.jit(jax.vmap(sampled_slope))(jax.random.split(jax.random.key(0), 5000))
print('exact slope       ', np.asarray(exact).round(3))
print('mean of 5,000     ', np.asarray(samples.mean(axis=0)).round(3))
print('standard deviation', np.asarray(samples.std(axis=0)).round(3))

# %% [markdown]
# The noise of one sample is as large as the slope or larger. The sum has none. Descending it leads
# to the softmax of the values, whatever the start:


# %%
def descend(alpha, steps):
  slope = jax.grad(lambda x: sb.categorical_actor_loss(x, q, alpha)[0])
  return jax.lax.fori_loop(0, steps, lambda _, x: x - 0.5 / alpha * slope(x), jnp.zeros(4))


figure, panels = plt.subplots(1, 2, figsize=(8.5, 3), sharey=True)
x = np.arange(4)
for axes, alpha in zip(panels, (0.2, 1.0), strict=True):
  for i, steps in enumerate((0, 5, 200)):
    probs = jax.nn.softmax(descend(alpha, steps))
    axes.bar(
      x + 0.25 * (i - 1),
      probs,
      0.25,
      label=f'after {steps} steps',
      color=plt.cm.Blues(0.3 + 0.3 * i),
    )
  best = jax.nn.softmax(q.min(axis=0) / alpha)
  axes.plot(
    x + 0.25,
    best,
    'k_',
    markersize=14,
    markeredgewidth=2,
    label=r'softmax of $\min_i q_i / \alpha$',
  )
  axes.set(xlabel='action', xticks=x, title=rf'$\alpha$ = {alpha}', ylim=(0, 1))
panels[0].set_ylabel('probability')
panels[0].legend(fontsize=8)
figure.tight_layout()
plt.show()

# %% [markdown]
# ## Illegal actions
#
# In many tasks some actions are not allowed in some states. A mask says which are, and then illegal
# ones contribute exactly 0 to values and gradients, whatever their logits and values are. The usual
# trick by hand, logits of minus infinity, falls over $0 \cdot \infty$:

# %%
mask = jnp.array([True, True, True, False])
wild = q.at[:, 3].set(jnp.inf)  # Nobody has ever fitted the value of an action that can't be taken.


def by_hand(logits):
  log_probs = jax.nn.log_softmax(jnp.where(mask, logits, -jnp.inf))
  return jnp.sum(jnp.exp(log_probs) * (wild.min(axis=0) - 0.2 * log_probs))


def with_mask(logits):
  return sb.categorical_soft_value(wild, logits, 0.2, mask)


print('by hand  ', by_hand(jnp.zeros(4)), jax.grad(by_hand)(jnp.zeros(4)))
print('with mask', with_mask(jnp.zeros(4)), jax.grad(with_mask)(jnp.zeros(4)))

# %% [markdown]
# The largest entropy depends on the number of legal actions, so the target entropy has to, as well.
# `sb.discrete_target_entropy` takes the mask and a ratio:
#
# $$\bar H = \text{ratio} \cdot \log \sum_a m_a .$$

# %%
masks = jnp.array([[1, 1, 1, 1], [1, 1, 0, 0], [0, 0, 1, 0]])
print('half of the largest entropies:', sb.discrete_target_entropy(masks, ratio=0.5))

# %% [markdown]
# In a whole agent the mask is a part of the observation, a dict with the key `action_mask`. The
# default networks read it there. An untrained policy, in a state that allows the middle two of four
# actions:

# %%
masked_spec = {
  'observation': jax.ShapeDtypeStruct((3,), 'float32'),
  'action_mask': jax.ShapeDtypeStruct((4,), 'bool'),
}
masked_algorithm = recipes.sac_discrete(make_discrete_networks(masked_spec, num_actions=4))
params = jax.jit(masked_algorithm.init)(jax.random.key(0)).params
observations = {
  'observation': jnp.ones((1000, 3)),
  'action_mask': jnp.tile(jnp.array([False, True, True, False]), (1000, 1)),
}
for name in ('policy', 'random_policy', 'evaluation_policy'):
  drawn = jax.jit(getattr(masked_algorithm, name))(params, observations, jax.random.key(1))
  print(f'{name:18}', jnp.bincount(drawn, length=4))

# %% [markdown]
# ## How much entropy to ask for
#
# SAC learns its temperature so that the entropy of the policy meets a target. For discrete actions
# the target is a ratio of the largest entropy, $\log A$. The paper takes 0.98. What does a policy
# of that entropy look like, with two actions?

# %%
RATIOS = (0.98, 0.89, 0.7, 0.5, 0.2)
COLORS = ('tab:red', 'tab:orange', 'tab:green', 'tab:blue', 'tab:purple')
p = np.linspace(0.5, 0.999, 1000)
ratio_of_p = -(p * np.log(p) + (1 - p) * np.log(1 - p)) / np.log(2)

figure, axes = plt.subplots(figsize=(6, 3.2))
axes.plot(p, ratio_of_p, 'k')
for ratio, color in zip(RATIOS, COLORS, strict=True):
  best = p[np.argmin(np.abs(ratio_of_p - ratio))]
  axes.plot([0.5, best, best], [ratio, ratio, 0], color=color, linewidth=1)
  axes.plot(best, ratio, 'o', color=color, label=f'{ratio}: probability {best:.2f}')
axes.set(xlabel='probability of the better action', ylabel=r'entropy / $\log 2$')
axes.set(title='What a target entropy allows', xlim=(0.5, 1), ylim=(0, 1.03))
axes.legend(fontsize=8, title='ratio', loc='lower left')
figure.tight_layout()
plt.show()

# %% [markdown]
# At 0.98 the better action may be taken with a probability of 0.58: the policy has to be nearly
# random.
#
# ## Five ratios at once
#
# CartPole ends when the pole falls, pays 1 a step and stops at 500. `anakin.train` compiles
# environment, replay and updates into one loop. With `options` it trains a row of them for each
# key: here ratios, with two seeds each. `algorithm` is a function of one row, in which the ratio is
# traced, so that all rows are one program.

# %%
environment = environments.make('builtin:cartpole')
networks = make_discrete_networks(
  environment.observation_spec, num_actions=2, hidden_sizes=(64, 64)
)

NUM_SEEDS = 2
NUM_STEPS = max(600, int(20_000 * BUDGET))
config = anakin.AnakinConfig(
  num_steps=NUM_STEPS,
  num_envs=4,
  num_updates=4,  # After 4 steps, one in each environment.
  batch_size=64,
  buffer_size=NUM_STEPS,
  learning_starts=NUM_STEPS // 20,
  random_steps=NUM_STEPS // 20,
  eval_every=NUM_STEPS // 16,
  num_eval_episodes=5,
)


def algorithm(row):
  return recipes.sac_discrete(
    networks,
    target_entropy_ratio=row['ratio'],
    actor_optimizer=optax.adam(2e-3),
    critic_optimizer=optax.adam(2e-3),
    temperature_optimizer=optax.adam(1e-3),
    tau=0.05,
  )


options = {'ratio': jnp.repeat(jnp.array(RATIOS), NUM_SEEDS)}
keys = jax.random.split(jax.random.key(0), len(RATIOS) * NUM_SEEDS)
result = anakin.train(environment, algorithm, config, keys, options=options)


def by_ratio(values):
  """Makes an axis of seeds out of the rows: [..., rows] to [..., ratios, seeds]."""
  return np.reshape(values, (*np.shape(values)[:-1], len(RATIOS), NUM_SEEDS))


greedy = by_ratio(result.episode_return.mean(axis=-1))  # [evaluations, ratios, seeds]
metric_steps = result.metrics_num_steps
acting, alphas, entropies = (
  by_ratio(result.metrics[name]) for name in ('episode_return', 'alpha', 'policy_entropy')
)

print('ratio   greedy return    acting return   temperature   entropy / log 2')
for i, ratio in enumerate(RATIOS):
  last = f'{greedy[-1, i].mean():13.0f} {np.nanmean(acting[-3:, i]):16.0f}'
  print(
    f'{ratio:5} {last} {alphas[-1, i].mean():13.2f} {entropies[-1, i].mean() / np.log(2):17.2f}'
  )

# %%
figure, (left, right) = plt.subplots(1, 2, figsize=(10, 3.6), sharey=True)
for i, (ratio, color) in enumerate(zip(RATIOS, COLORS, strict=True)):
  left.plot(result.num_steps / 1000, greedy[:, i], color=color, alpha=0.4, linewidth=0.8)
  left.plot(result.num_steps / 1000, greedy[:, i].mean(axis=-1), color=color, linewidth=2)
  right.plot(metric_steps / 1000, acting[:, i], color=color, alpha=0.4, linewidth=0.8)
  right.plot(
    metric_steps / 1000, acting[:, i].mean(axis=-1), color=color, linewidth=2, label=str(ratio)
  )
left.set(
  xlabel='thousand environment steps', ylabel='return', title='Greedy: the most probable action'
)
right.set(xlabel='thousand environment steps', title='Acting: actions are drawn')
right.legend(title='ratio', loc='center left', bbox_to_anchor=(1.0, 0.5), frameon=False)
figure.tight_layout()
plt.show()

# %%
figure, (left, right) = plt.subplots(1, 2, figsize=(10, 3.4))
for i, (ratio, color) in enumerate(zip(RATIOS, COLORS, strict=True)):
  left.semilogy(metric_steps / 1000, alphas[:, i].mean(axis=-1), color=color)
  right.plot(
    metric_steps / 1000, entropies[:, i].mean(axis=-1) / np.log(2), color=color, label=str(ratio)
  )
  right.axhline(ratio, color=color, linestyle=':', linewidth=1)
left.set(xlabel='thousand environment steps', title=r'Temperature $\alpha$')
right.set(
  xlabel='thousand environment steps', title=r'Entropy / $\log 2$ (dotted: target)', ylim=(0, 1.05)
)
right.legend(title='ratio', loc='center left', bbox_to_anchor=(1.0, 0.5), frameon=False)
figure.tight_layout()
plt.show()

if BUDGET == 1:
  good = [RATIOS.index(r) for r in (0.7, 0.5)]
  assert np.median(greedy[-3:, good]) > 400
  assert np.nanmean(acting[-3:, 0]) < 100
  assert alphas[-1, 0].mean() > 10 * alphas[-1, RATIOS.index(0.5)].mean()

# %% [markdown]
# Every policy meets its target entropy, as the dotted lines show. But look at the price.
#
# - **0.98** learns to balance at first, as the greedy returns show, and loses it again. Once the
#   temperature has grown, what acts is nearly random, episodes are short, and replay fills with
#   them.
# - **0.89** may learn a good greedy policy and may keep it, but what acts can't balance.
# - **From 0.7 down** the acting policy solves the task, and the temperature settles.
#
# Why does the temperature grow without end above? As in notebook 1, entropy is income. A step pays
# 1 and $\alpha H$, so both the value of balancing and what is lost by falling grow in proportion to
# $\alpha$. Raising $\alpha$ was meant to flatten $\mathrm{softmax}(q / \alpha)$, but $q$ rises
# along with it: for a large $\alpha$ the agent balances for the sake of the entropy of many steps,
# and it can only do so by being less random than it is told to be. So the entropy falls below the
# target, and $\alpha$ rises again.
#
# With the tanh-Gaussian policies of notebook 2 the usual target of $-1$ nat a dimension is far
# below the largest entropy. The discrete counterpart is a ratio well below 1.
# `recipes.sac_discrete` takes 0.5 unless told otherwise.
#
# Two seeds are few, and single curves jump. Before you believe a comparison of your own, run more:
# here that is one number, `NUM_SEEDS`.
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
# **1. More actions.** With $A$ actions let one have the probability $p$ and all others share the
# rest equally. Write a function `answer(num_actions, ratio)` that returns the $p \ge 1/A$ at which
# the entropy is `ratio` of the largest. What does 0.98 mean for 18 actions, as Atari games have?

# %%
answer = None


# %%
def test_probability(answer):
  for num_actions, ratio in ((2, 0.98), (4, 0.5), (18, 0.98)):
    best = float(answer(num_actions, ratio))
    assert best >= 1 / num_actions
    probs = np.append(best, np.full(num_actions - 1, (1 - best) / (num_actions - 1)))
    entropy = distributions.Categorical(jnp.log(probs)).entropy()
    np.testing.assert_allclose(entropy, ratio * np.log(num_actions), rtol=1e-3)


check(answer, test_probability)

# %% [markdown]
# **2. Masks by hand.** Write a function `answer(q, logits, mask, alpha)` of `[A]` arrays that
# equals `sb.categorical_soft_value(q[None], logits, alpha, mask)` and uses `jnp` only. Mind the
# values that are infinite, and the gradient with respect to the logits.

# %%
answer = None


# %%
def test_masked_value(answer):
  logits, values = jnp.array([0.3, -0.2, 0.1, 2.0]), wild.min(axis=0)
  expected = jax.value_and_grad(with_mask)(logits)
  actual = jax.value_and_grad(lambda x: answer(values, x, mask, 0.2))(logits)
  for a, b in zip(actual, expected, strict=True):
    np.testing.assert_allclose(a, b, atol=1e-5)


check(answer, test_masked_value)

# %% [markdown]
# **3. From curious to decided.** Make an algorithm for CartPole's `networks` whose ratio falls
# linearly from 0.9 to 0.3 in the first 100 updates. (The option takes an optax schedule.)

# %%
answer = None


# %%
def test_schedule(answer):
  def update(state, key):
    obs_tm1, obs_t = jax.random.normal(key, (2, 8, 4))
    batch = sb.Transition(obs_tm1, jnp.zeros(8, jnp.int32), jnp.ones(8), jnp.full(8, 0.99), obs_t)
    state, metrics = answer.update(state, batch)
    return state, metrics['target_entropy']

  state = jax.jit(answer.init)(jax.random.key(0))
  _, targets = jax.lax.scan(update, state, jax.random.split(jax.random.key(1), 120))
  for number, ratio in ((0, 0.9), (50, 0.6), (110, 0.3)):
    np.testing.assert_allclose(targets[number] / np.log(2), ratio, rtol=1e-3)


check(answer, test_schedule)
