import collections
import copy
import pickle
import subprocess
import sys
import types
import unittest

import dm_env
import jax.numpy as jnp
import numpy as np
import pytest
from dm_env import specs, test_utils

from agents import environments
from tests.agents import masked_environments as maze

gymnasium = pytest.importorskip('gymnasium')
spaces = gymnasium.spaces

FIRST, MID, LAST = dm_env.StepType.FIRST, dm_env.StepType.MID, dm_env.StepType.LAST


class GymCounter(gymnasium.Env):
  """Observes the number of steps; ends with `end` = (terminated, truncated) at step `length`."""

  def __init__(self, length=2, end=(True, False), action_space=None, reward=1.0):
    self.observation_space = spaces.Box(-np.inf, np.inf, (1,))
    self.action_space = spaces.Box(-1, 1, (1,)) if action_space is None else action_space
    self.length, self.end, self.reward = length, end, reward
    self.actions, self.seeds, self.closed = [], [], False
    # One buffer for all steps, as some simulators have.
    self.buffer = np.zeros(1, np.float32)

  def reset(self, *, seed=None, options=None):
    super().reset(seed=seed)
    self.seeds.append(seed)
    self.buffer[:] = 0
    return self.buffer, {}

  def step(self, action):
    self.actions.append(action)
    self.buffer += 1
    terminated, truncated = self.end if self.buffer[0] == self.length else (False, False)
    return self.buffer, self.reward, terminated, truncated, {}

  def close(self):
    self.closed = True


class GymConstant(gymnasium.Env):
  """Observes the same value for ever."""

  def __init__(self, observation_space, value):
    self.observation_space, self.value = observation_space, value
    self.action_space = spaces.Box(-1, 1, (1,))

  def reset(self, *, seed=None, options=None):
    return self.value, {}

  def step(self, action):
    return self.value, 0.0, False, False, {}


class DmScript(dm_env.Environment):
  """Plays the given time steps."""

  def __init__(self, observation_spec, action_spec, timesteps):
    self.spec, self._action_spec = observation_spec, action_spec
    self.timesteps = iter(timesteps)

  def reset(self):
    return next(self.timesteps)

  def step(self, action):
    return next(self.timesteps)

  def observation_spec(self):
    return self.spec

  def action_spec(self):
    return self._action_spec


class DmConstant(dm_env.Environment):
  """Observes the same value for ever; each step returns `discount`."""

  def __init__(self, observation_spec, value, action_spec=None, discount=1.0):
    self.spec, self.value, self.discount = observation_spec, value, discount
    self.actions = []
    self._action_spec = specs.BoundedArray((1,), np.float64, -1, 1) if action_spec is None else action_spec
    self.physics = 'the physics'

  def reset(self):
    return dm_env.restart(self.value)

  def step(self, action):
    self.actions.append(action)
    return dm_env.transition(2.0, self.value, self.discount)

  def observation_spec(self):
    return self.spec

  def action_spec(self):
    return self._action_spec


def bounded(low, high, dtype=np.float64):
  """An environment that records its actions, with the given action bounds."""
  low, high = np.asarray(low, dtype), np.asarray(high, dtype)
  spec = specs.BoundedArray(low.shape, dtype, low, high)
  return DmConstant(specs.Array((1,), np.float64), np.zeros(1), spec)


def canonical_gym(environment, **kwargs):
  adapted = environments.GymnasiumEnvironment(environment, **kwargs)
  return environments.SinglePrecision(environments.CanonicalActions(adapted))


# Actions.


def test_actions_are_rescaled_by_each_dimensions_own_bounds():
  inside = bounded([-1, 0, 0], [1, 1, 1])
  environment = environments.CanonicalActions(inside)
  environment.reset()
  for action in ([0, 0, 0], [1, 1, 1], [-1, -1, -1], [0.5, 0.5, -0.5]):
    environment.step(np.array(action, np.float32))
  # Centre [0, .5, .5] and half-range [1, .5, .5].
  np.testing.assert_array_equal(inside.actions, [[0, 0.5, 0.5], [1, 1, 1], [-1, 0, 0], [0.5, 0.75, 0.25]])
  assert inside.actions[0].dtype == np.float64


def test_minus_a_half_of_bounds_2_and_10_is_4():
  inside = GymCounter(action_space=spaces.Box(2, 10, (1,)))
  environment = canonical_gym(inside)
  environment.reset()
  environment.step(jnp.array([-0.5]))
  np.testing.assert_array_equal(inside.actions, [[4.0]])
  assert inside.actions[0].dtype == np.float32


def test_uniform_canonical_actions_have_the_mean_of_the_bounds():
  inside = bounded([2], [10])
  environment = environments.CanonicalActions(inside)
  environment.reset()
  for action in np.random.default_rng(0).uniform(-1, 1, (4000, 1)):
    environment.step(action)
  # The standard error is 8 / sqrt(12 * 4000) = 0.037.
  assert abs(np.mean(inside.actions) - 6) < 0.15


def test_actions_outside_of_the_box_are_clipped():
  inside = bounded([2, -3], [10, 3])
  environment = environments.CanonicalActions(inside)
  environment.reset()
  environment.step([5.0, -1.0000001])
  environment.step([-np.inf, np.inf])
  np.testing.assert_array_equal(inside.actions, [[10, -3], [2, 3]])


def test_rounding_never_leaves_the_bounds():
  rng = np.random.default_rng(0)
  low = rng.normal(size=1000).astype(np.float32)
  high = low + rng.uniform(1e-3, 3, 1000).astype(np.float32)
  inside = bounded(low, high, np.float32)
  environment = environments.CanonicalActions(inside)
  environment.reset()
  for value in (-1, 1):
    environment.step(np.full(1000, value, np.float32))
  for action, bound in zip(inside.actions, (low, high), strict=True):
    assert np.all((low <= action) & (action <= high))
    np.testing.assert_allclose(action, bound, rtol=1e-6)


@pytest.mark.parametrize('shape', [(), (1,), (2, 3)])
def test_action_spec_is_the_canonical_box_of_the_same_shape(shape):
  spec = environments.CanonicalActions(bounded(np.full(shape, 2), np.full(shape, 10))).action_spec()
  assert type(spec) is specs.BoundedArray
  assert (spec.shape, spec.dtype) == (shape, np.float32)
  np.testing.assert_array_equal(spec.minimum, np.full(shape, -1))
  np.testing.assert_array_equal(spec.maximum, np.full(shape, 1))


def test_scalar_bounds_hold_for_all_dimensions():
  spec = specs.BoundedArray((2,), np.float32, minimum=0, maximum=4)
  inside = DmConstant(specs.Array((1,), np.float32), np.zeros(1), spec)
  environment = environments.CanonicalActions(inside)
  environment.reset()
  environment.step([0.0, 1.0])
  np.testing.assert_array_equal(inside.actions, [[2, 4]])


