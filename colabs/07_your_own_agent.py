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
# # 7. An agent of your own
#
# You have an agent already: networks in a library that you like, optimisers, a loop, a replay
# buffer. All that you want is losses that you can trust. This notebook writes such an agent, with
# networks in Equinox and a plain Python loop, and takes single functions of `sac_blocks` for its
# losses: no blocks, no recipes, no agents.
#
# What you will learn:
#
# - which shapes the losses take, and what has a gradient and what has none;
# - how to write an update step of Soft Actor-Critic around them, in 20 lines;
# - how to check losses, these or your own, by finite differences;
# - how to add an idea of your own to a loss, and how to look at what came of it;
# - that the same losses take a network in Flax unchanged.

# %%
try:
  import sac_blocks
except ImportError:
  REPOSITORY = 'https://github.com/sac-blocks/sac_blocks'
  # %pip install -q "sac-blocks[train] @ git+{REPOSITORY}" equinox flax "gymnasium>=1.0"

# %%
import functools
import os
import sys
from typing import NamedTuple

import equinox as eqx
import gymnasium
import jax
import jax.numpy as jnp
import matplotlib.pyplot as plt
import numpy as np
import optax
from jax.flatten_util import ravel_pytree

import sac_blocks as sb
from sac_blocks import distributions

# Tests set a small one: everything long is scaled by it.
BUDGET = float(os.environ.get('COLAB_BUDGET', '1'))
plt.rcParams.update({'figure.dpi': 90, 'axes.grid': True, 'grid.alpha': 0.3})

print({name: name in sys.modules for name in ('equinox', 'haiku', 'flax')})

# %% [markdown]
# `import sac_blocks` brings no network library along. Equinox is here because we imported it.
#
# ## The networks
#
# An Equinox module is a pytree. If all of its leaves are arrays, as below, then `jax.jit`,
# `jax.grad` and optax take it as it is. (`eqx.nn.MLP` holds its activation function as a leaf, and
# needs `eqx.filter_jit` and the like.)
#
# The policy maps one observation to the mean $\mu$ and the scale $\sigma$ of a Gaussian before the
# tanh. A scale that runs off to 0 or to infinity ends in NaN, so $\log \sigma$ is bounded.


# %%
class MLP(eqx.Module):
  layers: list[eqx.nn.Linear]

  def __init__(self, sizes, key):
    keys = jax.random.split(key, len(sizes) - 1)
    self.layers = [
      eqx.nn.Linear(m, n, key=k) for m, n, k in zip(sizes[:-1], sizes[1:], keys, strict=True)
    ]

  def __call__(self, x):
    for layer in self.layers[:-1]:
      x = jax.nn.relu(layer(x))
    return self.layers[-1](x)


def bounded_scale(x):
  """Makes a scale of any number; its logarithm lies between -5 and 2."""
  return jnp.exp(-1.5 + 3.5 * jnp.tanh(x))


class Policy(eqx.Module):
  mlp: MLP

  def __init__(self, key):
    self.mlp = MLP((3, 64, 64, 2), key)

  def __call__(self, obs):  # [3] -> [1], [1]
    loc, x = jnp.split(self.mlp(obs), 2)
    return loc, bounded_scale(x)


class Critic(eqx.Module):
  mlp: MLP

  def __init__(self, key):
    self.mlp = MLP((4, 64, 64, 1), key)

  def __call__(self, obs, action):  # [3], [1] -> []
    return self.mlp(jnp.concatenate([obs, action]))[0]


# %% [markdown]
# Soft Actor-Critic has $N$ critics. They are one module whose arrays have an axis more, the first:
# `eqx.filter_vmap` over keys makes it, and over critics evaluates it. So values are `[N, B]`,
# critics first, and that is the one convention of shapes that the losses ask for.


# %%
def make_critics(key, n=2):
  return eqx.filter_vmap(Critic)(jax.random.split(key, n))


def q_values(critics, obs, action):  # [B, 3], [B, 1] -> [N, B]
  return eqx.filter_vmap(lambda critic: jax.vmap(critic)(obs, action))(critics)


