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
}
