"""Answers to the notebooks' exercises, right ones and wrong ones: for each notebook, in order."""

# The code of the answer cells.
SOLUTIONS = {
  '01_soft_bellman': (
    """
low, high = 0.05, 0.5
for _ in range(40):
  answer = (low + high) / 2
  right = soft_value_iteration(answer)[2][4, RIGHT]
  low, high = (answer, high) if right > 0.5 else (low, answer)
""",
    """
def answer(policy, alpha):
  log_policy = np.log(np.where(policy > 0, policy, 1.0))
  return evaluate(policy, (policy * (reward - alpha * log_policy)).sum(axis=-1))
""",
    """
def answer(alpha):
  def value(alpha):
    def sweep(v, _):
      q = jnp.asarray(reward) + jnp.asarray(discount) * v[successor]
      return sb.categorical_soft_value(q[None], q / alpha, alpha), None

    return jax.lax.scan(sweep, jnp.zeros(NUM_STATES), length=500)[0][0]

  return jax.grad(value)(alpha)
""",
  ),
  '02_sac_from_blocks': (
    """
answer = recipes.algorithm(
  networks,
  blocks.chain(critic_step, actor_step, target_step),
  components=recipes.actor_critic_components(networks, initial_alpha=0.2),
)
""",
    """
scales = jnp.linspace(0.5, 1.5, 1001)[:, None]
answer = scales[jnp.argmax(distributions.TanhGaussian(jnp.zeros_like(scales), scales).entropy()), 0]
""",
    """
def answer(period):
  return blocks.every(period, blocks.polyak_step('critic', 'target_critic', tau=1.0))
""",
  ),
  '03_discrete_sac': (
    """
def answer(num_actions, ratio):
  low, high = 1 / num_actions, 1 - 1e-9
  for _ in range(60):
    best = (low + high) / 2
    rest = (1 - best) / (num_actions - 1)
    entropy = -best * np.log(best) - (1 - best) * np.log(rest)
    low, high = (best, high) if entropy > ratio * np.log(num_actions) else (low, best)
  return best
""",
    """
def answer(q, logits, mask, alpha):
  q = jnp.where(mask, q, 0.0)
  log_probs = jax.nn.log_softmax(jnp.where(mask, logits, -jnp.inf))
  log_probs = jnp.where(mask, log_probs, 0.0)
  probs = jnp.where(mask, jnp.exp(log_probs), 0.0)
  return jnp.sum(probs * (q - alpha * log_probs))
""",
    """
answer = recipes.sac_discrete(
  networks, target_entropy_ratio=optax.linear_schedule(0.9, 0.3, transition_steps=100)
)
""",
  ),
  '04_swap_a_block': (
    """
answer = recipes.algorithm(
  networks,
  blocks.chain(critic_step, blocks.every(3, actor_step), target_step),
  components=recipes.actor_critic_components(networks, initial_alpha=0.1),
)
""",
    """
answer = recipes.algorithm(
  networks, blocks.chain(target_step, critic_step, actor_step, temperature_step)
)
""",
    """
def answer(low, high):
  def init(params):
    return ()

  def update(params, state, batch, key, info):
    log_alpha = jnp.clip(params['log_alpha'], jnp.log(low), jnp.log(high))
    return {**params, 'log_alpha': log_alpha}, state, {}

  return blocks.Block(init, update)
""",
  ),
  '05_on_device': (
    """
def answer(environment):
  def step(state, action, key):
    state, timestep = environment.step(state, action, key)
    reward = (timestep.observation[0] > 0.95).astype(jnp.float32)
    return state, timestep._replace(reward=reward)

  return environment._replace(step=step)
""",
    """
def answer(row):
  return dataclasses.replace(config, discount=row['discount'])
""",
    """
def answer(x, y):
  difference = x[:, None] - y
  return np.mean((difference > 0) + 0.5 * (difference == 0))
""",
  ),
  '06_acme_run_experiment': (
    """
answer = 4 * 256 / 16
""",
    """
answer = sac.SACConfig(n_step=3)
""",
    """
def answer(config, period):
  def make_algorithm(networks):
    def step(component, objective, learning_rate):
      return blocks.gradient_step(component, objective, optax.adam(learning_rate))

    delayed = blocks.chain(
      step('actor', objectives.actor_objective(networks), config.actor_learning_rate),
      step('log_alpha', objectives.temperature_objective(-1.0), config.temperature_learning_rate),
    )
    return recipes.algorithm(
      networks,
      blocks.chain(
        step('critic', objectives.critic_objective(networks), config.critic_learning_rate),
        blocks.every(period, delayed),
        blocks.polyak_step('critic', 'target_critic', tau=config.tau),
      ),
    )

  return BlocksBuilder(config, make_algorithm)
""",
  ),
  '07_your_own_agent': (
    """
def answer(r, discount, q_t, log_prob_t, alpha):
  rewards = r[0] + discount[0] * (r[1] + discount[1] * r[2])
  return sb.soft_q_target(rewards, jnp.prod(discount, axis=0), q_t, log_prob_t, alpha)
""",
    """
def answer(r_t, discount_t, q_t, log_prob_t, alpha, key):
  pair = jax.random.choice(key, len(q_t), (2,), replace=False)
  return sb.soft_q_target(r_t, discount_t, q_t[pair], log_prob_t, alpha)
""",
    """
def answer(loc, scale, key):
  z = jax.random.logistic(key, loc.shape)
  u = loc + scale * z
  log_density = -z - 2.0 * jax.nn.softplus(-z) - jnp.log(scale)
  log_det = 2.0 * (jnp.log(2.0) - u - jax.nn.softplus(-2.0 * u))
  return jnp.tanh(u), jnp.sum(log_density - log_det, axis=-1)
""",
  ),
}