@pytest.mark.parametrize(
  ('low', 'high', 'message'),
  [
    ([-1, -np.inf], [1, np.inf], 'bounds of -inf to inf in dimension 1, expected'),
    ([-1], [np.inf], 'bounds of -1 to inf in dimension 0, expected'),
    ([-1, 0, 0.5], [1, 1, 0.5], 'bounds of 0.5 to 0.5 in dimension 2, expected'),
    ([[0, 0], [0, 3]], [[1, 1], [1, 3]], 'bounds of 3 to 3 in dimension 1, 1, expected'),
    # How dm_control writes an actuator without a limit.
    ([-1e10], [1e10], r'bounds of -1e\+10 to 1e\+10'),
  ],
)
def test_infinite_and_equal_bounds_are_refused(low, high, message):
  with pytest.raises(ValueError, match=message):
    environments.CanonicalActions(bounded(low, high))


@pytest.mark.parametrize(
  'spec',
  [
    specs.BoundedArray((2,), np.int32, 0, 3),
    [specs.BoundedArray((1,), np.float32, -1, 1)],
    {'arm': specs.BoundedArray((1,), np.float32, -1, 1)},
  ],
)
def test_actions_of_other_kinds_are_refused(spec):
  with pytest.raises(ValueError, match='expected one array of real numbers'):
    environments.CanonicalActions(DmConstant(specs.Array((1,), float), np.zeros(1), spec))


def test_unbounded_array_spec_is_refused():
  spec = specs.Array((2,), np.float32)
  with pytest.raises(ValueError, match='bounds of -inf to inf in dimension 0; -inf to inf in dimension 1,'):
    environments.CanonicalActions(DmConstant(specs.Array((1,), float), np.zeros(1), spec))


def test_nan_and_misshapen_actions_are_refused():
  environment = environments.CanonicalActions(bounded([-1, -1], [1, 1]))
  environment.reset()
  with pytest.raises(ValueError, match=r'Got action \[nan, 0.0\], expected numbers in \[-1, 1\]'):
    environment.step([np.nan, 0])
  # A batch of one would broadcast.
  with pytest.raises(ValueError, match=r'shape \(1, 2\), expected \(2,\)'):
    environment.step(np.zeros((1, 2)))


@pytest.mark.parametrize('space', [spaces.Text(5), spaces.Sequence(spaces.Discrete(2))])
def test_gymnasium_actions_of_other_kinds_are_refused(space):
  with pytest.raises(ValueError, match='expected Box, Discrete, MultiDiscrete or MultiBinary'):
    environments.GymnasiumEnvironment(GymCounter(action_space=space))


def test_discrete_actions_pass_and_count_from_zero():
  inside = GymCounter(length=9, action_space=spaces.Discrete(3, start=5))
  adapted = environments.GymnasiumEnvironment(inside)
  environment = environments.DiscreteActions(adapted)
  spec = environment.action_spec()
  assert isinstance(spec, specs.DiscreteArray)
  assert (spec.num_values, spec.dtype) == (3, np.int32)
  environment.reset()
  for action in (0, np.int64(1), jnp.array(2), np.array(2, np.int32)):
    environment.step(action)
  assert inside.actions == [5, 6, 7, 7]
  assert all(inside.action_space.contains(action) for action in inside.actions)
  with pytest.raises(TypeError, match='float'):
    adapted.step(0.7)


@pytest.mark.parametrize(
  ('space', 'num_values', 'action', 'inside_action'),
  [
    (spaces.MultiDiscrete([3, 4], np.int8, start=[5, -1]), [3, 4], [2, 0], [7, -1]),
    (spaces.MultiDiscrete([1, 300]), [1, 300], [0, 299], [0, 299]),
    (spaces.MultiBinary(2), [2, 2], [1, 0], [1, 0]),
    (spaces.Box(np.array([-1, 2]), np.array([1, 5]), dtype=np.int16), [3, 4], [2, 1], [1, 3]),
  ],
)
def test_multi_discrete_actions_count_from_zero(register, space, num_values, action, inside_action):
  inside = GymCounter(length=9, action_space=space)
  environment = environments.make(register(lambda: inside))
  spec = environment.action_spec()
  assert type(spec) is specs.BoundedArray
  assert (spec.shape, spec.dtype, spec.name) == ((2,), np.int32, 'action')
  assert (spec.minimum.tolist(), (spec.maximum + 1).tolist()) == ([0, 0], num_values)
  environment.reset()
  for given in (np.array(action), np.array(action, np.int32), jnp.array(action), action):
    environment.step(given)
  np.testing.assert_array_equal(inside.actions, [inside_action] * 4)
  assert all(space.contains(given) and given.dtype == space.dtype for given in inside.actions)


def test_gymnasium_adapter_gives_multi_discrete_actions_the_type_of_their_space():
  inside = GymCounter(action_space=spaces.MultiDiscrete([3, 4], np.int8, start=[5, -1]))
  environment = environments.GymnasiumEnvironment(inside)
  environment.reset()
  environment.step(jnp.array([2, 0]))
  assert inside.action_space.contains(inside.actions[0])
  assert inside.actions[0].tolist() == [7, -1]


@pytest.mark.parametrize('action', [3, -1, 0.0, [0], None])
def test_what_is_no_discrete_action_is_refused(action):
  inside = DmConstant(specs.Array((1,), float), np.zeros(1), specs.DiscreteArray(3))
  environment = environments.DiscreteActions(inside)
  environment.reset()
  with pytest.raises(ValueError, match=r'Got action .*, expected whole numbers of shape \(\) from 0 to 2\.'):
    environment.step(action)
  assert inside.actions == []


@pytest.mark.parametrize('action', [[3, 0], [0, 4], [0, -1], [0], 0, [[0, 0]], [0.0, 0.0], [True, True]])
def test_what_is_no_multi_discrete_action_is_refused(action):
  actions = specs.BoundedArray((2,), np.int64, [5, -2], [7, 1])
  inside = DmConstant(specs.Array((1,), float), np.zeros(1), actions)
  environment = environments.DiscreteActions(inside)
  environment.reset()
  message = r'Got action .*, expected whole numbers of shape \(2,\) from 0 to \[2, 3\]'
  with pytest.raises(ValueError, match=message):
    environment.step(action)
  assert inside.actions == []
  environment.step([2, 3])
  np.testing.assert_array_equal(inside.actions, [[7, 1]])