policy, critics = jax.jit(Policy)(jax.random.key(0)), jax.jit(make_critics)(jax.random.key(1))
obs, action = jnp.ones((5, 3)), jnp.zeros((5, 1))
loc, scale = jax.jit(jax.vmap(policy))(obs)
print('loc and scale', loc.shape, scale.shape)
print('values       ', jax.jit(q_values)(critics, obs, action).shape)
print('first weights', critics.mlp.layers[0].weight.shape)

# %% [markdown]
# ## The losses
#
# In the names `_tm1` is the time before the step and `_t` the time after it.
#
# **Critics.** All of them are fitted to one target, made with the target critics $\bar q_i$,
#
# $$y = \mathrm{sg}\big(r_t + \gamma_t (\min_i \bar q_i(s_t, a_t) - \alpha \log \pi(a_t))\big),
#   \qquad L = \sum_i \tfrac{1}{2} (q_i(s_{t-1}, a_{t-1}) - y)^2 .$$
#
# **Actor.** Its gradient passes through the action, and so through the critics:
#
# $$L = \alpha \log \pi(a) - \min_i q_i(a), \qquad a = \tanh(\mu + \sigma \epsilon),
#   \ \epsilon \sim \mathcal{N}(0, I).$$
#
# **Temperature.** The parameter is $\log \alpha$, so that $\alpha$ stays positive:
#
# $$L = e^{\log \alpha}\, \mathrm{sg}(H - \bar H), \qquad H = -\log \pi(a).$$
#
# | function | takes | has a gradient in |
# |---|---|---|
# | `sb.soft_q_target` | `r_t, discount_t, log_prob_t [B]`, `q_t [N, B]`, `alpha` | nothing |
# | `sb.twin_critic_loss` | `q_tm1 [N, B]`, `target [B]` | `q_tm1` |
# | `sb.tanh_gaussian_actor_loss` | `loc, scale [B, D]`, `critic, alpha, key` | all but `key` |
# | `sb.temperature_loss` | `log_alpha`, `entropy [B]`, `target_entropy` | `log_alpha` |
#
# The `critic` of the third is a function from actions `[B, D]` to values `[N, B]`.
#
# Each returns one number for each example, `[B]` (the actor's loss also the sample), and you take
# the mean, with weights if you like. `discount_t` includes $\gamma$. The actor's loss has slopes in
# $\alpha$ and in the weights of the critics, too. Below each gradient is taken in one component
# only, so they don't matter. If you sum all losses and differentiate once, stop $\alpha$ and those
# weights there.


# %%
class Agent(NamedTuple):
  policy: Policy
  critics: Critic
  target_critics: Critic
  log_alpha: jax.Array


class Batch(NamedTuple):
  obs_tm1: jax.Array  # [B, 3]
  a_tm1: jax.Array  # [B, 1], in [-1, 1]
  r_t: jax.Array  # [B]
  discount_t: jax.Array  # [B]
  obs_t: jax.Array  # [B, 3]


def critic_loss(critics, agent, batch, key):
  loc, scale = jax.vmap(agent.policy)(batch.obs_t)
  # The action together with its log-probability: never by inverting the tanh.
  a_t, log_prob_t = distributions.TanhGaussian(loc, scale).sample_and_log_prob(seed=key)
  q_t = q_values(agent.target_critics, batch.obs_t, a_t)
  alpha = jnp.exp(agent.log_alpha)
  target = sb.soft_q_target(batch.r_t, batch.discount_t, q_t, log_prob_t, alpha)
  q_tm1 = q_values(critics, batch.obs_tm1, batch.a_tm1)
  return jnp.mean(sb.twin_critic_loss(q_tm1, target))


def actor_loss(policy, agent, batch, key):
  loc, scale = jax.vmap(policy)(batch.obs_tm1)
  critic = functools.partial(q_values, agent.critics, batch.obs_tm1)
  loss, sample = sb.tanh_gaussian_actor_loss(loc, scale, critic, jnp.exp(agent.log_alpha), key)
  return jnp.mean(loss), -sample.log_prob


def temperature_loss(log_alpha, entropy):
  return jnp.mean(sb.temperature_loss(log_alpha, entropy, sb.continuous_target_entropy(1)))


# %% [markdown]
# ## Checks before anything learns
#
# A wrong sign or a stopped gradient rarely crashes. The agent learns, only worse. Checks cost less
# than a sweep. First: does the gradient of each loss agree with finite differences, along a random
# direction in all of its weights? The differences are of nearly equal numbers, so in float64. As a
# fourth loss we take one with a classic mistake, to see that the check can fail.


