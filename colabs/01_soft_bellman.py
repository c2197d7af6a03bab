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
# # 1. The soft Bellman equation
#
# Soft Actor-Critic maximises rewards and entropy together. This notebook takes a task so small that
# everything about it can be computed exactly, and meets the first functions of `sac_blocks` there.
#
# What you will learn:
#
# - what a policy earns when entropy is part of the return;
# - how value iteration finds the soft-optimal policy, and why that policy is a softmax;
# - how the temperature $\alpha$ bends it, until it avoids the very goal that pays;
# - what `soft_value`, `soft_q_target` and their exact `categorical_` relatives compute, and when
#   the sampled ones have no variance.

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

import sac_blocks as sb
from sac_blocks import distributions

# Tests set a small one: everything long is scaled by it.
BUDGET = float(os.environ.get('COLAB_BUDGET', '1'))
plt.rcParams.update({'figure.dpi': 90, 'axes.grid': True, 'grid.alpha': 0.3})

# %% [markdown]
# ## A corridor with a door
#
# Five states in a row, two actions. `left` and `right` move by one state. In state 0 `left` runs
# into a wall and stays. In state 4 `right` leaves through the door: reward 1, and the episode is
# over. Every other step pays 0.
#
# Two arrays describe where a step leads, and one what it pays. The discount $\gamma_t$ belongs to
# the step, as everywhere in this package: it is $\gamma = 0.9$, and 0 where the episode ends.

# %%
NUM_STATES, LEFT, RIGHT = 5, 0, 1
GAMMA = 0.9

states = np.arange(NUM_STATES)
# All arrays are [S, A].
successor = np.stack([np.maximum(states - 1, 0), np.minimum(states + 1, 4)], axis=-1)
reward = np.zeros((NUM_STATES, 2))
reward[4, RIGHT] = 1.0
discount = np.full((NUM_STATES, 2), GAMMA)
discount[4, RIGHT] = 0.0  # The door: nothing follows.

print('successor of left: ', successor[:, LEFT])
print('successor of right:', successor[:, RIGHT])

# %% [markdown]
# ## Entropy as a part of the return
#
# A policy $\pi$ earns, from state $s$ on,
#
# $$V(s) = \mathbb{E}\Big[\sum_{k \ge 0} \Big(\prod_{j<k} \gamma_{t+j}\Big)
#    \big(r_{t+k} + \alpha\, H(\pi(\cdot \mid s_{t+k}))\big)\Big],
#    \qquad H(\pi) = -\sum_a \pi_a \log \pi_a .$$
#
# The entropy $H$ is in nats, and $\alpha \ge 0$, the temperature, is the price of a nat in units of
# reward. Two actions allow at most $\log 2 = 0.69$ nats.
#
# What is earned from $s$ on is what is earned now and what is earned from the next state on. That
# is the **soft Bellman equation**:
#
# $$Q(s, a) = r + \gamma_t V(s'), \qquad
#   V(s) = \sum_a \pi_a \big(Q(s, a) - \alpha \log \pi_a\big).$$
#
# For fixed $Q$, which policy makes $V(s)$ largest? Setting the derivative to zero, with
# $\sum_a \pi_a = 1$, gives a softmax, and with it the sum becomes a logarithm:
#
# $$\pi_a = \frac{e^{Q(s,a)/\alpha}}{\sum_b e^{Q(s,b)/\alpha}}, \qquad
#   V(s) = \alpha \log \sum_a e^{Q(s,a)/\alpha} .$$
#
# For $\alpha \to 0$ the softmax becomes the best action and the logarithm the maximum: the Bellman
# equation of ordinary Q-learning.
#
# **Soft value iteration** starts with $V = 0$ and repeats the two equations.


# %%
def soft_value_iteration(alpha, num_sweeps=500):
  """Returns q [S, A], v [S], policy [S, A] and v after each sweep, in float64."""
  v, history = np.zeros(NUM_STATES), []
  for _ in range(num_sweeps):
    q = reward + discount * v[successor]
    largest = q.max(axis=-1)
    # The largest is taken out of the sum, so that exp cannot overflow.
    v = largest + alpha * np.log(np.exp((q - largest[:, None]) / alpha).sum(axis=-1))
    history.append(v)
  policy = np.exp((q - v[:, None]) / alpha)
  return q, v, policy, np.array(history)


