from __future__ import annotations

import jax
import pytest
from dm_env import specs

from agents.anakin import environments


@pytest.mark.parametrize(
  ('name', 'shape', 'actions'),
  [
    ('builtin:pendulum', (3,), specs.BoundedArray),
    ('builtin:cartpole', (4,), specs.DiscreteArray),
    ('builtin:catch', (10, 5), specs.DiscreteArray),
    ('gymnax:Pendulum-v1', (3,), specs.BoundedArray),
    ('gymnax:CartPole-v1', (4,), specs.DiscreteArray),
  ],
)
def test_environments_have_names(name, shape, actions):
  if name.startswith('gymnax'):
    pytest.importorskip('gymnax')
  environment = environments.make(name)
  assert environment.observation_spec.shape == shape
  assert isinstance(environment.action_spec, actions)
  if actions is specs.BoundedArray:
    assert (environment.action_spec.minimum, environment.action_spec.maximum) == (-1.0, 1.0)
  _, observation = environment.reset(jax.random.key(0))
  assert observation.shape == shape


@pytest.mark.parametrize(
  ('name', 'message'),
  [
    ('Pendulum-v1', r"named library:environment .*, got 'Pendulum-v1'"),
    ('gymnasium:Pendulum-v1', r"a library of \['brax', 'builtin', 'gymnax'\]"),
    ('builtin:chess', r"There is no task 'chess', expected one of \['cartpole', 'catch', 'pendulum'\]"),
    ('gymnax:Chess-v0', "gymnax has no environment 'Chess-v0', it has "),
  ],
)
def test_other_names_are_refused(name, message):
  if name.startswith('gymnax'):
    pytest.importorskip('gymnax')
  with pytest.raises(ValueError, match=message):
    environments.make(name)