# %%
@functools.partial(jax.jit, static_argnames='size')
def random_batch(key, size=32):
  keys = jax.random.split(key, 4)
  return Batch(
    obs_tm1=jax.random.normal(keys[0], (size, 3)),
    a_tm1=jax.random.uniform(keys[1], (size, 1), minval=-1.0, maxval=1.0),
    r_t=jax.random.normal(keys[2], (size,)),
    discount_t=jnp.full(size, 0.99),
    obs_t=jax.random.normal(keys[3], (size, 3)),
  )


@functools.partial(jax.jit, static_argnums=0)
def slopes(loss, params, step=1e-6):
  """Returns a loss's slope along a random direction, by its gradient and by differences."""
  flat, unravel = ravel_pytree(params)
  direction = jax.random.normal(jax.random.key(5), flat.shape, flat.dtype)
  gradient, _ = ravel_pytree(jax.grad(loss)(params))
  up, down = jax.vmap(lambda t: loss(unravel(flat + t * direction)))(jnp.array([step, -step]))
  return gradient @ direction, (up - down) / (2 * step)


def careless_actor_loss(policy, agent, batch, key):
  pi = distributions.TanhGaussian(*jax.vmap(policy)(batch.obs_tm1))
  action, log_prob = pi.sample_and_log_prob(seed=key)
  q = q_values(agent.critics, batch.obs_tm1, jax.lax.stop_gradient(action))
  return jnp.mean(sb.soft_policy_loss(log_prob, q, jnp.exp(agent.log_alpha)))


key, batch = jax.random.key(2), random_batch(jax.random.key(3))
agent = Agent(policy, critics, jax.jit(make_critics)(jax.random.key(4)), jnp.log(0.2))


def check_slopes(agent, batch):
  entropy = jax.jit(actor_loss)(agent.policy, agent, batch, key)[1]
  print('                            gradient   differences')
  for name, loss, params in (
    ('critics', lambda p: critic_loss(p, agent, batch, key), agent.critics),
    ('policy', lambda p: actor_loss(p, agent, batch, key)[0], agent.policy),
    ('log_alpha', lambda p: temperature_loss(p, entropy), agent.log_alpha),
    ('policy, action stopped', lambda p: careless_actor_loss(p, agent, batch, key), agent.policy),
  ):
    gradient, difference = slopes(loss, params)
    print(f'{name:24} {gradient:11.6f} {difference:13.6f}')
    assert np.isclose(gradient, difference, rtol=1e-4) == ('stopped' not in name)


jax.config.update('jax_enable_x64', True)
try:
  check_slopes(*jax.tree.map(lambda x: x.astype('float64'), (agent, batch)))
finally:
  jax.config.update('jax_enable_x64', False)

# %% [markdown]
# The last gradient has lost the way through the critics. It is off by little, as critics that have
# learned nothing are nearly flat. But it is off.
#
# Second: is what should be constant really constant? The target has no slope in any of its
# arguments. And the temperature moves the right way: descent raises $\log \alpha$ where the entropy
# is below its target, here $-1$.

# %%
arguments = (batch.r_t, batch.discount_t, jnp.ones((2, 32)), jnp.ones(32), 0.2)
gradients = jax.jit(jax.grad(lambda args: sb.soft_q_target(*args).sum()))(arguments)
print('largest slope of the target:', max(float(jnp.abs(g).max()) for g in gradients))
for nats in (-2.0, 0.0):
  slope = jax.grad(temperature_loss)(jnp.log(0.2), jnp.full(32, nats))
  print(f'entropy {nats:4.1f}: slope in log alpha {slope:+.2f}')

# %% [markdown]
# Third: wrong shapes. Replay buffers like to store rewards as `[B, 1]`. Beside values `[B]` that
# broadcasts to `[B, B]`, and the mean of it is a number like any other. Here it raises, as do
# critics on the last axis. (Where $B = N$, nobody can tell.)