@pytest.mark.parametrize(
  ('spec', 'message'),
  [
    (specs.BoundedArray((2, 2), np.int32, 0, 1), 'integers with one axis'),
    (specs.BoundedArray((), np.int32, 0, 1), 'integers with one axis'),
    (specs.Array((2,), np.int32), 'expected a DiscreteArray, or a BoundedArray'),
    (specs.BoundedArray((1,), np.int64, -(2**63), 2**63 - 1), 'integer actions from .* expected the bounds'),
    ([specs.DiscreteArray(2), specs.DiscreteArray(3)], 'expected one array'),
  ],
)
def test_integer_actions_of_other_kinds_are_refused(offer, spec, message):
  with pytest.raises(ValueError, match=message):
    environments.make(offer(lambda: DmConstant(specs.Array((1,), float), np.zeros(1), spec)))


# Observations, rewards and discounts.


def test_single_precision_casts_and_keeps_images_and_categories():
  spec = collections.OrderedDict(
    velocity=specs.Array((2,), np.float64),
    touch=specs.BoundedArray((), bool, False, True),
    count=specs.Array((1,), np.int64),
    image=specs.BoundedArray((2, 2, 3), np.uint8, 0, 255),
    room=specs.DiscreteArray(4, np.int64),
    pair=(specs.Array((1,), np.float16), specs.Array((), np.float32)),
  )
  value = {
    'pair': (np.ones(1, np.float16), np.float32(3)),
    'room': 2,
    'image': np.full((2, 2, 3), 255, np.uint8),
    'count': np.array([7]),
    'touch': True,
    'velocity': np.array([0.1, 0.2]),
  }
  environment = environments.SinglePrecision(DmConstant(spec, value))
  observation = environment.reset().observation
  assert type(observation) is dict
  assert list(observation) == list(spec) == list(environment.observation_spec())
  assert {k: v.dtype for k, v in observation.items() if k != 'pair'} == {
    'velocity': np.float32,
    'touch': np.float32,
    'count': np.float32,
    'image': np.uint8,
    'room': np.int32,
  }
  assert [x.dtype for x in observation['pair']] == [np.float32, np.float32]
  assert observation['velocity'].tolist() == np.array([0.1, 0.2], np.float32).tolist()
  assert (observation['touch'], observation['count'], observation['room']) == (1, 7, 2)
  for key in ('velocity', 'touch', 'count', 'image', 'room'):
    environment.observation_spec()[key].validate(observation[key])
  # uint8 stays unsigned: nobody may subtract before casting.
  assert observation['image'].max() == 255


@pytest.mark.parametrize('reward', [2, 2.0, np.float64(2), np.array([2.0]), True + 1, jnp.array(2)])
def test_rewards_and_discounts_are_float32_scalars(reward):
  environment = canonical_gym(GymCounter(reward=reward))
  first = environment.reset()
  assert (first.reward, first.discount) == (None, None)
  timestep = environment.step([0.0])
  for value, spec, right in (
    (timestep.reward, environment.reward_spec(), 2),
    (timestep.discount, environment.discount_spec(), 1),
  ):
    spec.validate(value)
    assert (value.dtype, value.shape, value) == (np.float32, (), right)
    assert (spec.dtype, spec.shape) == (np.float32, ())


def test_observations_do_not_share_the_memory_of_the_environment():
  environment = canonical_gym(GymCounter(length=3))
  observations = [environment.reset().observation]
  observations += [environment.step([0.0]).observation for _ in range(3)]
  assert [float(o[0]) for o in observations] == [0, 1, 2, 3]


def test_observations_that_are_not_numbers_are_refused():
  with pytest.raises(ValueError, match='expected numbers'):
    environments.SinglePrecision(DmConstant(specs.StringArray(()), 'hello'))
  with pytest.raises(ValueError, match='expected Box, Discrete'):
    environments.GymnasiumEnvironment(GymConstant(spaces.Text(5), 'hello'))


@pytest.mark.filterwarnings('error')
def test_bounds_near_the_largest_float64_become_infinite():
  large = np.finfo(np.float64).max
  spec = specs.BoundedArray((1,), np.float64, -large, large)
  environment = environments.SinglePrecision(DmConstant(spec, np.zeros(1)))
  assert environment.observation_spec().maximum == np.inf


def test_flat_observation_follows_the_order_of_the_spec():
  spec = collections.OrderedDict(
    z=specs.Array((3,), np.float64),
    height=specs.Array((), np.float64),
    a=specs.Array((2, 2), np.float64),
    nested={'y': specs.Array((1,), np.float64), 'b': specs.Array((1,), np.float64)},
  )
  value = {
    'a': np.array([[5.0, 6], [7, 8]]),
    'nested': {'b': np.array([10.0]), 'y': np.array([9.0])},
    'height': 4.0,
    'z': np.array([1.0, 2, 3]),
  }
  environment = environments.FlatObservations(DmConstant(spec, value))
  for timestep in (environment.reset(), environment.step([0.0])):
    assert timestep.observation.tolist() == [1, 2, 3, 4, 5, 6, 7, 8, 9, 10]
    environment.observation_spec().validate(timestep.observation)
  assert environment.observation_spec().shape == (10,)
  assert environment.observation_spec().dtype == np.float32


def test_flat_gymnasium_dict_with_one_hot_categories():
  space = spaces.Dict(
    {'a': spaces.Box(-9, 9, (3,)), 'b': spaces.Box(-9, 9, (2, 2)), 'c': spaces.Discrete(3, start=5)}
  )
  value = {'a': np.array([1.0, 2, 3]), 'b': np.array([[4.0, 5], [6, 7]]), 'c': np.int64(6)}
  environment = environments.GymnasiumEnvironment(GymConstant(space, value))
  native = environments.SinglePrecision(environment).reset().observation
  assert native['c'] == 1
  assert native['b'].shape == (2, 2)
  flat = environments.FlatObservations(environments.SinglePrecision(environment)).reset()
  assert flat.observation.tolist() == [1, 2, 3, 4, 5, 6, 7, 0, 1, 0]


def test_multi_discrete_observations_are_categories_and_integers_of_a_box_are_numbers():
  space = spaces.Dict(
    {
      'a': spaces.MultiDiscrete([[2], [3]], start=[[4], [0]]),
      'b': spaces.MultiBinary(2),
      'c': spaces.Box(0, 9, (1,), np.int64),
    }
  )
  value = {'a': np.array([[5], [2]]), 'b': np.array([0, 1], np.int8), 'c': np.array([7])}
  environment = environments.GymnasiumEnvironment(GymConstant(space, value))
  native = environments.SinglePrecision(environment)
  observation = native.reset().observation
  assert {k: (v.dtype, v.tolist()) for k, v in observation.items()} == {
    'a': (np.int32, [[1], [2]]),
    'b': (np.int32, [0, 1]),
    'c': (np.float32, [7]),
  }
  spec = native.observation_spec()
  for key in space:
    spec[key].validate(observation[key])
  flat = environments.FlatObservations(native).reset().observation
  assert flat.tolist() == [*[0, 1], *[0, 0, 1], *[1, 0], *[0, 1], 7]
  # Specs travel to other processes.
  sent = pickle.loads(pickle.dumps(spec['a']))
  assert (type(sent), sent, sent.name) == (type(spec['a']), spec['a'], spec['a'].name)