q, v, policy, history = soft_value_iteration(alpha=0.05)
print('state      ', *states, sep='      ')
print('V          ', *[f'{x:6.3f}' for x in v])
print('pi(right)  ', *[f'{x:6.3f}' for x in policy[:, RIGHT]])

# %% [markdown]
# At $\alpha = 0.05$ the agent walks to the door. Without entropy the values would be $0.9^{4-s}$,
# so 0.656 in state 0; entropy adds a little.
#
# A sweep shrinks the distance to the solution by $\gamma$ at least, however wrong the start is. So
# the error falls as a straight line on a logarithmic axis.

# %%
figure, axes = plt.subplots(figsize=(6, 3.2))
sweeps = np.arange(1, 101)
for alpha in (0.05, 0.2, 0.5):
  *_, history = soft_value_iteration(alpha)
  error = np.abs(history - history[-1]).max(axis=-1)[:100]
  axes.semilogy(sweeps[error > 1e-14], error[error > 1e-14], label=rf'$\alpha$ = {alpha}')
axes.semilogy(sweeps, GAMMA**sweeps, 'k--', linewidth=1, label=r'$\gamma^k$')
axes.set(xlabel='sweep k', ylabel=r'largest error of $V$', title='Soft value iteration contracts')
axes.legend()
figure.tight_layout()
plt.show()

# %% [markdown]
# All errors fall at least as fast as $\gamma^k$. The small temperature is done sooner: its agent
# leaves early, so what lies far ahead hardly matters. The slope of the largest one is $\gamma$
# itself. Its agent stays.
#
# ## How the temperature bends the policy

# %%
ALPHAS = (0.01, 0.1, 0.2, 0.5)
figure, axes = plt.subplots(figsize=(7.5, 3.4))
width = 0.2
for i, alpha in enumerate(ALPHAS):
  _, _, policy, _ = soft_value_iteration(alpha)
  color = plt.cm.viridis(i / len(ALPHAS))
  axes.bar(
    states + (i - 1.5) * width, policy[:, RIGHT], width, color=color, label=rf'$\alpha$ = {alpha}'
  )
axes.axhline(0.5, color='k', linewidth=1, linestyle='--')
axes.set(
  xlabel='state (the door is to the right of 4)', ylabel='probability of right', ylim=(0, 1.05)
)
axes.set_title('The soft-optimal policy')
axes.legend(loc='center left', bbox_to_anchor=(1.0, 0.5), frameon=False)
figure.tight_layout()
plt.show()

# %% [markdown]
# A low temperature gives the policy of ordinary reinforcement learning: right, everywhere. One
# might expect that a higher one only adds noise, which would pull all bars towards one half. **But
# in state 4 the bars go below it.** The agent in front of the door turns round.
#
# The reason: entropy is not noise that is added to a good policy, it is income. Who stays in the
# corridor and acts at random collects up to $\alpha \log 2$ a step, which is worth
# $\alpha \log 2 / (1 - \gamma) = 6.9\, \alpha$ in all. Above $\alpha = 1/6.9 = 0.14$ or so that is
# more than the reward of 1 behind the door.
#
# So the temperature is measured against the rewards. That is why SAC learns it rather than asks you
# for it: notebook 2 has more.
#
# ## What the soft value is made of
#
# Splitting the return into rewards and entropies shows the exchange. Either part is the solution of
# a linear Bellman equation, $V = c + P V$, with the rewards or the entropies as $c$ and with the
# discounted transition matrix $P$ of the policy.


# %%
def evaluate(policy, income):
  """Returns the discounted sum of an income [S] under a policy [S, A]."""
  transition = np.zeros((NUM_STATES, NUM_STATES))
  for state in states:
    for action in (LEFT, RIGHT):
      weight = policy[state, action] * discount[state, action]
      transition[state, successor[state, action]] += weight
  return np.linalg.solve(np.eye(NUM_STATES) - transition, income)


def parts(alpha):
  """Returns the sums of rewards and of entropies that the soft-optimal policy earns, [S] each."""
  q, v, policy, _ = soft_value_iteration(alpha)
  entropy = -(policy * (q - v[:, None]) / alpha).sum(axis=-1)
  return evaluate(policy, (policy * reward).sum(axis=-1)), evaluate(policy, entropy)


