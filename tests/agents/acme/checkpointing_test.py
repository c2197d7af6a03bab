from __future__ import annotations

import os
import pathlib
import subprocess
import sys
import textwrap
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from agents.acme import checkpointing
from agents.acme.checkpointing import Checkpointer


class Box:
  def __init__(self, state: Any = None):
    self.state = state

  def save(self) -> Any:
    return self.state

  def restore(self, state: Any) -> None:
    self.state = state


def _names(directory: pathlib.Path) -> list[str]:
  return sorted(path.name for path in directory.iterdir())


def _state() -> dict[str, Any]:
  params = {'w': jnp.array([[1.5, -0.0], [jnp.nan, 1e-42]], jnp.float32), 'b': jnp.ones((2,), jnp.bfloat16)}
  return {
    'params': params,
    'optimizer': optax.adam(1e-3).init(params),
    'key': jax.random.PRNGKey(3),
    'counts': {'steps': 7, 'walltime': 0.5},
    'nothing': None,
  }


def test_states_come_back_with_the_same_structure_and_bits(tmp_path):
  state = _state()
  Checkpointer({'learner': Box(state)}, tmp_path).save(force=True)
  box = Box()
  assert Checkpointer({'learner': box}, tmp_path).restore()
  assert jax.tree_util.tree_structure(box.state) == jax.tree_util.tree_structure(state)
  for restored, saved in zip(
    jax.tree_util.tree_leaves(box.state), jax.tree_util.tree_leaves(state), strict=True
  ):
    assert np.asarray(restored).dtype == np.asarray(saved).dtype
    assert np.asarray(restored).tobytes() == np.asarray(saved).tobytes()
  assert isinstance(box.state['counts']['steps'], int)
  assert isinstance(box.state['params']['w'], np.ndarray)


def test_typed_random_keys_come_back(tmp_path):
  Checkpointer({'key': Box(jax.random.key(5, impl='rbg'))}, tmp_path).save(force=True)
  box = Box()
  Checkpointer({'key': box}, tmp_path).restore()
  assert box.state.dtype == jax.random.key(5, impl='rbg').dtype
  assert jnp.array_equal(box.state, jax.random.key(5, impl='rbg'))


def test_another_process_restores_the_same_bits(tmp_path):
  Checkpointer({'learner': Box(_state())}, tmp_path).save(force=True)
  script = textwrap.dedent("""
    import sys
    from agents.acme.checkpointing import Checkpointer
    class Box:
      def restore(self, state):
        adam = state['optimizer'][0]
        print(state['params']['w'].tobytes().hex(), type(adam).__name__, adam.mu['b'].dtype)
    Checkpointer({'learner': Box()}, sys.argv[1]).restore()
  """)
  root = pathlib.Path(checkpointing.__file__).parents[2]
  result = subprocess.run(
    [sys.executable, '-c', script, str(tmp_path)],
    capture_output=True,
    text=True,
    check=True,
    env={**os.environ, 'PYTHONPATH': str(root)},
  )
  expected = np.asarray(_state()['params']['w']).tobytes().hex()
  assert result.stdout.split() == [expected, 'ScaleByAdamState', 'bfloat16']


def test_an_empty_directory_restores_nothing(tmp_path):
  box = Box('untouched')
  assert not Checkpointer({'learner': box}, tmp_path / 'new').restore()
  assert box.state == 'untouched'


def test_saves_only_when_it_is_time_to(tmp_path, monkeypatch):
  now = 1000.0
  monkeypatch.setattr(checkpointing.time, 'monotonic', lambda: now)
  checkpointer = Checkpointer({'learner': Box(1)}, tmp_path, time_delta_minutes=2.0)
  assert not checkpointer.save()
  now += 119.0
  assert not checkpointer.save()
  now += 1.0
  assert checkpointer.save()
  assert not checkpointer.save()
  assert checkpointer.save(force=True)


def test_keeps_the_newest_checkpoints(tmp_path):
  box = Box(0)
  checkpointer = Checkpointer({'learner': box}, tmp_path, max_to_keep=2)
  for box.state in range(5):
    checkpointer.save(force=True)
  assert _names(tmp_path) == ['checkpoint-00000004.pickle', 'checkpoint-00000005.pickle']
  # The numbers go on in the next process, so the newest file stays the newest.
  box.state = 5
  Checkpointer({'learner': box}, tmp_path, max_to_keep=2).save(force=True)
  assert _names(tmp_path) == ['checkpoint-00000005.pickle', 'checkpoint-00000006.pickle']