def test_flattening_images_is_refused():
  spec = {'state': specs.Array((2,), float), 'pixels': specs.Array((8, 8, 3), np.uint8)}
  value = {'state': np.zeros(2), 'pixels': np.zeros((8, 8, 3), np.uint8)}
  with pytest.raises(ValueError, match=r"shape \(8, 8, 3\) .* observations='native'"):
    environments.FlatObservations(DmConstant(spec, value))


# Action masks.

DISCRETE = specs.DiscreteArray(3)
MULTI = specs.BoundedArray((2,), np.int64, [0, 5], [2, 6])


def masked_spec(size, dtype=np.int8, **others):
  return {**others, 'action_mask': specs.Array((size,), dtype)}


@pytest.mark.parametrize(
  ('actions', 'mask'), [(DISCRETE, [True, False, True]), (MULTI, [False, False, True, True, False])]
)
@pytest.mark.parametrize('dtype', [bool, np.int8, np.int64, np.float32])
def test_masks_are_bool_and_the_rest_is_flat_or_as_it_was(offer, actions, mask, dtype):
  spec = collections.OrderedDict(
    height=specs.Array((), np.float64),
    action_mask=specs.Array((len(mask),), dtype),
    inner={'action_mask': specs.Array((2,), bool), 'a': specs.DiscreteArray(3)},
  )
  value = {
    'height': 4.0,
    'action_mask': np.array(mask, dtype),
    'inner': {'action_mask': np.array([True, False]), 'a': 1},
  }
  name = offer(lambda: DmConstant(spec, value, actions))
  flat, native = environments.make(name), environments.make(name, observations='native')
  for environment in (flat, native):
    mask_spec = environment.observation_spec()['action_mask']
    assert (mask_spec.shape, mask_spec.dtype, mask_spec.name) == ((len(mask),), bool, 'action_mask')
    observation = environment.reset().observation
    assert (observation['action_mask'].dtype, observation['action_mask'].tolist()) == (bool, mask)
  observation = flat.step(np.zeros(actions.shape, np.int32)).observation
  assert list(observation) == list(flat.observation_spec()) == ['observation', 'action_mask']
  assert observation['observation'].tolist() == [4, 1, 0, 0, 1, 0]
  flat.observation_spec()['observation'].validate(observation['observation'])
  observation = native.step(np.zeros(actions.shape, np.int32)).observation
  assert list(observation) == list(native.observation_spec()) == list(spec)
  # Only the one at the top is a mask.
  assert observation['inner']['action_mask'].dtype == np.float32
  assert observation['height'].dtype == np.float32


def test_lone_image_beside_a_mask_stays_an_image(offer):
  image = specs.BoundedArray((8, 8, 3), np.uint8, 0, 255)
  value = {'pixels': np.full((8, 8, 3), 200, np.uint8), 'action_mask': np.ones(3, bool)}
  environment = environments.make(offer(lambda: DmConstant(masked_spec(3, pixels=image), value, DISCRETE)))
  observation = environment.reset().observation
  np.testing.assert_array_equal(observation['observation'], value['pixels'])
  assert environment.observation_spec()['observation'] == image
  more = masked_spec(3, pixels=image, speed=specs.Array((), float))
  with pytest.raises(ValueError, match=r'image of shape \(8, 8, 3\)'):
    environments.make(offer(lambda: DmConstant(more, value, DISCRETE)))


@pytest.mark.parametrize(
  ('actions', 'spec', 'message'),
  [
    (DISCRETE, specs.Array((2,), bool), r'Got action_mask .*shape=\(2,\).*, expected shape \(3,\)'),
    (DISCRETE, specs.Array((3, 1), bool), r'expected shape \(3,\)'),
    (DISCRETE, [specs.Array((3,), bool)], r'expected shape \(3,\)'),
    (MULTI, specs.Array((6,), bool), r'expected shape \(5,\).* 3 \+ 2\.'),
    (MULTI, specs.Array((2,), bool), r'expected shape \(5,\)'),
    (specs.BoundedArray((3,), float, -1, 1), specs.Array((3,), bool), 'action_mask .* continuous actions'),
  ],
)
def test_masks_that_do_not_fit_the_actions_are_refused(offer, actions, spec, message):
  spec = {'observation': specs.Array((1,), float), 'action_mask': spec}
  for observations in ('flat', 'native'):
    with pytest.raises(ValueError, match=message):
      environments.make(offer(lambda: DmConstant(spec, None, actions)), observations=observations)


def test_a_mask_alone_is_refused_as_flat_observation(offer):
  name = offer(lambda: DmConstant(masked_spec(3), {'action_mask': np.ones(3)}, DISCRETE))
  with pytest.raises(ValueError, match='expected an entry besides the mask'):
    environments.make(name)
  assert environments.make(name, observations='native').reset().observation['action_mask'].all()


@pytest.mark.parametrize(
  ('mask', 'message'),
  [
    ([0, -np.inf, 0], 'expected zeros and ones'),  # What is added to logits: it would be read upside down.
    ([1, np.nan, 0], 'expected zeros and ones'),
    ([1, 2, 0], 'expected zeros and ones'),
    ([1, 1], r'of shape \(2,\), expected .* of shape \(3,\)'),
    ([[1, 1, 1]], r'of shape \(1, 3\), expected'),
  ],
)
def test_masks_that_are_none_are_refused(mask, message):
  inside = DmConstant(masked_spec(3, np.float32), {'action_mask': np.array(mask)}, DISCRETE)
  with pytest.raises(ValueError, match=message):
    environments.ActionMasks(inside).reset()


@pytest.mark.parametrize(
  ('actions', 'mask', 'message'),
  [
    (DISCRETE, [0, 0, 0], 'which allows no action, expected'),
    (MULTI, [0, 0, 0, 1, 1], 'no action in factor 0'),
    (MULTI, [0, 1, 0, 0, 0], 'no action in factor 1'),
    (DISCRETE, [0, 0, 1], None),
    (MULTI, [0, 0, 1, 1, 0], None),
  ],
)
@pytest.mark.parametrize(
  ('step_type', 'discount', 'acts'),
  [(FIRST, None, True), (MID, 1, True), (MID, 0, True), (LAST, 1, True), (LAST, 0.5, True), (LAST, 0, False)],
)
def test_only_terminal_states_need_no_legal_action(actions, mask, message, step_type, discount, acts):
  legal, given = np.ones(len(mask), np.int8), np.array(mask, np.int8)
  reward = None if step_type == FIRST else 1.0
  observed = dm_env.TimeStep(step_type, reward, discount, {'action_mask': given})
  timesteps = [observed] if step_type == FIRST else [dm_env.restart({'action_mask': legal}), observed]
  environment = environments.ActionMasks(DmScript(masked_spec(len(mask)), actions, timesteps))
  if step_type != FIRST:
    environment.reset()
  if message and acts:
    with pytest.raises(ValueError, match=message):
      environment.step(0)
  else:
    assert environment.step(0).observation['action_mask'].tolist() == [bool(m) for m in mask]


