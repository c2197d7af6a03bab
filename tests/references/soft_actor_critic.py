"""Soft Actor-Critic in float64 NumPy, one number at a time, from the papers.

Haarnoja et al., "Soft Actor-Critic: Off-Policy Maximum Entropy Deep Reinforcement Learning with a
Stochastic Actor", https://arxiv.org/abs/1801.01290, and "Soft Actor-Critic Algorithms and
Applications", https://arxiv.org/abs/1812.05905, to which the equation numbers belong.

The categorical functions are of Christodoulou, "Soft Actor-Critic for Discrete Action Settings",
https://arxiv.org/abs/1910.07207, whose equations their docstrings number. Only legal actions enter their
sums: those that the mask allows and whose logit isn't -inf.
"""

from __future__ import annotations

import math

import numpy as np


def _at(x, index):
  """Returns the number at `index`; a scalar holds everywhere."""
  x = np.asarray(x, np.float64)
  return float(x) if x.ndim == 0 else float(x[index])


def soft_value(q, log_prob, alpha):
  """Eq. 3 at one action, with the minimum over the critics in place of Q."""
  q = np.asarray(q, np.float64)
  value = np.zeros(q.shape[1:])
  for index in np.ndindex(*value.shape):
    smallest = math.inf
    for head in range(q.shape[0]):
      smallest = min(smallest, float(q[(head, *index)]))
    value[index] = smallest - _at(alpha, index) * _at(log_prob, index)
  return value


def soft_q_target(r_t, discount_t, q_t, log_prob_t, alpha):
  """Eq. 2: r + discount V."""
  value = soft_value(q_t, log_prob_t, alpha)
  target = np.zeros_like(value)
  for index in np.ndindex(*target.shape):
    target[index] = _at(r_t, index) + _at(discount_t, index) * value[index]
  return target


def n_step_soft_q_target(r_t, discount_t, v_t, n):
  """At most n rewards from each step on, then the soft value where the window, or the data, ends."""
  v_t = np.asarray(v_t, np.float64)
  length = v_t.shape[0]
  target = np.zeros_like(v_t)
  for index in np.ndindex(*target.shape):
    start, rest = index[0], index[1:]
    total, weight = 0.0, 1.0
    last = min(start + n, length) - 1
    for step in range(start, last + 1):
      total += weight * _at(r_t, (step, *rest))
      weight *= _at(discount_t, (step, *rest))
    target[index] = total + weight * float(v_t[(last, *rest)])
  return target


def soft_td_error(q_tm1, target):
  """The difference that is squared in eq. 5, per critic."""
  q_tm1 = np.asarray(q_tm1, np.float64)
  error = np.zeros_like(q_tm1)
  for index in np.ndindex(*error.shape):
    error[index] = _at(target, index[1:]) - float(q_tm1[index])
  return error


def twin_critic_loss(q_tm1, target):
  """Eq. 5 for every critic, added up."""
  errors = soft_td_error(q_tm1, target)
  loss = np.zeros(errors.shape[1:])
  for index in np.ndindex(*loss.shape):
    for head in range(errors.shape[0]):
      loss[index] += 0.5 * float(errors[(head, *index)]) ** 2
  return loss


def soft_policy_loss(log_prob, q, alpha):
  """Eq. 7 (9 where the action is reparameterised), with the minimum over the critics."""
  return -soft_value(q, log_prob, alpha)


def temperature_loss(log_alpha, entropy, target_entropy, parameterization='alpha'):
  """Eq. 18, or the same with log alpha as the multiplier."""
  entropy = np.asarray(entropy, np.float64)
  loss = np.zeros(entropy.shape)
  for index in np.ndindex(*loss.shape):
    multiplier = _at(log_alpha, index)
    if parameterization == 'alpha':
      multiplier = math.exp(multiplier)
    loss[index] = multiplier * (_at(entropy, index) - _at(target_entropy, index))
  return loss


def _legal_log_probs(logits, mask, index):
  """Returns {action: log-probability} of the legal actions at `index`."""
  row = np.asarray(logits, np.float64)[index]
  allowed = [True] * len(row) if mask is None else [bool(x) for x in np.asarray(mask)[index]]
  legal = {}
  for action in range(len(row)):
    if allowed[action] and float(row[action]) != -math.inf:
      legal[action] = float(row[action])
  if not legal:
    return {}
  largest = max(legal.values())
  log_total = math.log(sum(math.exp(logit - largest) for logit in legal.values()))
  return {action: logit - largest - log_total for action, logit in legal.items()}


def categorical_log_prob(logits, mask=None):
  """The normalised logits, -inf for illegal actions."""
  log_prob = np.full(np.shape(logits), -math.inf)
  for index in np.ndindex(*log_prob.shape[:-1]):
    for action, number in _legal_log_probs(logits, mask, index).items():
      log_prob[(*index, action)] = number
  return log_prob


