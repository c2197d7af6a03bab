"""What holds for every loss: its reference in any shape, jit, vmap, dtypes, and its errors."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import sac_blocks as sb
from tests import numerics
from tests.references import soft_actor_critic as reference

# Equal to the largest ensemble and batch below, where a wrong axis keeps every shape.
ACTIONS = 5


class Loss(NamedTuple):
  """A loss, its reference, and the kinds of its arguments.

  Kinds: 'heads' [N, ...], 'each' [...], 'scalar' []; of discrete actions also 'action_heads' [N, ..., A],
  'logits' [..., A], 'mask' [..., A] of booleans, and 'action' [...] of legal integers.
  """

  function: Callable[..., Any]
  reference: Callable[..., Any]
  arguments: dict[str, str]
  needs_time: bool = False

  def inputs(self, leading: tuple[int, ...], heads: int, dtype: Any = np.float32) -> list[Any]:
    rng = np.random.default_rng(len(leading) + 10 * heads)
    action = rng.integers(0, ACTIONS, leading)
    mask = (np.arange(ACTIONS) == action[..., None]) | (rng.uniform(size=(*leading, ACTIONS)) < 0.5)
    shapes = {
      'heads': (heads, *leading),
      'each': leading,
      'scalar': (),
      'action_heads': (heads, *leading, ACTIONS),
      'logits': (*leading, ACTIONS),
    }
    whole = {'action': action.astype(np.int32), 'mask': mask}
    return [
      whole[kind] if kind in whole else rng.uniform(0.1, 2.0, shapes[kind]).astype(dtype)
      for kind in self.arguments.values()
    ]

  def on_reals(self, function: Callable[[Any], Any], inputs: list[Any]) -> list[Any]:
    """Returns the inputs with `function` applied to those that hold real numbers."""
    kinds = self.arguments.values()
    return [x if kind in ('action', 'mask') else function(x) for x, kind in zip(inputs, kinds, strict=True)]

  def named(self, *kinds: str) -> list[tuple[int, str]]:
    """Returns position and name of the arguments of these kinds."""
    return [(position, name) for position, (name, kind) in enumerate(self.arguments.items()) if kind in kinds]


LOSSES = {
  'soft_value': Loss(
    sb.soft_value,
    reference.soft_value,
    {'q': 'heads', 'log_prob': 'each', 'alpha': 'scalar'},
  ),
  'soft_value_alpha_each': Loss(
    sb.soft_value,
    reference.soft_value,
    {'q': 'heads', 'log_prob': 'each', 'alpha': 'each'},
  ),
  'soft_q_target': Loss(
    sb.soft_q_target,
    reference.soft_q_target,
    {
      'r_t': 'each',
      'discount_t': 'each',
      'q_t': 'heads',
      'log_prob_t': 'each',
      'alpha': 'scalar',
    },
  ),
  'n_step_soft_q_target': Loss(
    functools.partial(sb.n_step_soft_q_target, n=2),
    functools.partial(reference.n_step_soft_q_target, n=2),
    {'r_t': 'each', 'discount_t': 'each', 'v_t': 'each'},
    needs_time=True,
  ),
  'soft_td_error': Loss(sb.soft_td_error, reference.soft_td_error, {'q_tm1': 'heads', 'target': 'each'}),
  'twin_critic_loss': Loss(
    sb.twin_critic_loss, reference.twin_critic_loss, {'q_tm1': 'heads', 'target': 'each'}
  ),
  'soft_policy_loss': Loss(
    sb.soft_policy_loss,
    reference.soft_policy_loss,
    {'log_prob': 'each', 'q': 'heads', 'alpha': 'scalar'},
  ),
  'temperature_loss': Loss(
    sb.temperature_loss,
    reference.temperature_loss,
    {'log_alpha': 'scalar', 'entropy': 'each', 'target_entropy': 'scalar'},
  ),
  'temperature_loss_log_alpha': Loss(
    functools.partial(sb.temperature_loss, parameterization='log_alpha'),
    functools.partial(reference.temperature_loss, parameterization='log_alpha'),
    {'log_alpha': 'scalar', 'entropy': 'each', 'target_entropy': 'each'},
  ),
  'categorical_soft_value': Loss(
    sb.categorical_soft_value,
    reference.categorical_soft_value,
    {'q': 'action_heads', 'logits': 'logits', 'alpha': 'scalar'},
  ),
  'categorical_soft_value_masked': Loss(
    sb.categorical_soft_value,
    reference.categorical_soft_value,
    {'q': 'action_heads', 'logits': 'logits', 'alpha': 'each', 'mask': 'mask'},
  ),
  'categorical_soft_q_target': Loss(
    sb.categorical_soft_q_target,
    reference.categorical_soft_q_target,
    {
      'r_t': 'each',
      'discount_t': 'each',
      'q_t': 'action_heads',
      'logits_t': 'logits',
      'alpha': 'scalar',
      'mask_t': 'mask',
    },
  ),
  'q_at_action': Loss(sb.q_at_action, reference.q_at_action, {'q': 'action_heads', 'action': 'action'}),
  'categorical_twin_critic_loss': Loss(
    sb.categorical_twin_critic_loss,
    reference.categorical_twin_critic_loss,
    {'q_tm1': 'action_heads', 'a_tm1': 'action', 'target': 'each', 'mask_tm1': 'mask'},
  ),
  'categorical_actor_loss': Loss(
    lambda *inputs: sb.categorical_actor_loss(*inputs)[0],
    lambda *inputs: reference.categorical_actor_loss(*inputs)[0],
    {'logits': 'logits', 'q': 'action_heads', 'alpha': 'scalar', 'mask': 'mask'},
  ),
  'categorical_actor_loss_entropy': Loss(
    lambda *inputs: sb.categorical_actor_loss(*inputs)[1],
    lambda *inputs: reference.categorical_actor_loss(*inputs)[1],
    {'logits': 'logits', 'q': 'action_heads', 'alpha': 'each'},
  ),
}

every_loss = pytest.mark.parametrize('loss', LOSSES.values(), ids=LOSSES.keys())


def losses_with(*kinds: str, besides: tuple[str, ...] = ()) -> Any:
  """Parametrises over the losses with an argument of one of `kinds`, and with one of `besides` if given."""
  chosen = {
    name: loss
    for name, loss in LOSSES.items()
    if loss.named(*kinds) and (not besides or loss.named(*besides))
  }
  return pytest.mark.parametrize('loss', chosen.values(), ids=chosen.keys())


@pytest.mark.parametrize(
  ('heads', 'leading'),
  # The ensemble is also as large as the batch, where a wrong axis keeps every shape.
  [(2, ()), (1, (1,)), (1, (3, 4)), (2, (2,)), (2, (3, 4)), (5, (5, 5))],
)
@every_loss
def test_float32_matches_reference_in_any_shape(loss, heads, leading):
  if loss.needs_time and not leading:
    pytest.skip('needs a time axis')
  inputs = loss.inputs(leading, heads)
  actual = loss.function(*inputs)
  expected = loss.reference(*inputs)
  assert actual.shape == expected.shape
  assert actual.dtype == jnp.float32
  np.testing.assert_allclose(actual, expected, rtol=1e-5, atol=1e-6)


@every_loss
def test_float64_matches_reference(loss):
  inputs = loss.inputs((3, 4), 2, np.float64)
  with numerics.enable_x64():
    actual = loss.function(*map(jnp.asarray, inputs))
    assert actual.dtype == jnp.float64
    np.testing.assert_allclose(actual, loss.reference(*inputs), rtol=1e-13, atol=1e-13)


@every_loss
def test_float32_stays_float32_where_x64_is_on(loss):
  inputs = loss.inputs((3, 4), 2, np.float32)
  with numerics.enable_x64():
    assert loss.function(*map(jnp.asarray, inputs)).dtype == jnp.float32


@pytest.mark.parametrize('dtype', [jnp.bfloat16, jnp.float16])
@every_loss
def test_half_precision_inputs_are_computed_in_float32(loss, dtype):
  inputs = loss.on_reals(lambda x: jnp.asarray(x, dtype), loss.inputs((3, 4), 2))
  actual = loss.function(*inputs)
  expected = loss.reference(*loss.on_reals(np.float64, inputs))
  assert actual.dtype == jnp.float32
  np.testing.assert_allclose(actual, expected, rtol=1e-5, atol=1e-6)


@every_loss
def test_whole_numbers_are_computed_in_float32(loss):
  inputs = loss.on_reals(lambda x: np.round(10 * x).astype(np.int32), loss.inputs((3, 4), 2))
  floats = loss.on_reals(np.float32, inputs)
  actual = loss.function(*inputs)
  assert actual.dtype == jnp.float32
  np.testing.assert_allclose(actual, loss.function(*floats), rtol=1e-6)


@every_loss
def test_jit_equals_eager(loss):
  inputs = loss.inputs((3, 4), 2)
  np.testing.assert_allclose(jax.jit(loss.function)(*inputs), loss.function(*inputs), rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize('heads', [1, 2, 4])
@every_loss
def test_vmap_equals_stacked_input(loss, heads):
  inputs = loss.inputs((3, 4), heads)
  # The mapped axis is the last of [T, B] = [3, 4]; scalars are the same for all examples.
  axes = {'scalar': None, 'action_heads': -2, 'logits': -2, 'mask': -2}
  in_axes = [axes.get(kind, -1) for kind in loss.arguments.values()]
  actual = jax.vmap(loss.function, in_axes=in_axes, out_axes=-1)(*inputs)
  np.testing.assert_allclose(actual, loss.function(*inputs), rtol=1e-6, atol=1e-6)


@every_loss
def test_scalars_may_be_numbers_or_arrays(loss):
  inputs = loss.inputs((3, 4), 2)
  kinds = list(loss.arguments.values())
  if 'scalar' not in kinds:
    pytest.skip('has no scalar argument')
  numbers = [float(x) if kind == 'scalar' else x for x, kind in zip(inputs, kinds, strict=True)]
  np.testing.assert_allclose(loss.function(*numbers), loss.function(*inputs), rtol=1e-6)


def _with_shape(x: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
  return np.resize(x, shape)


def _refuses(loss, inputs, position, name, wrong):
  changed = list(inputs)
  changed[position] = _with_shape(inputs[position], wrong)
  with numerics.raises_naming(**{name: wrong}):
    loss.function(*changed)


@pytest.mark.parametrize('wrong', [(4, 1), (1,), (3,), (4, 4), (1, 4)])
@every_loss
def test_shapes_that_would_broadcast_are_refused_by_name(loss, wrong):
  """Every per-example argument gets the wrong shape in its turn."""
  if len(loss.arguments) - len(loss.named('scalar')) < 2:
    pytest.skip('has one array argument')
  for position, name in loss.named('each', 'action'):
    _refuses(loss, loss.inputs((4,), 2), position, name, wrong)


@pytest.mark.parametrize('wrong', [(4,), (4, 2), (2, 4, 1), (2, 1), (2, 1, 4), (2, 3)])
@losses_with('heads')
def test_heads_that_would_broadcast_are_refused_by_name(loss, wrong):
  """Covers a missing ensemble axis, heads that stand last, and a kept trailing axis."""
  for position, name in loss.named('heads'):
    _refuses(loss, loss.inputs((4,), 2), position, name, wrong)


@pytest.mark.parametrize('wrong', [(4,), (4, 1), (1, 5), (1,), (5,), (3, 5), (4, 6), (1, 4, 5), (4, 1, 5)])
@losses_with('logits', 'mask')
def test_logits_and_masks_that_would_broadcast_are_refused_by_name(loss, wrong):
  """Covers a missing or kept axis, one row for all examples, and another number of actions."""
  for position, name in loss.named('logits', 'mask'):
    _refuses(loss, loss.inputs((4,), 2), position, name, wrong)


@pytest.mark.parametrize('wrong', [(4, 5), (4, 5, 2), (2, 5, 4), (2, 1, 5), (2, 5), (2, 3, 5), (2, 4, 1, 5)])
@losses_with('action_heads')
def test_heads_over_actions_that_would_broadcast_are_refused_by_name(loss, wrong):
  """Covers a missing ensemble axis, heads that stand last, actions before examples, and kept axes."""
  for position, name in loss.named('action_heads'):
    _refuses(loss, loss.inputs((4,), 2), position, name, wrong)


@pytest.mark.parametrize('wrong', [(2, 4, 1), (2, 4, 6)])
@losses_with('action_heads', besides=('logits', 'mask'))
def test_heads_over_another_number_of_actions_are_refused_by_name(loss, wrong):
  for position, name in loss.named('action_heads'):
    _refuses(loss, loss.inputs((4,), 2), position, name, wrong)


@losses_with('heads', 'action_heads')
def test_an_ensemble_of_none_is_refused(loss):
  for position, name in loss.named('heads', 'action_heads'):
    inputs = loss.inputs((4,), 2)
    _refuses(loss, inputs, position, name, (0, *inputs[position].shape[1:]))


@losses_with('heads', 'action_heads')
def test_heads_without_an_ensemble_axis_are_refused(loss):
  for position, name in loss.named('heads', 'action_heads'):
    inputs = loss.inputs((), 2)
    _refuses(loss, inputs, position, name, inputs[position].shape[1:])


def test_errors_are_raised_while_tracing_too():
  with numerics.raises_naming(q_tm1=(2, 4), target=(4, 1)):
    jax.jit(sb.twin_critic_loss)(jnp.zeros((2, 4)), jnp.zeros((4, 1)))