def test_an_episode_that_is_cut_needs_a_legal_action(offer):
  def make(final_discount):
    timesteps = [
      dm_env.restart({'observation': np.zeros(1), 'action_mask': np.ones(3)}),
      dm_env.transition(1.0, {'observation': np.zeros(1), 'action_mask': np.zeros(3)}, final_discount),
    ]
    spec = masked_spec(3, observation=specs.Array((1,), float))
    name = offer(lambda: DmScript(spec, DISCRETE, timesteps))
    environment = environments.make(name, max_episode_steps=1)
    environment.reset()
    return environment

  assert make(0.0).step(0).last()
  with pytest.raises(ValueError, match='which allows no action'):
    make(1.0).step(0)


def test_masks_do_not_share_the_memory_of_the_environment(offer):
  buffer = np.array([True, False, True])
  value = {'observation': np.zeros(1), 'action_mask': buffer}
  spec = masked_spec(3, bool, observation=specs.Array((1,), float))
  for observations in ('flat', 'native'):
    name = offer(lambda: DmConstant(spec, value, DISCRETE))
    observation = environments.make(name, observations=observations).reset().observation
    buffer ^= True
    assert observation['action_mask'].tolist() == (~buffer).tolist()


# The maze of masked_environments.py.

MAZES = {
  'make_masked': (maze.OPTIMAL_RETURN, maze.RANDOM_RETURN),
  'make_masked_multi': (maze.OPTIMAL_RETURN_MULTI, maze.RANDOM_RETURN_MULTI),
}


def legal_actions(mask):
  """All actions that a mask of the maze allows."""
  moves, paces = np.flatnonzero(mask[:4]), np.flatnonzero(mask[4:])
  return [np.array([m, p]) for m in moves for p in paces] if len(mask) > 4 else moves


def best_and_random_return(*, paces):
  """Works backwards from the time limit; random moves and paces are drawn apart, so pairs are as likely."""
  best, mean = np.zeros(8), np.zeros(8)
  for _ in range(maze.MAX_STEPS):
    old_best, old_mean, best, mean = best, mean, np.zeros(8), np.zeros(8)
    for state, moves in enumerate(maze.NEXT_STATE):
      if state != maze.GOAL:
        rewards = [maze.PACE_REWARDS[pace] for pace in maze.LEGAL_PACES[state]] if paces else [-1.0]
        best[state] = max(rewards) + max(old_best[following] for following in moves.values())
        mean[state] = np.mean(rewards) + np.mean([old_mean[following] for following in moves.values()])
  return [(best[start], mean[start]) for start in maze.STARTS]


@pytest.mark.parametrize('factory', MAZES)
def test_returns_of_the_maze_are_those_of_dynamic_programming(factory):
  for returns in best_and_random_return(paces=factory == 'make_masked_multi'):
    assert returns == pytest.approx(MAZES[factory], abs=0.005)


@pytest.mark.parametrize('factory', MAZES)
def test_legal_random_actions_in_the_maze(factory):
  environment = environments.make(f'dm_env:tests.agents.masked_environments:{factory}', seed=1)
  rng = np.random.default_rng(0)
  returns, ends = [], []
  for _ in range(150):
    timestep, total = environment.reset(), 0.0
    while not timestep.last():
      actions = legal_actions(timestep.observation['action_mask'])
      timestep = environment.step(actions[rng.integers(len(actions))])
      total += timestep.reward
    returns.append(total)
    ends.append((float(timestep.discount), bool(timestep.observation['action_mask'].any())))
  # The standard deviation of a return is near 6, so the standard error is 0.5.
  assert abs(np.mean(returns) - MAZES[factory][1]) < 1.5
  # Nothing is legal where it terminates; where it is cut there is.
  assert set(ends) == {(0, False), (1, True)}


@pytest.mark.parametrize(
  ('factory', 'action', 'message'),
  [
    ('make_masked', 1, r'Action 1 is illegal in state [02]'),
    ('make_masked_multi', [3, 0], r'Action \[3, 0\] is illegal in state [02]'),
    ('make_masked_multi', [0, 1], r'Action \[0, 1\] is illegal in state [02]'),
  ],
)
def test_illegal_actions_in_the_maze_raise_an_error(factory, action, message):
  environment = environments.make(f'dm_env:tests.agents.masked_environments:{factory}')
  environment.reset()
  with pytest.raises(RuntimeError, match=message):
    environment.step(np.array(action))


# Episodes.


@pytest.mark.parametrize(
  ('end', 'target'),
  [((False, True), 10.9), ((True, False), 1.0), ((True, True), 1.0), ((False, False), 10.9)],
)
def test_values_are_bootstrapped_through_time_limits_only(end, target):
  environment = canonical_gym(GymCounter(length=1, end=end))
  environment.reset()
  timestep = environment.step([0.0])
  assert timestep.last() == any(end)
  # Reward 1, gamma 0.99, value 10 of the final observation.
  assert timestep.reward + 0.99 * timestep.discount * 10 == pytest.approx(target)
  assert timestep.observation.tolist() == [1]


@pytest.mark.parametrize('end', [(True, False), (False, True)])
def test_steps_of_two_episodes(end):
  inside = GymCounter(length=2, end=end)
  environment = canonical_gym(inside)
  # A fresh environment and a finished episode reset, and never look at the action.
  timesteps = [environment.step(a) for a in (None, [0.0], [0.0], [np.nan], [0.0], [0.0], 'any')]
  assert [t.step_type for t in timesteps] == [FIRST, MID, LAST, FIRST, MID, LAST, FIRST]
  assert [t.observation[0] for t in timesteps] == [0, 1, 2, 0, 1, 2, 0]
  discount = float(not end[0])
  assert [t.discount for t in timesteps] == [None, 1, discount, None, 1, discount, None]
  assert len(inside.actions) == 4


def test_gymnasium_adapter_resets_by_itself_after_a_last_step():
  environment = environments.GymnasiumEnvironment(GymCounter(length=1, end=(False, True)))
  assert [environment.step([0.0]).step_type for _ in range(4)] == [FIRST, LAST, FIRST, LAST]