alphas = np.linspace(0.005, 0.4, 80)
rewards, entropies = (np.array(x) for x in zip(*[parts(a) for a in alphas], strict=True))
figure, axes = plt.subplots(figsize=(6.5, 3.4))
axes.plot(alphas, [soft_value_iteration(a)[1][0] for a in alphas], 'k', label='soft value $V$')
axes.plot(alphas, rewards[:, 0], label='of it rewards')
axes.plot(alphas, alphas * entropies[:, 0], label=r'of it $\alpha \cdot$ entropies')
axes.axvline((1 - GAMMA) / np.log(2), color='grey', linestyle=':', label=r'$(1 - \gamma) / \log 2$')
axes.set(
  xlabel=r'temperature $\alpha$', ylabel='from state 0', title='What is earned from state 0 on'
)
axes.legend()
figure.tight_layout()
plt.show()

total = rewards + alphas[:, None] * entropies
np.testing.assert_allclose(total[:, 0], [soft_value_iteration(a)[1][0] for a in alphas], rtol=1e-9)

# %% [markdown]
# The soft value only rises with $\alpha$, whereas the rewards fall: above the dotted line the agent
# lives on entropy. This is also a warning. A soft value is not a return: values at two temperatures
# can't be compared, and what you report of an agent is its rewards.
#
# ## The same with the package
#
# `sb.categorical_soft_value` computes $\sum_a p_a (\min_i q_{ia} - \alpha \log p_a)$ from the
# logits of a policy. The minimum is over $N$ critics, the **first** axis of `q`. We have one exact
# table, so $N = 1$.

# %%
alpha = 0.2
q, v, policy, _ = soft_value_iteration(alpha)
# The logits of a softmax policy are Q / alpha; a softmax ignores what is added to all of them.
logits = jnp.asarray(q / alpha)
q_critics = jnp.asarray(q)[None]  # [N, S, A]

from_package = sb.categorical_soft_value(q_critics, logits, alpha)
print('by hand   ', v.round(5))
print('sac_blocks', np.asarray(from_package).round(5))
np.testing.assert_allclose(from_package, v, rtol=1e-5)

# %% [markdown]
# `sb.categorical_soft_q_target` is the other half, $r_t + \gamma_t V(s_t)$, with its gradient
# stopped, since it is what critics are fitted to. In the names `_t` is the time of arrival: `q_t`
# and `logits_t` belong to the state that the step leads to. At the fixed point the target of every
# step is $Q$ again.

# %%
target = sb.categorical_soft_q_target(
  jnp.asarray(reward),
  jnp.asarray(discount),
  q_critics[:, successor],  # [N, S, A, A]: all values of the successor of every state and action.
  logits[successor],
  alpha,
)
np.testing.assert_allclose(target, q, rtol=1e-5)
print('largest difference to Q:', f'{np.abs(np.asarray(target) - q).max():.0e}')

# %% [markdown]
# So the whole value iteration is one line with the package. As everything in it is a pure function,
# JAX compiles the loop and runs it for many temperatures side by side.


# %%
@jax.jit
@jax.vmap
def package_value_iteration(alpha):
  def sweep(_, q):
    return sb.categorical_soft_q_target(
      jnp.asarray(reward), jnp.asarray(discount), q[None, successor], q[successor] / alpha, alpha
    )

  return jax.lax.fori_loop(0, 500, sweep, jnp.zeros((NUM_STATES, 2)))


many = jnp.linspace(0.01, 0.5, 100)
q_many = package_value_iteration(many)
print('100 temperatures at once:', q_many.shape)
np.testing.assert_allclose(q_many[0], soft_value_iteration(0.01)[0], rtol=1e-4)
np.testing.assert_allclose(q_many[-1], soft_value_iteration(0.5)[0], rtol=1e-4)

figure, axes = plt.subplots(figsize=(7, 2.8))
right = jax.nn.softmax(q_many / many[:, None, None])[..., RIGHT]
image = axes.imshow(
  right.T, aspect='auto', cmap='RdBu_r', vmin=0, vmax=1, extent=(0.01, 0.5, 4.5, -0.5)
)
axes.set(xlabel=r'temperature $\alpha$', ylabel='state', title='Probability of right')
axes.grid(visible=False)
figure.colorbar(image, ax=axes)
figure.tight_layout()
plt.show()

# %% [markdown]
# Red is right, blue is left, white is a coin. The red turns pale first far from the door, and blue
# begins in front of it.
#
# ## Sampled values
#
# With many or continuous actions the sum over $a$ can't be computed. Then one action is drawn, and
# `sb.soft_value` estimates the value from it:
#
# $$\hat V = \min_i q_i - \alpha \log \pi(a), \qquad a \sim \pi .$$
#
# `sb.soft_q_target` puts it into $r_t + \gamma_t \hat V$. The mean over $a$ is right for every
# policy. But how far do single draws lie apart? We draw in state 2, for the uniform policy and for
# the soft-optimal one.

