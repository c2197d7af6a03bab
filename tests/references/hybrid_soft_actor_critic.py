"""Soft Actor-Critic over hybrid actions in float64 NumPy, one branch at a time.

Delalleau et al., "Discrete and Continuous Action Representation for Practical RL in Video Games",
https://arxiv.org/abs/1912.11077: the entropies of the choice and of the continuous action given the choice
have a weight each, and the latter is expected under the choice.
"""

from __future__ import annotations

import math

import numpy as np

from tests.references import soft_actor_critic as reference


def _at(x, index):
  x = np.asarray(x, np.float64)
  return float(x) if x.ndim == 0 else float(x[index])


def _branches(logits, log_prob, mask):
  """Yields the index of an example, a legal branch, its log-probability and that of its continuous action."""
  log_p = reference.categorical_log_prob(logits, mask)
  for place in np.ndindex(*log_p.shape):
    if log_p[place] != -math.inf:
      yield place[:-1], place[-1], float(log_p[place]), _at(log_prob, place)


def hybrid_soft_value(q, logits, log_prob, alpha_discrete, alpha_continuous, mask=None):
  """The expectation over branches of min Q - alpha_d log p_k - alpha_c log pi(x_k | k)."""
  q = np.asarray(q, np.float64)
  value = np.zeros(q.shape[1:-1])
  for index, branch, log_p, log_pi in _branches(logits, log_prob, mask):
    smallest = min(float(q[(head, *index, branch)]) for head in range(q.shape[0]))
    entropies = -_at(alpha_discrete, index) * log_p - _at(alpha_continuous, index) * log_pi
    value[index] += math.exp(log_p) * (smallest + entropies)
  return value


def hybrid_soft_q_target(
  r_t, discount_t, q_t, logits_t, log_prob_t, alpha_discrete, alpha_continuous, mask_t=None
):
  """r + discount V."""
  value = hybrid_soft_value(q_t, logits_t, log_prob_t, alpha_discrete, alpha_continuous, mask_t)
  target = np.zeros_like(value)
  for index in np.ndindex(*target.shape):
    target[index] = _at(r_t, index) + _at(discount_t, index) * value[index]
  return target


def hybrid_actor_loss(logits, log_prob, q, alpha_discrete, alpha_continuous, mask=None):
  """Minus the value, the entropy of the choice, and the expectation of -log pi(x_k | k)."""
  continuous = np.zeros(np.shape(logits)[:-1])
  for index, _, log_p, log_pi in _branches(logits, log_prob, mask):
    continuous[index] -= math.exp(log_p) * log_pi
  value = hybrid_soft_value(q, logits, log_prob, alpha_discrete, alpha_continuous, mask)
  return -value, reference.categorical_entropy(logits, mask), continuous