def test_reset_within_an_episode_starts_a_new_one():
  environment = environments.TimeLimit(canonical_gym(GymCounter(length=9)), 3)
  environment.reset()
  environment.step([0.0])
  environment.step([0.0])
  assert environment.reset().first()
  assert [environment.step([0.0]).step_type for _ in range(4)] == [MID, MID, LAST, FIRST]


def test_time_limit_keeps_the_discount_and_the_terminal_state():
  environment = environments.TimeLimit(DmConstant(specs.Array((1,), float), np.zeros(1), discount=0.9), 2)
  environment.reset()
  timesteps = [environment.step([0.0]) for _ in range(3)]
  assert [t.step_type for t in timesteps] == [MID, LAST, FIRST]
  assert [t.discount for t in timesteps] == [0.9, 0.9, None]
  both = environments.TimeLimit(canonical_gym(GymCounter(length=2)), 2)
  both.reset()
  assert [both.step([0.0]).discount for _ in range(2)] == [1, 0]


def test_discount_of_a_dm_env_environment_is_kept():
  environment = environments.SinglePrecision(DmConstant(specs.Array((1,), float), np.zeros(1), discount=0.25))
  environment.reset()
  assert environment.step([0.0]).discount == np.float32(0.25)


def test_only_the_first_reset_is_seeded():
  inside = GymCounter(length=1)
  environment = canonical_gym(inside, seed=7)
  for _ in range(4):
    environment.step([0.0])
  environment.reset()
  assert inside.seeds == [7, None, None]


def test_close_and_attributes_reach_the_environment():
  inside = GymCounter()
  canonical_gym(inside).close()
  assert inside.closed
  with environments.SinglePrecision(DmConstant(specs.Array((1,), float), np.zeros(1))) as wrapped:
    assert wrapped.physics == 'the physics'
    assert copy.deepcopy(wrapped).physics == 'the physics'
    with pytest.raises(AttributeError, match='speed'):
      _ = wrapped.speed


# By name.


def rollout(environment, steps, seed=0):
  """Steps with random actions; returns all observations, rewards, discounts and step types."""
  rng = np.random.default_rng(seed)
  spec = environment.action_spec()
  timesteps = [environment.reset()]
  for _ in range(steps):
    if isinstance(spec, specs.DiscreteArray):
      action = rng.integers(spec.num_values)
    else:
      action = rng.uniform(spec.minimum, spec.maximum)
    timesteps.append(environment.step(action))
  return timesteps


def test_pendulum():
  environment = environments.make('gymnasium:Pendulum-v1')
  spec = environment.action_spec()
  assert (spec.shape, spec.dtype, spec.minimum, spec.maximum) == ((1,), np.float32, -1, 1)
  timesteps = rollout(environment, 402)
  assert [i for i, t in enumerate(timesteps) if t.last()] == [200, 401]
  assert [i for i, t in enumerate(timesteps) if t.first()] == [0, 201, 402]
  # Pendulum has no terminal state: it is only ever cut.
  assert {float(t.discount) for t in timesteps if not t.first()} == {1.0}
  assert {t.observation.dtype for t in timesteps} == {np.dtype(np.float32)}
  assert {t.observation.shape for t in timesteps} == {(3,)}


def test_pendulum_is_pushed_by_the_torque_of_its_own_bounds():
  environment = environments.make('gymnasium:Pendulum-v1', seed=3)
  reference = gymnasium.make('Pendulum-v1')
  observation, _ = reference.reset(seed=3)
  np.testing.assert_array_equal(environment.reset().observation, observation)
  for action in (1.0, -0.25, 0.5):
    # Its torque is within [-2, 2].
    observation, reward, *_ = reference.step(np.array([2 * action], np.float32))
    timestep = environment.step([action])
    np.testing.assert_array_equal(timestep.observation, observation)
    assert timestep.reward == np.float32(reward)


def test_cartpole_terminates_with_discount_0_and_is_cut_with_discount_1():
  environment = environments.make('gymnasium:CartPole-v1')
  assert isinstance(environment.action_spec(), specs.DiscreteArray)
  assert environment.action_spec().num_values == 2
  environment.reset()
  timesteps = [environment.step(1) for _ in range(20)]
  end = next(i for i, t in enumerate(timesteps) if t.last())
  assert [t.discount for t in timesteps[: end + 1]] == [1] * end + [0]
  assert abs(timesteps[end].observation[2]) > 0.2095  # The pole's angle of failure, in radians.
  assert timesteps[end + 1].first()
  cut = rollout(environments.make('gymnasium:CartPole-v1', max_episode_steps=5), 5)[-1]
  assert (cut.step_type, cut.discount) == (LAST, 1)


def test_max_episode_steps_also_lengthens():
  timesteps = rollout(environments.make('gymnasium:Pendulum-v1', max_episode_steps=250), 251)
  assert [i for i, t in enumerate(timesteps) if t.last()] == [250]


@pytest.mark.parametrize('name', ['gymnasium:Pendulum-v1', 'gymnasium:CartPole-v1'])
def test_seed_reaches_the_environment(name):
  check_seeding(name, 450)


def check_seeding(name, steps):
  """Several episodes are the same for the same seed, and differ among seeds and episodes."""

  def observations(seed):
    timesteps = rollout(environments.make(name, seed=seed), steps)
    firsts = [t.observation for t in timesteps if t.first()]
    return np.stack([t.observation for t in timesteps]), firsts

  one, firsts = observations(1)
  np.testing.assert_array_equal(one, observations(1)[0])
  assert not np.array_equal(one[0], observations(2)[0][0])
  assert len(firsts) > 1
  assert not np.array_equal(firsts[0], firsts[1])


@pytest.fixture
def offer(monkeypatch):
  """Gives a name to a function that makes a dm_env environment, for one test."""

  def add(make):
    monkeypatch.setitem(sys.modules, 'toy_module', types.SimpleNamespace(make=make))
    return 'dm_env:toy_module:make'

  return add


@pytest.fixture
def register():
  """Registers gymnasium environments for one test."""
  names = []

  def add(make):
    names.append(f'SacBlocksTest{len(names)}-v0')
    gymnasium.register(names[-1], make, disable_env_checker=True)
    return f'gymnasium:{names[-1]}'

  yield add
  for name in names:
    del gymnasium.registry[name]


def test_observations_flat_and_native(register):
  space = spaces.Dict({'a': spaces.Box(-1, 1, (3,)), 'b': spaces.Box(-1, 1, (2, 2))})
  name = register(lambda: GymConstant(space, {'a': np.zeros(3), 'b': np.zeros((2, 2))}))
  assert environments.make(name).reset().observation.shape == (7,)
  native = environments.make(name, observations='native')
  observation = native.reset().observation
  assert {k: (v.shape, v.dtype) for k, v in observation.items()} == {
    'a': ((3,), np.float32),
    'b': ((2, 2), np.float32),
  }