def test_keeps_one_of_the_older_checkpoints_for_every_so_many_hours(tmp_path):
  checkpointer = Checkpointer({'learner': Box(0)}, tmp_path, keep_checkpoint_every_n_hours=2)
  for hour in range(6):
    checkpointer.save(force=True)
    os.utime(checkpointer.checkpoints()[-1], (3600.0 * hour, 3600.0 * hour))
  assert _names(tmp_path) == [
    'checkpoint-00000006.pickle',
    'kept-00000001.pickle',
    'kept-00000003.pickle',
    'kept-00000005.pickle',
  ]


@pytest.mark.parametrize('damage', [b'', b'not a checkpoint', None])
def test_a_damaged_checkpoint_is_passed_over(tmp_path, damage):
  box = Box('older')
  checkpointer = Checkpointer({'learner': box}, tmp_path, max_to_keep=2)
  checkpointer.save(force=True)
  box.state = 'newer'
  checkpointer.save(force=True)
  newest = checkpointer.checkpoints()[-1]
  newest.write_bytes(newest.read_bytes()[:-1] if damage is None else damage)
  assert checkpointer.restore()
  assert box.state == 'older'


def test_refuses_a_directory_whose_checkpoints_are_all_damaged(tmp_path):
  checkpointer = Checkpointer({'learner': Box()}, tmp_path)
  checkpointer.save(force=True)
  checkpointer.checkpoints()[0].write_bytes(b'')
  with pytest.raises(ValueError, match=r'All 1 checkpoints in .* are damaged: remove them'):
    checkpointer.restore()


def test_refuses_a_checkpoint_of_other_objects(tmp_path):
  Checkpointer({'learner': Box()}, tmp_path).save(force=True)
  with pytest.raises(ValueError, match=r"holds \['learner'\], expected \['counter', 'learner'\]"):
    Checkpointer({'learner': Box(), 'counter': Box()}, tmp_path).restore()


def test_a_crash_while_writing_leaves_the_earlier_checkpoint(tmp_path, monkeypatch):
  box = Box('whole')
  checkpointer = Checkpointer({'learner': box}, tmp_path)
  checkpointer.save(force=True)

  def crash(descriptor: int) -> None:
    raise OSError('no space left')

  monkeypatch.setattr(checkpointing.os, 'fsync', crash)
  box.state = 'half'
  with pytest.raises(OSError, match='no space left'):
    checkpointer.save(force=True)
  assert len(checkpointer.checkpoints()) == 1
  checkpointer.restore()
  assert box.state == 'whole'


def test_refuses_to_keep_nothing(tmp_path):
  with pytest.raises(ValueError, match='max_to_keep must be at least 1, got 0'):
    Checkpointer({}, tmp_path, max_to_keep=0)


@pytest.mark.parametrize('damage', ['emptied', 'flipped'])
def test_orbax_does_not_pass_over_a_damaged_step(tmp_path, damage):
  """Why this module has files of its own: where ours restores the one before, Orbax doesn't."""
  ocp = pytest.importorskip('orbax.checkpoint')
  states = [{'w': np.random.default_rng(seed).integers(0, 256, 100_000, np.uint8)} for seed in (1, 2)]
  with ocp.CheckpointManager(tmp_path) as manager:
    for step, state in enumerate(states, start=1):
      manager.save(step, args=ocp.args.StandardSave(state))
    manager.wait_until_finished()
  newest = max(
    (path for path in (tmp_path / '2').rglob('*') if path.is_file()), key=lambda p: p.stat().st_size
  )
  content = bytearray(newest.read_bytes())
  content[len(content) // 2] ^= 1
  newest.write_bytes(content if damage == 'flipped' else b'')

  with ocp.CheckpointManager(tmp_path) as manager:
    assert manager.latest_step() == 2
    if damage == 'emptied':
      with pytest.raises(ValueError, match='OUT_OF_RANGE'):
        manager.restore(None, args=ocp.args.StandardRestore(states[1]))
    else:
      # Nothing is raised, and one value is another.
      restored = manager.restore(None, args=ocp.args.StandardRestore(states[1]))
      assert np.sum(np.asarray(restored['w']) != states[1]['w']) == 1
