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
# # 2. Soft Actor-Critic from blocks
#
# Notebook 1 solved a table exactly. Now the actions are continuous, and actor and critics are
# networks. We look at each piece of Soft Actor-Critic alone, chain the pieces, and let a pendulum
# swing up.
#
# What you will learn:
#
# - why a tanh-Gaussian policy returns an action and its log-probability together, and what goes
#   wrong where tanh is inverted;
# - what the losses of critics, actor and temperature do, each on a few numbers;
# - how blocks chain into an algorithm, in the order of the updates;
# - how to write the loop around it yourself: acting, replay, updates, evaluation.

# %%
try:
  import sac_blocks
except ImportError:
  REPOSITORY = 'https://github.com/sac-blocks/sac_blocks'
  # %pip install -q "sac-blocks[train] @ git+{REPOSITORY}"

# %%
import os
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import matplotlib.pyplot as plt
import numpy as np
import optax

import sac_blocks as sb
from agents.anakin import environments
from sac_blocks import blocks, distributions, objectives, recipes
from sac_blocks.networks import make_networks

# Tests set a small one: everything long is scaled by it.
BUDGET = float(os.environ.get('COLAB_BUDGET', '1'))
plt.rcParams.update({'figure.dpi': 90, 'axes.grid': True, 'grid.alpha': 0.3})

# %% [markdown]
# ## The tanh-Gaussian policy
#
# Actions live in the box $[-1, 1]^D$. The policy draws from a Gaussian and squashes it:
#
# $$u = \mu + \sigma \epsilon, \quad \epsilon \sim \mathcal{N}(0, I), \qquad a = \tanh(u).$$
#
# The squashing stretches and compresses, so the density needs a correction, $\log(1 - \tanh^2 u)$
# for each dimension. It is computed in a form that survives large $u$:
#
# $$\log \pi(a) = \sum_d \Big[\log \mathcal{N}(u_d; \mu_d, \sigma_d)
#    - 2 \big(\log 2 - u_d - \mathrm{softplus}(-2 u_d)\big)\Big].$$
#
# `distributions.TanhGaussian(loc, scale)` is this law. Three of them, in one dimension:

# %%
actions = jnp.linspace(-0.999, 0.999, 401)
figure, axes = plt.subplots(figsize=(6, 3))
for loc, scale in ((0.0, 0.3), (0.8, 0.5), (0.0, 1.6)):
  pi = distributions.TanhGaussian(jnp.array([loc]), jnp.array([scale]))
  density = jnp.exp(pi.log_prob(actions[:, None]))
  label = rf'$\mu$ = {loc}, $\sigma$ = {scale}: entropy {pi.entropy():.2f}'
  axes.plot(actions, density, label=label)
axes.set(xlabel='action', ylabel='density', title='tanh-Gaussian policies', ylim=(0, None))
axes.legend(fontsize=8)
figure.tight_layout()
plt.show()

# %% [markdown]
# A wide Gaussian piles up at both ends, as the green line does. The uniform law has the largest
# entropy, $\log 2 = 0.69$ nats for each dimension. Entropies of densities may be negative: the
# usual target of SAC is $-1$ nat for each dimension.
#
# ## Why tanh is not inverted
#
# A tempting way to the log-probability is to sample an action first and to compute
# $u = \mathrm{artanh}(a)$ from it later. In float32 that fails near the border, since tanh rounds
# to 1:

# %%
print('    u        a = tanh(u)   artanh(a)')
for u in (2.0, 5.0, 7.0, 8.0, 9.0, 10.0):
  a = jnp.tanh(jnp.float32(u))
  print(f'{u:5.1f}   {a:16.8f}   {jnp.arctanh(a):9.4f}')


def naive_log_prob(action, loc, scale):
  u = jnp.arctanh(action)
  log_density = jax.scipy.stats.norm.logpdf(u, loc, scale)
  return jnp.sum(log_density - jnp.log(1.0 - action**2), axis=-1)