# %%
q_t, log_prob_t = jnp.ones((2, 32)), jnp.zeros(32)
for reward, values in ((batch.r_t[:, None], q_t), (batch.r_t, q_t.T)):
  try:
    sb.soft_q_target(reward, batch.discount_t, values, log_prob_t, 0.2)
  except ValueError as error:
    print('ValueError:', error)

# %% [markdown]
# ## The update
#
# Critics first, then the actor against the new critics, then the temperature with the entropy that
# the actor's loss has sampled, then the target critics. Optimisers are optax's.

# %%
optimizer = optax.adam(1e-3)


@jax.jit
def make_agent(key):
  policy_key, critics_key = jax.random.split(key)
  critics = make_critics(critics_key)
  # Not jnp.array(0.0): JAX types that weakly, as a Python number, and would compile update anew.
  log_alpha = jnp.zeros([])
  agent = Agent(Policy(policy_key), critics, critics, log_alpha)
  learned = (agent.policy, agent.critics, agent.log_alpha)
  return agent, tuple(optimizer.init(params) for params in learned)


def descend(params, gradient, state):
  updates, state = optimizer.update(gradient, state, params)
  return optax.apply_updates(params, updates), state


def make_update(critic_loss, actor_loss):
  @jax.jit
  def update(agent, optimizer_states, batch, key, step):
    critic_key, actor_key = jax.random.split(jax.random.fold_in(key, step))
    actor_state, critic_state, alpha_state = optimizer_states

    gradient = jax.grad(critic_loss)(agent.critics, agent, batch, critic_key)
    critics, critic_state = descend(agent.critics, gradient, critic_state)
    agent = agent._replace(critics=critics)

    gradient, entropy = jax.grad(actor_loss, has_aux=True)(agent.policy, agent, batch, actor_key)
    policy, actor_state = descend(agent.policy, gradient, actor_state)
    gradient = jax.grad(temperature_loss)(agent.log_alpha, entropy)
    log_alpha, alpha_state = descend(agent.log_alpha, gradient, alpha_state)

    target_critics = sb.polyak_update(critics, agent.target_critics, tau=0.01)
    agent = Agent(policy, critics, target_critics, log_alpha)
    return agent, (actor_state, critic_state, alpha_state)

  return update


# %% [markdown]
# ## The loop
#
# Gymnasium's pendulum starts anywhere. Its motor is too weak to lift it, so it has to swing up. The
# reward is minus the squared angle from upright, with a bit for speed and torque. Two things are
# easily got wrong:
#
# - actions are in $[-1, 1]$, torques in $[-2, 2]$: scale where the action meets the environment,
#   and store the action, not the torque;
# - `discount_t` is 0 only where an episode is `terminated`. The pendulum's never is; it is
#   `truncated` after 200 steps, and the state it was cut off in has the value that it has.

# %%
NUM_STEPS = max(200, int(6000 * BUDGET))
WARM_UP = NUM_STEPS // 6  # Steps that are random.
EVERY = NUM_STEPS // (12 if BUDGET == 1 else 4)
SEEDS = range(3) if BUDGET == 1 else range(1)
BATCH_SIZE, GAMMA, MAX_TORQUE = 128, 0.99, 2.0


@jax.jit
def explore(policy, obs, key, step):
  pi = distributions.TanhGaussian(*policy(obs))
  return pi.sample(seed=jax.random.fold_in(key, step))


@jax.jit
def act_greedily(policy, obs):
  return jnp.tanh(jax.vmap(policy)(obs)[0])


judges = gymnasium.make_vec('Pendulum-v1', num_envs=10, vectorization_mode='sync')


def evaluate(policy):
  """Plays 10 greedy episodes, the same starts each time: mean return, observations [200, 10, 3]."""
  obs, _ = judges.reset(seed=100)
  seen, total = [], 0.0
  for _ in range(200):
    seen.append(obs)
    obs, reward, _, _, _ = judges.step(MAX_TORQUE * np.asarray(act_greedily(policy, obs)))
    total += reward.mean()
  return total, np.stack(seen)