# What of an answer is replaced, and by what, to make a wrong one. The notebook has to notice each.
MISTAKES = {
  '01_soft_bellman': (
    (('right > 0.5', 'right > 0.6'),),
    (
      ('reward - alpha', 'reward + alpha'),
      ('(reward - alpha * log_policy)', 'reward'),
    ),
    (
      ('return jax.grad(value)(alpha)', 'return -jax.grad(value)(alpha)'),
      ('q / alpha, alpha', 'q, alpha'),
    ),
  ),
  '02_sac_from_blocks': (
    (
      ('initial_alpha=0.2', 'initial_alpha=0.3'),
      ('actor_step, target_step', 'actor_step, temperature_step, target_step'),
      ('actor_step, target_step', 'actor_step'),
    ),
    (('0.5, 1.5', '1.0, 1.5'),),
    (
      ('tau=1.0', 'tau=0.9'),
      ('every(period', 'every(period + 1'),
    ),
  ),
  '03_discrete_sac': (
    (
      ('(1 - best) / (num_actions - 1)', '1 - best'),
      ('ratio * np.log(num_actions)', 'ratio'),
    ),
    (
      ('q - alpha * log_probs', 'q + alpha * log_probs'),
      ('jnp.where(mask, logits, -jnp.inf)', 'logits'),
    ),
    (('0.9, 0.3', '0.9, 0.4'),),
  ),
  '04_swap_a_block': (
    (
      ('every(3', 'every(2'),
      ('initial_alpha=0.1', 'initial_alpha=0.2'),
      ('every(3, actor_step)', 'every(3, blocks.chain(actor_step, temperature_step))'),
    ),
    (('target_step, critic_step', 'critic_step, target_step'),),
    (
      ('jnp.log(low), jnp.log(high)', 'low, high'),
      ("jnp.clip(params['log_alpha'], jnp.log(low), jnp.log(high))", 'jnp.log(high)'),
      ('return {**params, ', 'return params, state, {}\n    return {**params, '),
    ),
  ),
  '05_on_device': (
    (
      ('.astype(jnp.float32)', ''),
      ('observation[0]', 'observation[1]'),
    ),
    (("row['discount']", '0.9'),),
    (
      ('difference > 0', 'difference < 0'),
      (' + 0.5 * (difference == 0)', ''),
    ),
  ),
  '06_acme_run_experiment': (
    (('4 * 256 / 16', '256 / 16'),),
    (('n_step=3', 'n_step=2'),),
    (
      ('every(period', 'every(1'),
      ('temperature_objective(-1.0)', 'temperature_objective(1.0)'),
      ('config.actor_learning_rate', 'config.critic_learning_rate'),
      ('config.temperature_learning_rate', '1e-4'),
      ('tau=config.tau', 'tau=0.5'),
    ),
  ),
  '07_your_own_agent': (
    (
      ('discount[0] * (r[1]', 'discount[1] * (r[1]'),
      (
        'sb.soft_q_target(rewards, jnp.prod(discount, axis=0), q_t, log_prob_t, alpha)',
        'rewards + jnp.prod(discount, axis=0) * sb.soft_value(jax.lax.stop_gradient(q_t), log_prob_t, alpha)',
      ),
    ),
    (
      ('replace=False', 'replace=True'),
      (
        'sb.soft_q_target(r_t, discount_t, q_t[pair], log_prob_t, alpha)',
        'r_t + discount_t * sb.soft_value(q_t[pair], log_prob_t, alpha)',
      ),
    ),
    (
      (
        'log_det = 2.0 * (jnp.log(2.0) - u - jax.nn.softplus(-2.0 * u))',
        'log_det = jnp.log(1.0 - jnp.tanh(u) ** 2 + 1e-6)',
      ),
      (' - jnp.log(scale)', ''),
    ),
  ),
}
