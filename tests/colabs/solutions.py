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
}