def test_lone_image_stays_an_image(register):
  image = np.full((8, 8, 3), 200, np.uint8)
  name = register(lambda: GymConstant(spaces.Box(0, 255, (8, 8, 3), np.uint8), image))
  environment = environments.make(name)
  observation = environment.reset().observation
  assert observation.dtype == np.uint8
  np.testing.assert_array_equal(observation, image)
  environment.observation_spec().validate(observation)


def test_bad_bounds_by_name(register):
  space = spaces.Box(np.array([-1, 0.5], np.float32), np.array([1, 0.5], np.float32))
  name = register(lambda: GymCounter(action_space=space))
  with pytest.raises(ValueError, match=r'bounds of 0\.5 to 0\.5 in dimension 1'):
    environments.make(name)


@pytest.mark.parametrize(
  ('name', 'message'),
  [
    ('Pendulum-v1', "Unknown environment 'Pendulum-v1'.*'gymnasium:Pendulum-v1'.*dm_control:"),
    ('gym:Pendulum-v1', "Unknown environment 'gym:Pendulum-v1'"),
    ('', "Unknown environment ''"),
    ('gymnasium:Nowhere-v0', "Unknown gymnasium environment 'Nowhere-v0'.*exist"),
    ('gymnasium:CartPole-v99', "Unknown gymnasium environment 'CartPole-v99'.*v99"),
    ('gymnasium:', "Unknown gymnasium environment ''"),
  ],
)
def test_unknown_names(name, message):
  with pytest.raises(ValueError, match=message) as caught:
    environments.make(name)
  assert caught.value.__cause__ is None
  assert caught.value.__suppress_context__ or caught.value.__context__ is None
  assert '\n' not in str(caught.value)


@pytest.mark.parametrize(
  ('options', 'message'),
  [
    ({'observations': 'dict'}, "observations='dict', expected 'flat' or 'native'"),
    ({'seed': -1}, 'seed=-1, expected a whole number from 0'),
    ({'max_episode_steps': 0}, 'max_episode_steps=0, expected at least 1'),
  ],
)
def test_bad_options(options, message):
  with pytest.raises(ValueError, match=message):
    environments.make('gymnasium:Pendulum-v1', **options)


@pytest.mark.parametrize(
  ('name', 'package'),
  [
    ('gymnasium:Pendulum-v1', 'gymnasium'),
    ('dm_control:cartpole:swingup', 'dm_control'),
    ('bsuite:catch/0', 'bsuite'),
  ],
)
def test_missing_package_says_what_to_install(monkeypatch, name, package):
  def missing(module):
    raise ModuleNotFoundError(f'No module named {package!r}', name=package)

  monkeypatch.setattr(environments.loaders.importlib, 'import_module', missing)
  message = rf'{package} is not installed: `uv sync --extra envs` brings it'
  with pytest.raises(ImportError, match=message) as caught:
    environments.make(name)
  assert caught.value.__context__ is None
  assert ('Python 3.10' in str(caught.value)) == (package != 'gymnasium')


def test_missing_package_of_an_installed_library_is_named(monkeypatch, register):
  def missing(module):
    raise ModuleNotFoundError("No module named 'mujoco'", name='mujoco')

  def needs_box2d():
    raise gymnasium.error.DependencyNotInstalled('Box2D is not installed')

  with pytest.raises(ImportError, match='needs another package: Box2D is not installed'):
    environments.make(register(needs_box2d))
  monkeypatch.setattr(environments.loaders.importlib, 'import_module', missing)
  with pytest.raises(ModuleNotFoundError, match='mujoco'):
    environments.make('dm_control:cartpole:swingup')


# Environments of one's own.

OWN_MODULE = """
import dm_env
import own_helper  # Beside it.
from tests.agents.masked_environments import make_masked

def make_seeded(size=1, *, seed):
  environment = make_masked(seed)
  environment.given = size, seed
  return environment

def make_unseeded():
  return make_seeded(seed=99)

class Factory:
  make = staticmethod(make_unseeded)

def needs_size(size, seed): pass
def make_nothing(): pass
number = 3
"""

OWN_GYMNASIUM_MODULE = """
import gymnasium, numpy as np
from gymnasium import spaces

class Masked(gymnasium.Env):
  action_space = spaces.MultiDiscrete([2, 3], start=[1, 1])
  observation_space = spaces.Dict(
    {'place': spaces.Discrete(3), 'action_mask': spaces.MultiBinary(5), 'speed': spaces.Box(-1, 1, (2,))}
  )

  def reset(self, *, seed=None, options=None):
    mask = np.array([1, 0, 0, 1, 1], np.int8)
    return {'place': 2, 'action_mask': mask, 'speed': np.zeros(2, np.float32)}, {}

  def step(self, action):
    assert self.action_space.contains(action) and action.tolist() == [1, 3], action
    observation, _ = self.reset()
    observation['action_mask'][:] = 0
    return observation, 1.0, True, False, {}

gymnasium.register('OwnMasked-v0', Masked)
"""


@pytest.fixture
def own_modules(tmp_path, monkeypatch):
  """Makes a directory with modules the current one, which is not on the import path."""
  modules = {
    'own_module': OWN_MODULE,
    'own_helper': '',
    'own_gymnasium_module': OWN_GYMNASIUM_MODULE,
    'own_broken_module': 'import no_such_dependency',
  }
  for name, text in modules.items():
    (tmp_path / f'{name}.py').write_text(text)
  monkeypatch.chdir(tmp_path)
  before = list(sys.path)
  yield
  assert sys.path == before
  for name in modules:
    sys.modules.pop(name, None)
  gymnasium.registry.pop('OwnMasked-v0', None)


@pytest.mark.parametrize(
  ('factory', 'given'), [('make_seeded', (1, 7)), ('make_unseeded', (1, 99)), ('Factory.make', (1, 99))]
)
def test_own_environment_from_the_current_directory(own_modules, factory, given):
  environment = environments.make(f'dm_env:own_module:{factory}', seed=7)
  assert environment.given == given
  assert environment.reset().observation['observation'].shape == (8,)


def test_seed_reaches_an_own_environment():
  def starts(seed):
    environment = environments.make('dm_env:tests.agents.masked_environments:make_masked', seed=seed)
    return [int(environment.reset().observation['observation'].argmax()) for _ in range(20)]

  assert set(starts(1)) == {0, 2}
  assert starts(1) == starts(1) != starts(2)