# %% [markdown]
# At $u = 7$ the inverse is visibly off, and a bit further it is infinite: $\infty - \infty$ makes
# NaN. Policies do get there, wherever the best action lies at a bound. Below, the mean of the
# Gaussian moves outwards. For each we draw 1,000 actions and compare the naive log-probability with
# that of `sample_and_log_prob`, which keeps $u$.

# %%
locs = jnp.linspace(0.0, 14.0, 57)


def compare(loc, key):
  pi = distributions.TanhGaussian(loc[None], jnp.full(1, 0.5))
  action, exact = pi.sample_and_log_prob(seed=key, sample_shape=(1000,))
  naive = naive_log_prob(action, pi.loc, pi.scale)
  error = jnp.abs(naive - exact)
  broken = ~jnp.isfinite(naive)
  return jnp.nanmean(jnp.where(broken, jnp.nan, error)), jnp.mean(broken), jnp.mean(exact)


error, broken, exact = jax.vmap(compare)(locs, jax.random.split(jax.random.key(0), len(locs)))
figure, (left, right) = plt.subplots(1, 2, figsize=(9, 3.2))
left.plot(locs, broken, 'tab:red')
left.set(xlabel=r'mean $\mu$ before tanh', ylabel='part of samples', ylim=(-0.03, 1.03))
left.set_title('naive: NaN or infinite')
right.semilogy(locs, error, 'tab:orange', label='naive: error where finite')
right.semilogy(locs, jnp.abs(exact), 'tab:blue', label=r'sample_and_log_prob: $|\log\pi|$')
right.set(xlabel=r'mean $\mu$ before tanh', ylabel='nats', title='what is left')
right.legend(fontsize=8)
figure.tight_layout()
plt.show()

pi = distributions.TanhGaussian(jnp.array([12.0]), jnp.array([0.5]))
action, log_prob = pi.sample_and_log_prob(seed=jax.random.key(1))
print(f'at mu = 12: a = {action[0]:.8f}, log pi = {log_prob:.4f}')
print(f'naive: {naive_log_prob(action, pi.loc, pi.scale)}')
# For actions that come from elsewhere, such as demonstrations; it takes the last value inside.
print(f'log_prob of the stored action: {pi.log_prob(action):.1f}, finite')

# %% [markdown]
# A single NaN in a batch makes all parameters NaN. So policies here return both at once,
# `action, log_prob = pi.sample_and_log_prob(seed=key)`.
#
# ## The critic's loss
#
# Two critics are fitted to one target, made with slower copies $\bar q_i$ of them, the target
# critics. In the names `_tm1` is the time before the step and `_t` the time after it; the critics
# are the first axis, and all else is `[B]`:
#
# $$y = \mathrm{sg}\big(r_t + \gamma_t (\min_i \bar q_i(s_t, a_t) - \alpha \log \pi(a_t))\big),
#   \qquad L = \sum_i \tfrac{1}{2} (q_i(s_{t-1}, a_{t-1}) - y)^2 .$$

# %%
r_t = jnp.array([1.0, 0.0, -1.0])
# The second step ends its episode, so nothing is added to its reward.
discount_t = jnp.array([0.99, 0.0, 0.99])
q_t = jnp.array([[5.0, 7.0, 1.0], [4.0, 8.0, 2.0]])  # [N, B]
log_prob_t = jnp.array([-2.0, 0.5, 1.0])
q_tm1 = jnp.array([[5.0, 0.5, 0.0], [6.0, 0.0, 0.0]])

target = sb.soft_q_target(r_t, discount_t, q_t, log_prob_t, alpha=0.1)
print('target  ', target)
print('by hand ', r_t + discount_t * (q_t.min(axis=0) - 0.1 * log_prob_t))
print('loss    ', sb.twin_critic_loss(q_tm1, target))
slope = jax.grad(lambda q: sb.twin_critic_loss(q, target).sum())(q_tm1)
print('gradient', slope.tolist(), '= q - y, for each critic')

