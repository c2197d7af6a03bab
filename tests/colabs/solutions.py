"""Answers to the notebooks' exercises: for each notebook the code of its answer cells, in order."""

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
  networks, blocks.chain(critic_step, actor_step, target_step), initial_alpha=0.2
)
""",
    """
scales = jnp.linspace(0.5, 1.5, 1001)[:, None]
answer = scales[jnp.argmax(sb.TanhGaussian(jnp.zeros_like(scales), scales).entropy()), 0]
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
}