@pytest.mark.parametrize(
  ('task', 'error', 'message'),
  [
    ('own_module', ValueError, "'dm_env:own_module', expected a module, a colon and a function"),
    ('own_module:', ValueError, 'expected a module, a colon'),
    (':make_seeded', ValueError, 'expected a module, a colon'),
    ('.own_module:make_seeded', ValueError, 'expected a module, a colon'),
    ('path/own_module.py:make_seeded', ValueError, 'expected a module, a colon'),
    ('own_module:make_seeded:3', ValueError, 'expected a module, a colon'),
    ('nowhere_module:make', ImportError, 'no module nowhere_module for the environment dm_env:nowhere_mod'),
    ('own_module.inner:make', ImportError, 'no module own_module.inner for the environment'),
    ('own_module:make_it', ImportError, 'own_module has no make_it, which should make .*dm_env:own_module'),
    ('own_broken_module:make', ImportError, '^No module named .no_such_dependency.$'),
    ('own_module:number', ValueError, 'Got 3 as dm_env:own_module:number, expected a function'),
    (
      'own_module:needs_size',
      ValueError,
      r'Got needs_size\(size, seed\) as .* needs no argument but seed:.*size',
    ),
    ('own_module:make_nothing', ValueError, 'Got a NoneType from .*, expected a dm_env.Environment'),
  ],
)
def test_names_that_lead_to_no_own_environment(own_modules, task, error, message):
  with pytest.raises(error, match=message) as caught:
    environments.make(f'dm_env:{task}')
  assert '\n' not in str(caught.value)


def test_own_gymnasium_environment_with_masks(own_modules):
  environment = environments.make('gymnasium:own_gymnasium_module:OwnMasked-v0')
  timesteps = [environment.reset(), environment.step(np.array([0, 2]))]
  for timestep, mask in zip(timesteps, ([1, 0, 0, 1, 1], [0] * 5), strict=True):
    assert timestep.observation['action_mask'].tolist() == [bool(m) for m in mask]
    assert timestep.observation['observation'].tolist() == [0, 0, 1, 0, 0]
  assert (timesteps[1].step_type, timesteps[1].discount) == (LAST, 0)
  native = environments.make('gymnasium:own_gymnasium_module:OwnMasked-v0', observations='native')
  observation = native.reset().observation
  assert {k: (v.dtype, v.tolist()) for k, v in observation.items()} == {
    'place': (np.int32, 2),
    'action_mask': (bool, [True, False, False, True, True]),
    'speed': (np.float32, [0, 0]),
  }


def test_import_brings_no_environment_library_and_no_acme():
  heavy = {'acme', 'tensorflow', 'reverb', 'launchpad', 'gymnasium', 'dm_control', 'bsuite', 'jax'}
  code = 'import sys, agents.environments; print(*{m.partition(".")[0] for m in sys.modules})'
  run = subprocess.run([sys.executable, '-c', code], capture_output=True, text=True, check=True)
  assert not heavy & set(run.stdout.split())


# dm_control and bsuite, where they are installed.


def test_dm_control():
  pytest.importorskip('dm_control')
  environment = environments.make('dm_control:cartpole:swingup')
  assert environment.observation_spec().shape == (5,)
  timesteps = rollout(environment, 1001)
  assert [i for i, t in enumerate(timesteps) if t.last()] == [1000]
  # Its time limit, at discount 1.
  assert {float(t.discount) for t in timesteps if not t.first()} == {1.0}
  assert {t.observation.dtype for t in timesteps} == {np.dtype(np.float32)}
  assert environment.physics.model.nu == 1


def test_dm_control_native_observations_and_scalars():
  pytest.importorskip('dm_control')
  native = environments.make('dm_control:fish:swim', observations='native').reset().observation
  assert list(native) == ['joint_angles', 'upright', 'target', 'velocity']
  assert native['upright'].shape == ()
  flat = environments.make('dm_control:fish:swim').reset().observation
  np.testing.assert_array_equal(flat, np.concatenate([np.ravel(v) for v in native.values()]))
  assert flat.shape == (24,)


@pytest.mark.parametrize('steps', [20, 1010])
def test_dm_control_max_episode_steps(steps):
  pytest.importorskip('dm_control')
  environment = environments.make('dm_control:cartpole:swingup', max_episode_steps=steps)
  timesteps = rollout(environment, steps + 1)
  assert [(i, t.discount) for i, t in enumerate(timesteps) if t.last()] == [(steps, 1)]


def test_dm_control_seed():
  pytest.importorskip('dm_control')
  check_seeding('dm_control:cartpole:swingup', 1010)


@pytest.mark.parametrize(
  ('name', 'message'),
  [
    ('cartpole', "task 'cartpole', expected .* such as cartpole:swingup; choose from .*swingup"),
    ('cartpole:fly', 'choose from balance, '),
    ('nowhere:fly', 'choose from acrobot, '),
    ('lqr:lqr_2_1', 'expected finite ones'),
  ],
)
def test_dm_control_unknown_tasks(name, message):
  pytest.importorskip('dm_control')
  with pytest.raises(ValueError, match=message):
    environments.make(f'dm_control:{name}')


def test_bsuite():
  pytest.importorskip('bsuite')
  environment = environments.make('bsuite:catch/0', observations='native')
  assert environment.action_spec() == specs.DiscreteArray(3, np.int32)
  timesteps = rollout(environment, 9)
  assert timesteps[-1].observation.shape == (10, 5)
  assert (timesteps[-1].step_type, timesteps[-1].discount) == (LAST, 0)
  assert timesteps[-1].reward.dtype == np.float32
  check_seeding('bsuite:cartpole/0', 200)
  with pytest.raises(ValueError, match=r"Unknown bsuite environment 'catch'.*such as catch/0"):
    environments.make('bsuite:catch')


# The conformance tests of dm_env.


class PendulumConformance(test_utils.EnvironmentTestMixin, unittest.TestCase):
  def make_object_under_test(self):
    return environments.make('gymnasium:Pendulum-v1', max_episode_steps=7)


class CartPoleConformance(test_utils.EnvironmentTestMixin, unittest.TestCase):
  def make_object_under_test(self):
    return environments.make('gymnasium:CartPole-v1', observations='native')


class NestedConformance(test_utils.EnvironmentTestMixin, unittest.TestCase):
  def make_object_under_test(self):
    space = spaces.Dict({'a': spaces.Box(-1, 1, (3,)), 'b': spaces.Tuple([spaces.Discrete(4)])})
    return canonical_gym(GymConstant(space, {'a': np.zeros(3), 'b': (1,)}))


class MaskedConformance(test_utils.EnvironmentTestMixin, unittest.TestCase):
  def make_object_under_test(self):
    value = {'observation': np.zeros(2), 'action_mask': np.ones(5, np.int8)}
    inside = DmConstant(masked_spec(5, observation=specs.Array((2,), float)), value, MULTI)
    masks = environments.ActionMasks(environments.DiscreteActions(inside))
    return environments.FlatObservations(environments.SinglePrecision(masks))