# %% [markdown]
# Shapes that don't fit raise. The classic mistake is a reward `[B, 1]` beside values `[B]`, which
# elsewhere makes a loss `[B, B]` without a word:

# %%
try:
  sb.soft_q_target(r_t[:, None], discount_t, q_t, log_prob_t, alpha=0.1)
except ValueError as error:
  print('ValueError:', error)

# %% [markdown]
# ## The actor's loss
#
# The actor moves its action to where the critics are high, and is paid for entropy:
#
# $$L = \alpha \log \pi(a) - \min_i q_i(a), \qquad a = \tanh(\mu + \sigma \epsilon).$$
#
# The gradient passes through the action, and so through the critics. Up to a constant, the mean of
# $L$ is $\alpha$ times the Kullback-Leibler divergence of $\pi$ from $e^{q/\alpha}$, the softmax of
# notebook 1: its best policy is the tanh-Gaussian that is nearest to it. We let one learn, with a
# critic that we know, $q(a) = -4 (a - \tfrac12)^2$.


# %%
def known_critic(action):
  """Maps an action [B, 1] to values [N, B], with N = 1 here."""
  return -4.0 * (action[None, ..., 0] - 0.5) ** 2


def actor_loss(params, alpha, key):
  loc, scale = jnp.full((64, 1), params['loc']), jnp.exp(jnp.full((64, 1), params['log_scale']))
  loss, sample = sb.tanh_gaussian_actor_loss(loc, scale, known_critic, alpha, key)
  return jnp.mean(loss), sample


@jax.jit
def fit_actor(alpha):
  optimizer = optax.adam(1e-2)
  params = {'loc': jnp.array(-1.0), 'log_scale': jnp.array(0.0)}

  def step(carry, key):
    params, state = carry
    grads, _ = jax.grad(actor_loss, has_aux=True)(params, alpha, key)
    updates, state = optimizer.update(grads, state, params)
    return (optax.apply_updates(params, updates), state), None

  keys = jax.random.split(jax.random.key(0), max(20, int(1500 * BUDGET)))
  return jax.lax.scan(step, (params, optimizer.init(params)), keys)[0][0]


figure, axes = plt.subplots(figsize=(6, 3.2))
for alpha, color in ((0.1, 'tab:blue'), (1.0, 'tab:orange'), (5.0, 'tab:green')):
  params = fit_actor(alpha)
  pi = distributions.TanhGaussian(params['loc'][None], jnp.exp(params['log_scale'])[None])
  density = jnp.exp(pi.log_prob(actions[:, None]))
  axes.plot(actions, density, color=color, label=rf'$\alpha$ = {alpha}')
  best = jnp.exp(known_critic(actions[:, None])[0] / alpha)
  axes.plot(actions, best / (best.mean() * 2.0), color=color, linestyle=':')
axes.set(xlabel='action', ylabel='density', ylim=(0, None))
axes.set_title(r'Learned actor (solid) and $e^{q/\alpha}$ (dotted)')
axes.legend()
figure.tight_layout()
plt.show()

# %% [markdown]
# The learned policies lie close to the dotted lines; the rest is what a tanh-Gaussian can't do.
#
# ## The temperature's loss
#
# Which $\alpha$ is right depends on the scale of the rewards. SAC gives the entropy instead, the
# target $\bar H$, and lets $\alpha$ follow:
#
# $$L = e^{\log \alpha}\, \mathrm{sg}(H - \bar H), \qquad H = -\log \pi(a).$$
#
# Where the entropy is below its target the slope is negative, and descent raises $\alpha$.

# %%
for entropy in (-2.0, -1.0, 0.0):
  slope = jax.grad(sb.temperature_loss)(jnp.log(0.2), jnp.array(entropy), -1.0)
  print(f'entropy {entropy:4.1f}, target -1: slope {slope:+.2f}')