def train(update, seed):
  env = gymnasium.make('Pendulum-v1')
  random = np.random.default_rng(seed)
  init_key, act_key, update_key = jax.random.split(jax.random.key(seed), 3)
  agent, optimizer_states = make_agent(init_key)
  replay = Batch(*(np.zeros((NUM_STEPS, *s), np.float32) for s in ((3,), (1,), (), (), (3,))))
  curve = []
  obs, _ = env.reset(seed=seed)
  for step in range(NUM_STEPS):
    if learning := step >= WARM_UP:
      action = np.asarray(explore(agent.policy, obs, act_key, step))
    else:
      action = random.uniform(-1.0, 1.0, 1)
    obs_t, reward, terminated, truncated, _ = env.step(MAX_TORQUE * action)
    transition = Batch(obs, action, reward, GAMMA * (1.0 - terminated), obs_t)
    for rows, row in zip(replay, transition, strict=True):
      rows[step] = row
    obs = env.reset()[0] if terminated or truncated else obs_t
    if learning:
      drawn = random.integers(step + 1, size=BATCH_SIZE)
      batch = Batch(*(rows[drawn] for rows in replay))
      agent, optimizer_states = update(agent, optimizer_states, batch, update_key, step)
    if (step + 1) % EVERY == 0:
      curve.append(evaluate(agent.policy)[0])
  return agent, curve


# %%
update = make_update(critic_loss, actor_loss)
agents, curves = zip(*(train(update, seed) for seed in SEEDS), strict=True)
steps = EVERY * np.arange(1, len(curves[0]) + 1)
print('mean return of 10 greedy episodes, a column for each seed')
for count, row in zip(steps[1::2], np.array(curves).T[1::2], strict=True):
  print(f'{count:6d}', *[f'{x:8.1f}' for x in row])

# %%
figure, axes = plt.subplots(figsize=(6.5, 3.4))
for seed, curve in zip(SEEDS, curves, strict=True):
  axes.plot(steps, curve, '.-', label=f'seed {seed}')
axes.axhline(-200, color='k', linestyle='--', linewidth=1, label='solved: -200')
axes.set(xlabel='environment steps', ylabel='return', title='Greedy episodes on the pendulum')
axes.legend(loc='lower right')
figure.tight_layout()
plt.show()

if BUDGET == 1:
  assert np.median([curve[-1] for curve in curves]) > -200

# %% [markdown]
# The first 1,000 steps are random. Then the returns fall before they rise. At 1,500 steps the
# policy brakes: the pendulum soon hangs still, which costs more than to dangle. Two
# thousand steps later it swings up.
#
# ## What it has learned
#
# The state is an angle and a speed, so policy and critics can be looked at whole. On the left the
# torque, on the right $\min_i q_i$ of that torque, and in both the one of the ten episodes that
# starts lowest; the dot is its start.

# %%
angles, speeds = np.meshgrid(np.linspace(-np.pi, np.pi, 121), np.linspace(-8, 8, 121))
GRID = np.stack([np.cos(angles), np.sin(angles), speeds], axis=-1).astype(np.float32)


def over_the_grid(function):
  return np.asarray(function(GRID.reshape(-1, 3))).reshape(angles.shape)


def draw_map(axes, values, **kwargs):
  image = axes.pcolormesh(np.degrees(angles), speeds, values, rasterized=True, **kwargs)
  axes.set(xlabel='angle from upright, degrees', xticks=(-180, -90, 0, 90, 180))
  axes.set(yticks=(-8, -4, 0, 4, 8))
  axes.grid(False)
  return image


def lowest_episode(policy):
  """Returns angles in degrees and speeds of the greedy episode that starts lowest."""
  _, seen = evaluate(policy)
  episode = seen[:, seen[0, :, 0].argmin()]
  angle = np.degrees(np.arctan2(episode[:, 1], episode[:, 0]))
  # No line across the picture where the angle wraps.
  wraps = 1 + np.flatnonzero(np.abs(np.diff(angle)) > 180)
  return np.insert(angle, wraps, np.nan), np.insert(episode[:, 2], wraps, np.nan)


best = int(np.argmax([curve[-1] for curve in curves]))
agent = agents[best]
torque = over_the_grid(lambda obs: MAX_TORQUE * act_greedily(agent.policy, obs))
value = over_the_grid(
  lambda obs: q_values(agent.critics, obs, act_greedily(agent.policy, obs)).min(axis=0)
)
angle, speed = lowest_episode(agent.policy)

