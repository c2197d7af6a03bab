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


class Loss(NamedTuple):
  """A loss, its reference, and its arguments: 'heads' [N, ...], 'each' [...], or 'scalar' []."""

  function: Callable[..., Any]
  reference: Callable[..., Any]
  arguments: dict[str, str]
  needs_time: bool = False

  def inputs(self, leading: tuple[int, ...], heads: int, dtype: Any = np.float32) -> list[Any]:
    shapes = {'heads': (heads, *leading), 'each': leading, 'scalar': ()}
    rng = np.random.default_rng(len(leading) + 10 * heads)
    return [rng.uniform(0.1, 2.0, shapes[kind]).astype(dtype) for kind in self.arguments.values()]


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
}

every_loss = pytest.mark.parametrize('loss', LOSSES.values(), ids=LOSSES.keys())


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
  inputs = [jnp.asarray(x, dtype) for x in loss.inputs((3, 4), 2)]
  actual = loss.function(*inputs)
  expected = loss.reference(*[np.asarray(x, np.float64) for x in inputs])
  assert actual.dtype == jnp.float32
  np.testing.assert_allclose(actual, expected, rtol=1e-5, atol=1e-6)


@every_loss
def test_whole_numbers_are_computed_in_float32(loss):
  inputs = [np.round(10 * x).astype(np.int32) for x in loss.inputs((3, 4), 2)]
  floats = [x.astype(np.float32) for x in inputs]
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
  in_axes = [None if kind == 'scalar' else -1 for kind in loss.arguments.values()]
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


@pytest.mark.parametrize('wrong', [(4, 1), (1,), (3,), (4, 4), (1, 4)])
@every_loss
def test_shapes_that_would_broadcast_are_refused_by_name(loss, wrong):
  """Every argument but the first per-example one gets the wrong shape in its turn."""
  inputs = loss.inputs((4,), 2)
  names = list(loss.arguments)
  each = [name for name in names if loss.arguments[name] == 'each']
  others = [name for name in names if loss.arguments[name] != 'scalar']
  if len(others) < 2:
    pytest.skip('has one array argument')
  for name in each:
    changed = list(inputs)
    changed[names.index(name)] = _with_shape(inputs[names.index(name)], wrong)
    with numerics.raises_naming(**{name: wrong}):
      loss.function(*changed)


@pytest.mark.parametrize('wrong', [(4,), (4, 2), (2, 4, 1), (2, 1), (2, 1, 4), (2, 3)])
@every_loss
def test_heads_that_would_broadcast_are_refused_by_name(loss, wrong):
  """Covers a missing ensemble axis, heads that stand last, and a kept trailing axis."""
  names = list(loss.arguments)
  for name in (name for name in names if loss.arguments[name] == 'heads'):
    changed = loss.inputs((4,), 2)
    changed[names.index(name)] = _with_shape(changed[names.index(name)], wrong)
    with numerics.raises_naming(**{name: wrong}):
      loss.function(*changed)


@every_loss
def test_an_ensemble_of_none_is_refused(loss):
  names = list(loss.arguments)
  for name in (name for name in names if loss.arguments[name] == 'heads'):
    changed = loss.inputs((4,), 2)
    changed[names.index(name)] = np.zeros((0, 4), np.float32)
    with numerics.raises_naming(**{name: (0, 4)}):
      loss.function(*changed)


@every_loss
def test_heads_without_an_ensemble_axis_are_refused(loss):
  names = list(loss.arguments)
  for name in (name for name in names if loss.arguments[name] == 'heads'):
    changed = loss.inputs((), 2)
    changed[names.index(name)] = np.float32(1.0)
    with numerics.raises_naming(**{name: ()}):
      loss.function(*changed)


def test_errors_are_raised_while_tracing_too():
  with numerics.raises_naming(q_tm1=(2, 4), target=(4, 1)):
    jax.jit(sb.twin_critic_loss)(jnp.zeros((2, 4)), jnp.zeros((4, 1)))