@jax.jit
def fit_both(reward_scale):
  """Learns the actor above and its temperature, with the critic's values scaled."""
  optimizer = optax.adam(1e-2)
  params = {'loc': jnp.array(-1.0), 'log_scale': jnp.array(0.0), 'log_alpha': jnp.array(0.0)}

  def loss(params, key):
    alpha = jax.lax.stop_gradient(jnp.exp(params['log_alpha']))
    # Dividing by the scale changes no minimum: scale * q at alpha is q at alpha / scale.
    actor, sample = actor_loss(params, alpha / reward_scale, key)
    temperature = sb.temperature_loss(params['log_alpha'], -sample.log_prob, -1.0)
    return actor + jnp.mean(temperature), -jnp.mean(sample.log_prob)

  def step(carry, key):
    params, state = carry
    grads, entropy = jax.grad(loss, has_aux=True)(params, key)
    updates, state = optimizer.update(grads, state, params)
    return (optax.apply_updates(params, updates), state), (entropy, jnp.exp(params['log_alpha']))

  keys = jax.random.split(jax.random.key(0), max(60, int(3000 * BUDGET)))
  return jax.lax.scan(step, (params, optimizer.init(params)), keys)[1]


figure, (left, right) = plt.subplots(1, 2, figsize=(9, 3.2))
for scale in (1.0, 3.0, 10.0):
  entropy, alpha = fit_both(scale)
  smooth = jnp.convolve(entropy, jnp.ones(50) / 50, 'valid')
  left.plot(smooth, label=f'rewards times {scale}')
  right.semilogy(alpha)
left.axhline(-1.0, color='k', linestyle='--', linewidth=1, label=r'target $\bar H$')
left.set(xlabel='update', ylabel='entropy, nats', title='The entropy finds its target,')
right.set(xlabel='update', ylabel=r'$\alpha$', title='since the temperature finds the rewards')
left.legend(fontsize=8)
figure.tight_layout()
plt.show()

# %% [markdown]
# For rewards ten times as large the temperature ends ten times as high, and the policy is the same.
#
# ## A chain of blocks
#
# An optax transform changes gradients. A *block* changes named components of the parameters:
# `actor`, `critic`, `target_critic`, `log_alpha`. `blocks.chain` puts blocks in the order in which
# they update.
#
# - `gradient_step(component, objective, optimizer)` descends an objective in one component.
# - An objective binds one of the losses above to networks, and takes the mean over the batch.
# - `polyak_step` moves the target critics:
#   $\bar\theta \leftarrow (1 - \tau) \bar\theta + \tau \theta$.
# - What a block has computed, later ones may read. The temperature takes the entropy of the actor's
#   step.

# %%
environment = environments.make('builtin:pendulum')
networks = make_networks(environment.observation_spec, action_size=1, hidden_sizes=(64, 64))

critic_step = blocks.gradient_step(
  'critic', objectives.critic_objective(networks), optax.adam(1e-3)
)
actor_step = blocks.gradient_step('actor', objectives.actor_objective(networks), optax.adam(1e-3))
temperature_step = blocks.gradient_step(
  'log_alpha',
  objectives.temperature_objective(sb.continuous_target_entropy(1)),
  optax.adam(1e-3),
)
target_step = blocks.polyak_step('critic', 'target_critic', tau=0.005)

algorithm = recipes.algorithm(
  networks, blocks.chain(critic_step, actor_step, temperature_step, target_step)
)

# %% [markdown]
# `algorithm` is a few pure functions: `init(key)` makes a state, `update(state, batch)` a new state
# and metrics, `policy(params, obs, key)` acts. (`recipes.sac(networks, ...)` makes the same chain
# with its usual options.) One update, on a batch of random numbers:


# %%
def random_batch(key, size=8):
  keys = jax.random.split(key, 4)
  return sb.Transition(
    obs_tm1=jax.random.normal(keys[0], (size, 3)),
    a_tm1=jax.random.uniform(keys[1], (size, 1), minval=-1.0, maxval=1.0),
    r_t=jax.random.normal(keys[2], (size,)),
    discount_t=jnp.full(size, 0.99),
    obs_t=jax.random.normal(keys[3], (size, 3)),
  )


state = jax.jit(algorithm.init)(jax.random.key(0))
print('components:', sorted(state.params))
state, metrics = jax.jit(algorithm.update)(state, random_batch(jax.random.key(1)))
for name, value in sorted(metrics.items()):
  print(f'{name:15} {value:8.4f}')

# %% [markdown]
# ## Your own loop
#
# The pendulum hangs down and the motor is too weak to lift it: it has to swing. The reward is minus
# the squared angle from upright (and a bit for speed and torque), 200 steps an episode. Around
# -1,200 is doing nothing useful. About -150, on average over the starts, is as good as it gets.
#
# The environment is a pair of pure functions, `reset(key)` and `step(state, action, key)`. So the
# whole loop can be one `jax.lax.scan`. Each step acts, stores, draws a batch from replay and
# updates. Look at two lines in particular:
#
# - the discount of a transition is $\gamma$ times that of the environment, which is 0 only where
#   the task truly terminates. The pendulum never does: its time limit starts a new episode, but the
#   value of the last state is that of a state like any other;
# - the observation arrived at is that of the step, not that of the next episode's start.

# %%
GAMMA, BATCH_SIZE = 0.99, 128
NUM_EPOCHS = 12
EPOCH = max(20, int(1000 * BUDGET))  # Steps; those of the first are random.
NUM_STEPS = NUM_EPOCHS * EPOCH
NUM_SEEDS = 3 if BUDGET == 1 else 2


class Loop(NamedTuple):
  learner: sb.TrainingState
  env_state: Any
  obs: jax.Array
  replay: sb.Transition
  count: jax.Array
  key: jax.Array


def start(key):
  learner_key, reset_key, key = jax.random.split(key, 3)
  env_state, obs = environment.reset(reset_key)
  replay = jax.tree.map(
    lambda x: jnp.zeros((NUM_STEPS, *x.shape[1:])), random_batch(jax.random.key(0))
  )
  return Loop(algorithm.init(learner_key), env_state, obs, replay, jnp.array(0), key)


def one_step(loop, learn):
  key, act_key, step_key, reset_key, draw_key = jax.random.split(loop.key, 5)
  policy = algorithm.policy if learn else algorithm.random_policy
  action = policy(loop.learner.params, loop.obs, act_key)
  env_state, timestep = environment.step(loop.env_state, action, step_key)
  transition = sb.Transition(
    loop.obs, action, timestep.reward, GAMMA * timestep.discount, timestep.observation
  )
  replay = jax.tree.map(lambda rows, x: rows.at[loop.count].set(x), loop.replay, transition)
  env_state, obs = jax.tree.map(
    lambda new, old: jnp.where(timestep.last, new, old),
    environment.reset(reset_key),
    (env_state, timestep.observation),
  )
  learner, metrics = loop.learner, {}
  if learn:
    drawn = jax.random.randint(draw_key, (BATCH_SIZE,), 0, loop.count + 1)
    learner, metrics = algorithm.update(learner, jax.tree.map(lambda rows: rows[drawn], replay))
  return Loop(learner, env_state, obs, replay, loop.count + 1, key), metrics


def episode(params, key):
  """Plays 200 steps greedily; returns the rewards and what was seen and done."""
  reset_key, key = jax.random.split(key)
  start = environment.reset(reset_key)

  def step(carry, key):
    env_state, obs = carry
    action = algorithm.evaluation_policy(params, obs, key)
    env_state, timestep = environment.step(env_state, action, key)
    return (env_state, timestep.observation), (timestep.reward, env_state, action)

  return jax.lax.scan(step, start, jax.random.split(key, 200))[1]