figure, axes = plt.subplots(1, 2, figsize=(9.5, 3.6), sharey=True)
left = draw_map(axes[0], torque, cmap='RdBu', vmin=-2, vmax=2)
right = draw_map(axes[1], value, cmap='viridis')
for axis, color in zip(axes, ('k', 'w'), strict=True):
  axis.plot(angle, speed, color=color, linewidth=1)
  axis.plot(angle[0], speed[0], 'o', color=color)
axes[0].set(ylabel='speed, radians a second', title='torque of the policy')
axes[1].set(title='value of the critics')
figure.colorbar(left, ax=axes[0], label='torque')
figure.colorbar(right, ax=axes[1], label=r'$\min_i q_i$')
figure.tight_layout()
plt.show()

# %% [markdown]
# The policy is nearly bang-bang. At the bottom, which is the left and the right edge, the torque
# has the sign of the speed: it pumps. The bright ridge in the right picture is where the pendulum
# rises and just reaches the top. Here the episode gets onto it, and slides along to upright and
# rest.
#
# A mirror image of a pendulum is a pendulum, too: where this one goes left with some torque, that
# one goes right with the opposite torque, for the same reward. So if the left picture is turned by
# half a turn, its colours should swap, and the right one should stay as it is. Only roughly do
# they, since each half was learned on its own.
#
# ## An idea of your own
#
# So let both halves learn from every step. With $M$ for the mirror, $M s = (\cos, -\sin,
# -\text{speed})$:
#
# - the critics' loss takes each transition and its mirror image;
# - the actor's loss gets a term of its own, for each example,
#   $\big(\tanh \mu(s) + \tanh \mu(M s)\big)^2$, which is 0 where the policy keeps to the symmetry.
#
# It is a few lines around the same functions, and the rest of the agent stays.

# %%
MIRROR = np.array([1.0, -1.0, -1.0], np.float32)


def asymmetry(policy, obs):
  return jnp.sum(act_greedily(policy, obs) + act_greedily(policy, MIRROR * obs), axis=-1)


def mirrored_critic_loss(critics, agent, batch, key):
  # The same noise in both does no harm: their means differ.
  image = batch._replace(
    obs_tm1=MIRROR * batch.obs_tm1, a_tm1=-batch.a_tm1, obs_t=MIRROR * batch.obs_t
  )
  both = (critic_loss(critics, agent, b, key) for b in (batch, image))
  return sum(both) / 2


def mirrored_actor_loss(policy, agent, batch, key):
  loss, entropy = actor_loss(policy, agent, batch, key)
  return loss + jnp.mean(asymmetry(policy, batch.obs_tm1) ** 2), entropy


mirrored_update = make_update(mirrored_critic_loss, mirrored_actor_loss)
mirrored_agents, mirrored_curves = zip(
  *(train(mirrored_update, seed) for seed in SEEDS), strict=True
)

# %%
mirrored_agent = mirrored_agents[best]
figure, axes = plt.subplots(1, 3, figsize=(12, 3.4), width_ratios=(1.2, 1, 1.2))
for some, color, label in (
  (curves, 'tab:gray', 'as it was'),
  (mirrored_curves, 'tab:green', 'mirrored'),
):
  axes[0].plot(steps, np.transpose(some), '.-', color=color, linewidth=1, label=label)
handles = axes[0].get_lines()[:: len(SEEDS)]
handles.append(axes[0].axhline(-200, color='k', linestyle='--', linewidth=1, label='solved: -200'))
axes[0].set(xlabel='environment steps', ylabel='return', title='a line for each seed')
axes[0].legend(handles=handles, loc='lower right', fontsize=8)
for axis, one, title in (
  (axes[1], agent, 'torque, as it was'),
  (axes[2], mirrored_agent, 'torque, mirrored'),
):
  torque = over_the_grid(lambda obs, p=one.policy: MAX_TORQUE * act_greedily(p, obs))
  image = draw_map(axis, torque, cmap='RdBu', vmin=-2, vmax=2)
  axis.set(title=title, ylabel='speed')
figure.colorbar(image, ax=axes[2], label='torque')
figure.tight_layout()
plt.show()


# %%
def mean_asymmetry(agent):
  return MAX_TORQUE * np.abs(over_the_grid(functools.partial(asymmetry, agent.policy))).mean()