def categorical_entropy(logits, mask=None):
  """The entropy term of eq. 11, exactly."""
  entropy = np.zeros(np.shape(logits)[:-1])
  for index in np.ndindex(*entropy.shape):
    for log_prob in _legal_log_probs(logits, mask, index).values():
      entropy[index] -= math.exp(log_prob) * log_prob
  return entropy


def categorical_soft_value(q, logits, alpha, mask=None):
  """Eq. 10: the expectation over actions, with the minimum over the critics in place of Q."""
  q = np.asarray(q, np.float64)
  value = np.zeros(q.shape[1:-1])
  for index in np.ndindex(*value.shape):
    for action, log_prob in _legal_log_probs(logits, mask, index).items():
      smallest = math.inf
      for head in range(q.shape[0]):
        smallest = min(smallest, float(q[(head, *index, action)]))
      value[index] += math.exp(log_prob) * (smallest - _at(alpha, index) * log_prob)
  return value


def categorical_soft_q_target(r_t, discount_t, q_t, logits_t, alpha, mask_t=None):
  """The target in eq. 4, over the value of eq. 10."""
  value = categorical_soft_value(q_t, logits_t, alpha, mask_t)
  target = np.zeros_like(value)
  for index in np.ndindex(*target.shape):
    target[index] = _at(r_t, index) + _at(discount_t, index) * value[index]
  return target


def q_at_action(q, action):
  """Every critic's value of the action taken."""
  q, action = np.asarray(q, np.float64), np.asarray(action)
  taken = np.zeros(q.shape[:-1])
  for index in np.ndindex(*taken.shape):
    taken[index] = float(q[(*index, int(action[index[1:]]))])
  return taken


def categorical_twin_critic_loss(q_tm1, a_tm1, target, mask_tm1=None):
  """Eq. 4 at the action taken for every critic, added up; 0 where that action is illegal."""
  q_tm1, a_tm1 = np.asarray(q_tm1, np.float64), np.asarray(a_tm1)
  loss = np.zeros(a_tm1.shape)
  for index in np.ndindex(*loss.shape):
    action = int(a_tm1[index])
    if mask_tm1 is not None and not bool(np.asarray(mask_tm1)[(*index, action)]):
      continue
    for head in range(q_tm1.shape[0]):
      loss[index] += 0.5 * (float(q_tm1[(head, *index, action)]) - _at(target, index)) ** 2
  return loss


def categorical_actor_loss(logits, q, alpha, mask=None):
  """Eq. 12, with the minimum over the critics, and the entropy that eq. 11 takes."""
  return -categorical_soft_value(q, logits, alpha, mask), categorical_entropy(logits, mask)


def discrete_target_entropy(num_actions, ratio=0.98):
  """The share `ratio` of the largest entropy, log n, of n actions or of a mask's legal ones."""
  if np.ndim(num_actions) == 0:
    return ratio * math.log(num_actions)
  mask = np.asarray(num_actions)
  target = np.zeros(mask.shape[:-1])
  for index in np.ndindex(*target.shape):
    legal = sum(1 for entry in mask[index] if entry)
    target[index] = ratio * math.log(legal) if legal else 0.0
  return target


def normal_log_density(u, loc, scale):
  """The logarithm of the Gaussian density, of one number."""
  return -0.5 * ((u - loc) / scale) ** 2 - math.log(scale) - 0.5 * math.log(2.0 * math.pi)


def log_tanh_slope(u):
  """Returns log(1 - tanh(u)^2) = -2 log cosh u without overflow, of one number."""
  log_cosh = abs(u) + math.log1p(math.exp(-2.0 * abs(u))) - math.log(2.0)
  return -2.0 * log_cosh


def tanh_gaussian_log_density(u, loc, scale):
  """Eq. 21 of arXiv 1801.01290 (appendix C), over the last axis, at the pre-tanh `u`."""
  u, loc, scale = (np.asarray(x, np.float64) for x in (u, loc, scale))
  total = np.zeros(u.shape[:-1])
  for index in np.ndindex(*u.shape):
    number, mean, deviation = float(u[index]), float(loc[index]), float(scale[index])
    total[index[:-1]] += normal_log_density(number, mean, deviation) - log_tanh_slope(number)
  return total


def tanh_gaussian_entropy(loc, scale, *, points=20001, deviations=12.0):
  """The entropy of tanh(Normal(loc, scale)), one dimension, by the trapezoidal rule over u."""
  u = np.linspace(loc - deviations * scale, loc + deviations * scale, points)
  integrand = np.zeros_like(u)
  for index in range(points):
    log_density = normal_log_density(float(u[index]), loc, scale)
    log_prob = log_density - log_tanh_slope(float(u[index]))
    integrand[index] = -math.exp(log_density) * log_prob
  return float(np.sum((integrand[1:] + integrand[:-1]) * np.diff(u)) / 2.0)


def polyak_average(online, target, tau):
  """(1 - tau) target + tau online, of one array."""
  online, target = np.asarray(online, np.float64), np.asarray(target, np.float64)
  average = np.zeros_like(target)
  for index in np.ndindex(*target.shape):
    average[index] = (1.0 - tau) * float(target[index]) + tau * float(online[index])
  return average