# Over seeds, and compiled; the old state is given away, so that replay is changed in place.
def compiled(function):
  return jax.jit(jax.vmap(function), donate_argnums=0)


@compiled
def warm_up(loop):
  return jax.lax.scan(lambda x, _: one_step(x, learn=False), loop, length=EPOCH)[0]


@compiled
def epoch(loop):
  return jax.lax.scan(lambda x, _: one_step(x, learn=True), loop, length=EPOCH)


@jax.jit
@jax.vmap
def evaluate(params):
  keys = jax.random.split(jax.random.key(7), 10)
  rewards, _, _ = jax.vmap(episode, in_axes=(None, 0))(params, keys)
  return rewards.sum(axis=-1)


# %%
loop = warm_up(jax.jit(jax.vmap(start))(jax.random.split(jax.random.key(0), NUM_SEEDS)))
steps, returns, history = [int(loop.count[0])], [evaluate(loop.learner.params)], []
for _ in range(NUM_EPOCHS - 1):
  loop, metrics = epoch(loop)
  history.append(jax.tree.map(np.asarray, metrics))
  steps.append(int(loop.count[0]))
  returns.append(evaluate(loop.learner.params))
returns = np.array(returns)  # [evaluations, seeds, episodes]
print('mean return of 10 greedy episodes, a row for each evaluation, a column for each seed')
for count, row in zip(steps, returns.mean(axis=-1), strict=True):
  print(f'{count:6d}', *[f'{x:8.1f}' for x in row])

# %%
figure, axes = plt.subplots(figsize=(6.5, 3.4))
for seed in range(NUM_SEEDS):
  axes.plot(steps, returns[:, seed].mean(axis=-1), '.-', label=f'seed {seed}')
axes.axhline(-200, color='k', linestyle='--', linewidth=1, label='solved: -200')
axes.set(xlabel='environment steps', ylabel='return', title='Greedy episodes on the pendulum')
axes.legend(loc='lower right')
figure.tight_layout()
plt.show()

if BUDGET == 1:
  assert np.median(returns[-1].mean(axis=-1)) > -200

# %% [markdown]
# What the temperature did meanwhile: it starts at 1. Nobody knows in advance whether that is high
# or low for these rewards, but the entropy tells. The dashed line is the target of -1.