# %%
STATE = 2
num_samples = max(100, int(20_000 * BUDGET))
uniform = distributions.Categorical(jnp.zeros(2))
optimal = distributions.Categorical(logits[STATE])

estimates = {}
for name, pi in (('uniform', uniform), ('soft-optimal', optimal)):
  action, log_prob = pi.sample_and_log_prob(seed=jax.random.key(0), sample_shape=(num_samples,))
  estimates[name] = sb.soft_value(q_critics[:, STATE, action], log_prob, alpha)
  exact = sb.categorical_soft_value(q_critics[:, STATE], pi.logits, alpha)
  print(
    f'{name:13} exact {exact:.4f}, mean of samples {estimates[name].mean():.4f}, '
    f'standard deviation {estimates[name].std():.6f}'
  )

# %% [markdown]
# The soft-optimal policy has **no variance at all**: every single draw gives the exact value. That
# is no accident. From $\pi_a = e^{(Q - V) / \alpha}$ follows $Q - \alpha \log \pi_a = V$, for every
# action. An action that is rare is worth less, and its surprise makes up for it exactly. The closer
# the actor is to the softmax of its critic, the less noise one sample brings: SAC can do with a
# single one.
#
# ## Why a minimum over critics
#
# Learned critics have errors. Whoever takes the best of noisy values picks errors that flatter. The
# actor does so, and the error comes back through the target. The minimum of two critics leans to
# the other side. Here each critic is the truth plus noise, and we ask for the value under the
# policy that is the softmax of the first critic.

# %%
noise = 0.3 * jax.random.normal(jax.random.key(1), (4, num_samples, 2))
noisy = q_critics[0, STATE] + noise  # [N, samples, A]
chosen_by_first = noisy[0] / alpha
exact = v[STATE]
for num_critics in (1, 2, 4):
  value = sb.categorical_soft_value(noisy[:num_critics], chosen_by_first, alpha)
  print(f'{num_critics} critics: bias of the value {value.mean() - exact:+.3f}')

# %% [markdown]
# One critic overestimates. Two underestimate, here by more than one flatters, and four still more.
# But an underestimate does less harm: nobody seeks out what looks bad, so it isn't passed on from
# state to state. SAC takes two.
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
# **1. In front of the door.** Find the temperature at which the soft-optimal agent in state 4 goes
# left and right with equal probability, to three digits. (Bisection with `soft_value_iteration`
# will do.)

# %%
answer = None


# %%
def test_temperature(answer):
  _, _, policy, _ = soft_value_iteration(float(answer))
  assert abs(policy[4, RIGHT] - 0.5) < 2e-3, f'there right has probability {policy[4, RIGHT]:.4f}'


check(answer, test_temperature)

# %% [markdown]
# **2. Any policy.** Write a function `answer(policy, alpha)` that returns the soft value `[S]` of
# any policy `[S, A]`, with `evaluate`. Probabilities of 0 must not give NaN.

# %%
answer = None


# %%
def test_policy_value(answer):
  for alpha in (0.05, 0.5):
    _, v, policy, _ = soft_value_iteration(alpha)
    np.testing.assert_allclose(answer(policy, alpha), v, rtol=1e-6)
  always_right = np.tile([0.0, 1.0], (NUM_STATES, 1))
  np.testing.assert_allclose(answer(always_right, 0.3), GAMMA ** (4 - states), rtol=1e-6)


check(answer, test_policy_value)

# %% [markdown]
# **3. What a little more temperature is worth.** Write a function `answer(alpha)` that returns the
# derivative of $V(0)$ of the soft-optimal policy with respect to $\alpha$: `jax.grad` through
# sweeps of `sb.categorical_soft_value`. (`sb.categorical_soft_q_target` stops gradients. Write the
# sum $r_t + \gamma_t V$ out, and loop with `jax.lax.scan`: `fori_loop` with a fixed number will do,
# too.) Compare with the entropies of `parts`: what do you notice, and why?

# %%
answer = None


# %%
def test_derivative(answer):
  for alpha in (0.1, 0.3):
    # The policy changes, too, but it is optimal: to first order that makes no difference.
    _, entropies = parts(alpha)
    np.testing.assert_allclose(answer(alpha), entropies[0], rtol=1e-3)


check(answer, test_derivative)