asymmetries = {}
print('           seed   last return   mean asymmetry of the torque')
for name, some, their in (
  ('as it was', agents, curves),
  ('mirrored', mirrored_agents, mirrored_curves),
):
  asymmetries[name] = [mean_asymmetry(one) for one in some]
  for seed, curve, value in zip(SEEDS, their, asymmetries[name], strict=True):
    print(f'{name:12}{seed:3}{curve[-1]:14.1f}{value:17.2f}')

if BUDGET == 1:
  assert np.mean(asymmetries['mirrored']) < 0.5 * np.mean(asymmetries['as it was'])

# %% [markdown]
# The mirrored policy is close to symmetric, as asked. About returns three seeds of an easy task say
# little: both versions solve it. And symmetry has a price. A pendulum that hangs still is its own
# mirror image, so the exactly symmetric policy gives it no torque, and leaves it there. Here that
# does no harm: episodes start anywhere, the policy is symmetric only nearly, and while it learns it
# is noisy.

# %% [markdown]
# ## The same losses with Flax
#
# The losses see arrays and never a network. To show it we write the policy once more in Flax, copy
# the trained weights into it (Flax stores them transposed), and take the gradient of `actor_loss`,
# the function above as it stands.

# %%
from flax import linen as nn


class FlaxPolicy(nn.Module):
  @nn.compact
  def __call__(self, obs):
    x = nn.relu(nn.Dense(64)(obs))
    x = nn.relu(nn.Dense(64)(x))
    loc, x = jnp.split(nn.Dense(2)(x), 2, axis=-1)
    return loc, bounded_scale(x)


def as_flax(policy):
  layers = enumerate(policy.mlp.layers)
  return {'params': {f'Dense_{i}': {'kernel': x.weight.T, 'bias': x.bias} for i, x in layers}}


def flax_loss(params):
  policy = functools.partial(FlaxPolicy().apply, params)
  return actor_loss(policy, agent, batch, key)[0]


def equinox_loss(policy):
  return actor_loss(policy, agent, batch, key)[0]


in_flax, _ = ravel_pytree(jax.jit(jax.grad(flax_loss))(as_flax(agent.policy)))
in_equinox, _ = ravel_pytree(as_flax(jax.jit(jax.grad(equinox_loss))(agent.policy)))
print(f'slopes: {in_flax.size}, the largest {jnp.abs(in_flax).max():.3f}')
print(f'largest difference between Flax and Equinox: {jnp.abs(in_flax - in_equinox).max():.1e}')
np.testing.assert_allclose(in_flax, in_equinox, rtol=1e-3, atol=1e-4 * float(in_flax.max()))

# %% [markdown]
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
# **1. Three steps at once.** Write a function `answer(r, discount, q_t, log_prob_t, alpha)` that
# makes the target of a 3-step return,
#
# $$y = r_0 + \gamma_0 r_1 + \gamma_0 \gamma_1 r_2 + \gamma_0 \gamma_1 \gamma_2
#   \big(\min_i q_i - \alpha \log \pi\big),$$
#
# from rewards and discounts `[3, B]`, and `q_t` `[N, B]` and `log_prob_t` `[B]` of the state after
# the third step. It has no gradient, and nothing counts that comes after an episode's end.

# %%
answer = None


# %%
def test_three_steps(answer):
  r = jnp.array([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]])
  discount = jnp.array([[0.9, 0.9], [0.8, 0.0], [0.7, 0.7]])  # The second one ends at step 2.
  q_t, log_prob_t, alpha = jnp.array([[10.0, 20.0], [30.0, 5.0]]), jnp.array([-1.0, 2.0]), 0.5
  expected = [1.0 + 0.9 * 3.0 + 0.9 * 0.8 * 5.0 + 0.9 * 0.8 * 0.7 * 10.5, 2.0 + 0.9 * 4.0]
  np.testing.assert_allclose(answer(r, discount, q_t, log_prob_t, alpha), expected, rtol=1e-5)
  slopes = jax.jit(jax.grad(lambda args: answer(*args).sum()))(
    (r, discount, q_t, log_prob_t, alpha)
  )
  assert not any(np.any(x) for x in slopes), 'a gradient flows through the target'


check(answer, test_three_steps)