# %%
metrics = {name: np.concatenate([h[name] for h in history], axis=1) for name in history[0]}
x = EPOCH + np.arange(metrics['alpha'].shape[1])
window = max(1, len(x) // 100)
figure, (left, right) = plt.subplots(1, 2, figsize=(9, 3.2))
for seed in range(NUM_SEEDS):
  smooth = np.convolve(metrics['policy_entropy'][seed], np.ones(window) / window, 'valid')
  left.plot(x[: len(smooth)], smooth)
  right.plot(x, metrics['alpha'][seed], label=f'seed {seed}')
left.axhline(-1.0, color='k', linestyle='--', linewidth=1)
left.set(xlabel='environment steps', ylabel='entropy, nats', title='Entropy of the policy')
right.set(xlabel='environment steps', ylabel=r'$\alpha$', title='Temperature', ylim=(0, None))
right.legend()
figure.tight_layout()
plt.show()

# %% [markdown]
# ## One episode
#
# The best seed plays. The angle is from upright.

# %%
best = int(returns[-1].mean(axis=-1).argmax())
params = jax.tree.map(lambda p: p[best], loop.learner.params)
# Of a few starts the one that hangs lowest.
rewards, env_states, torques = jax.jit(jax.vmap(episode, in_axes=(None, 0)))(
  params, jax.random.split(jax.random.key(3), 16)
)
hanging = int(jnp.argmin(jnp.cos(env_states.state.angle[:, 0])))
rewards, env_states, torques = jax.tree.map(lambda v: v[hanging], (rewards, env_states, torques))
angle = (np.asarray(env_states.state.angle) + np.pi) % (2 * np.pi) - np.pi
seconds = 0.05 * np.arange(1, 201)

figure, (top, bottom) = plt.subplots(2, 1, figsize=(7, 3.8), sharex=True)
# A line across the whole picture where the angle wraps would mislead.
jumps = np.abs(np.diff(angle, prepend=angle[0])) > np.pi
top.plot(seconds, np.where(jumps, np.nan, np.degrees(angle)))
top.set(ylabel='angle, degrees', yticks=(-180, -90, 0, 90, 180))
top.set_title(f'One greedy episode, return {rewards.sum():.0f}')
bottom.plot(seconds, 2.0 * torques[:, 0], 'tab:orange')
bottom.set(xlabel='seconds', ylabel='torque', ylim=(-2.2, 2.2))
figure.tight_layout()
plt.show()


# %%
def frame(i):
  return environment.render(jax.tree.map(lambda v: np.asarray(v[i]), env_states))


moments = np.arange(0, 64, 7)
figure, axes = plt.subplots(1, len(moments), figsize=(10, 1.5))
for i, axis in zip(moments, axes, strict=True):
  axis.imshow(frame(i)[::3, ::3])
  axis.set_title(f'{seconds[i]:.2f} s', fontsize=8)
  axis.axis('off')
figure.tight_layout()
plt.show()

# %% [markdown]
# The arrow is the torque. The pendulum swings back before it goes up.
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
# **1. A fixed temperature.** Make an algorithm of the blocks above whose temperature stays at 0.2.
# Its `update` must run without a loss of the temperature.

# %%
answer = None


# %%
def test_fixed_temperature(answer):
  before = jax.jit(answer.init)(jax.random.key(0))
  after, metrics = jax.jit(answer.update)(before, random_batch(jax.random.key(1)))
  np.testing.assert_allclose(np.exp(after.params['log_alpha']), 0.2, rtol=1e-6)
  assert 'log_alpha_loss' not in metrics
  for component in ('actor', 'critic', 'target_critic'):
    old, new = (jax.tree.leaves(state.params[component]) for state in (before, after))
    changed = [np.any(x != y) for x, y in zip(old, new, strict=True)]
    assert any(changed), f'{component} does not learn'


check(answer, test_fixed_temperature)

# %% [markdown]
# **2. The widest policy.** For $\mu = 0$, which scale $\sigma$ of `TanhGaussian` has the largest
# entropy, to two digits? (Neither narrow ones nor those that pile up at the ends do.)

# %%
answer = None


# %%
def test_widest(answer):
  pi = distributions.TanhGaussian(
    jnp.zeros((3, 1)), float(answer) * jnp.array([[0.97], [1.0], [1.03]])
  )
  below, at, above = pi.entropy()
  assert at > below, 'a narrower one has more entropy'
  assert at > above, 'a wider one has more entropy'


check(answer, test_widest)

# %% [markdown]
# **3. Targets that jump.** DQN copies its target network every so many updates instead of moving it
# softly. Write a function `answer(period)` that returns the block that does it, made with
# `blocks.every`. (That copies at the first update, and at every `period`-th after it.)

# %%
answer = None


# %%
def test_periodic_targets(answer):
  algorithm = recipes.algorithm(networks, blocks.chain(critic_step, actor_step, answer(3)))
  update, state = jax.jit(algorithm.update), jax.jit(algorithm.init)(jax.random.key(0))
  for i in range(1, 8):
    state, _ = update(state, random_batch(jax.random.key(i)))
    critic, target = (jax.tree.leaves(state.params[c])[0] for c in ('critic', 'target_critic'))
    copied = bool(np.all(critic == target))
    assert copied == (i in (1, 4, 7)), f'copied after {i} updates: {copied}'


check(answer, test_periodic_targets)