# %% [markdown]
# **2. A random pair.** REDQ (Chen et al. 2021) keeps many critics, and takes the minimum over two
# of them only, drawn anew for each update. Write a function
# `answer(r_t, discount_t, q_t, log_prob_t, alpha, key)` that makes this target for `q_t` `[N, B]`:
# one pair of two different critics for the whole batch.

# %%
answer = None


# %%
def test_random_pair(answer):
  # Critic i says i everywhere, so the target tells the smaller one of the pair.
  r_t, q_t = jnp.array([0.0, 1.0, 2.0]), jnp.tile(jnp.arange(5.0)[:, None], (1, 3))

  def smaller(key):
    return answer(r_t, jnp.full(3, 0.5), q_t, jnp.full(3, -2.0), 0.1, key)

  targets = jax.jit(jax.vmap(smaller))(jax.random.split(jax.random.key(0), 300))
  smaller_ones = 2.0 * (targets - r_t) - 0.2
  np.testing.assert_allclose(smaller_ones, smaller_ones[:, :1].repeat(3, axis=1), atol=1e-5)
  counts = np.bincount(np.asarray(smaller_ones[:, 0]).round().astype(int), minlength=5)
  assert counts[4] == 0, 'critic 4 is the smaller one only of a pair with itself'
  arguments = (r_t, jnp.full(3, 0.5), q_t, jnp.full(3, -2.0), 0.1)
  slopes = jax.jit(jax.grad(lambda args: answer(*args, jax.random.key(0)).sum()))(arguments)
  assert not any(np.any(x) for x in slopes), 'a gradient flows through the target'
  # 4, 3, 2 and 1 of the 10 pairs.
  np.testing.assert_allclose(counts[:4] / 300, [0.4, 0.3, 0.2, 0.1], atol=0.1)


check(answer, test_random_pair)

# %% [markdown]
# **3. A law of your own.** The targets take a log-probability and never ask which law it is of.
# Replace the Gaussian by the logistic law, which has heavier tails:
# $a = \tanh(\mu + \sigma z)$, where the density of $z$ is $e^{-z} / (1 + e^{-z})^2$. Write a
# function `answer(loc, scale, key)` that takes `[B, D]` and returns actions `[B, D]` and
# log-probabilities `[B]`, finite for $\mu = 12$ as well. (`jax.random.logistic` draws $z$. The
# stable form of $\log(1 - \tanh^2 u)$ is $2 (\log 2 - u - \mathrm{softplus}(-2u))$.)

# %%
answer = None


# %%
def test_own_law(answer):
  loc, scale = jnp.tile(jnp.array([[0.3, -0.5]]), (2000, 1)), jnp.full((2000, 2), 0.4)
  action, log_prob = jax.jit(answer)(loc, scale, jax.random.key(0))

  def below(a, m, s):
    """The probability of a smaller action; its slope is the density."""
    return jax.nn.sigmoid((jnp.arctanh(a) - m) / s)

  inside = jnp.all(jnp.abs(action) < 0.99, axis=-1)  # Elsewhere float32 can't invert tanh.
  density = jax.jit(jax.vmap(jax.vmap(jax.grad(below))))(action, loc, scale)
  expected = jnp.sum(jnp.log(density), axis=-1)
  np.testing.assert_allclose(log_prob[inside], expected[inside], atol=2e-3)
  parts = jnp.sort(below(action, loc, scale), axis=0)
  assert jnp.abs(parts - jnp.linspace(0, 1, 2000)[:, None]).max() < 0.05, 'another law is drawn'
  slope = jax.jit(jax.grad(lambda m: answer(m, scale, jax.random.key(0))[0].sum()))(loc)
  np.testing.assert_allclose(slope, 1.0 - action**2, atol=1e-4)
  far = jax.jit(answer)(jnp.full((9000, 1), 12.0), jnp.ones((9000, 1)), jax.random.key(1))
  # The entropy of the logistic law is 2, and log(1 - tanh^2 u) is nearly 2 log 2 - 2u there.
  np.testing.assert_allclose(jnp.mean(far[1]), 2 * 12.0 - 2 * np.log(2.0) - 2.0, atol=0.3)
  sb.soft_q_target(jnp.zeros(2000), 0.99, jnp.zeros((2, 2000)), log_prob, 0.2)


check(answer, test_own_law)
