"""The examples of all READMEs run as they stand, and their links lead somewhere."""

from __future__ import annotations

import os
import pathlib
import re
import subprocess
import sys

import numpy as np
import pytest

from tests.sources import ROOT

READMES = [
  ROOT / name
  for name in (
    'README.md',
    'sac_blocks/README.md',
    'agents/README.md',
    'colabs/README.md',
    'tests/benchmarks/README.md',
  )
]
EXAMPLES = [
  (path, code)
  for path in READMES
  for code in re.findall(r'```python\n(.*?)```', path.read_text(), flags=re.DOTALL)
]
# What picks each example for its test.
MARKERS = (
  'def critic_loss',
  'recipes.algorithm(',
  'fixed_temperature =',
  'sb.categorical_actor_loss',
  'make_discrete_networks',
  'recipes.sac_discrete',
  'anakin.train',
  'experiments.run_experiment',
  'experiments.make_distributed_experiment',
)


def example(marker: str) -> str:
  assert marker in MARKERS
  (found,) = [code for _, code in EXAMPLES if marker in code]
  return found


def run(marker: str, names: dict) -> None:
  """Executes an example where its README's earlier ones left their names."""
  exec(compile(example(marker), marker, 'exec'), names)


def text_without_code(path: pathlib.Path) -> str:
  return re.sub(r'```.*?```', '', path.read_text(), flags=re.DOTALL)


def anchors(path: pathlib.Path) -> set[str]:
  headings = re.findall(r'^#+ (.*)$', text_without_code(path), flags=re.MULTILINE)
  return {re.sub(r'[^\w -]', '', heading.lower()).replace(' ', '-') for heading in headings}


def test_every_example_is_run():
  for path, code in EXAMPLES:
    assert any(marker in code for marker in MARKERS), f'{path} has an example that no test runs:\n{code}'


def test_the_first_readme_is_short():
  assert len(READMES[0].read_text().splitlines()) <= 150


def test_all_readmes_are_tested():
  folders = ('sac_blocks', 'agents', 'tests', 'colabs')
  assert set(READMES) == {
    ROOT / 'README.md',
    *(p for name in folders for p in (ROOT / name).rglob('README.md')),
  }


@pytest.mark.parametrize('path', READMES, ids=lambda path: str(path.relative_to(ROOT)))
def test_relative_links_lead_to_files_and_headings(path: pathlib.Path):
  for link in re.findall(r'\]\(([^)\s]+)\)', text_without_code(path)):
    if '://' in link:
      continue
    name, _, anchor = link.partition('#')
    target = (path.parent / name).resolve() if name else path
    assert target.exists(), f'{path} links to {link}, which does not exist'
    assert ROOT in (target, *target.parents), f'{path} links to {link}, outside the project'
    if anchor:
      assert anchor in anchors(target), f'{path} links to {link}, and {target} has no such heading'


def test_primitives_in_a_custom_loss(capsys: pytest.CaptureFixture[str]):
  run('def critic_loss', {})
  printed = np.array(re.findall(r'-?\d+\.\d+', capsys.readouterr().out), np.float64)
  # The target is 5.158, so the gradient is q - y.
  np.testing.assert_allclose(printed, [5.0 - 5.158, 4.0 - 5.158], rtol=1e-4)


def test_sac_from_blocks_and_swapped_blocks():
  import jax

  from sac_blocks import Transition, recipes

  names: dict = {}
  run('recipes.algorithm(', names)
  run('fixed_temperature =', names)
  batch = Transition(
    np.ones((4, 3), np.float32),
    np.zeros((4, 1), np.float32),
    np.ones(4, np.float32),
    np.full(4, 0.99, np.float32),
    np.ones((4, 3), np.float32),
  )
  _, metrics = names['update'](names['state'], batch)
  assert np.isfinite(metrics['critic_loss'])
  for name in ('fixed_temperature', 'delayed_actor', 'periodic_targets'):
    algorithm = recipes.algorithm(names['networks'], names[name])
    _, metrics = jax.jit(algorithm.update)(algorithm.init(jax.random.key(0)), batch)
    assert np.isfinite(metrics['critic_loss']), name
    assert ('log_alpha_loss' in metrics) == (name != 'fixed_temperature')


def test_discrete_primitives(capsys: pytest.CaptureFixture[str]):
  names: dict = {}
  run('sb.categorical_actor_loss', names)
  printed = np.array(re.findall(r'-?\d+\.\d+', capsys.readouterr().out), np.float64)
  # p = [.268941, .731059]: -(p1 + 2 p2) - .2 H.
  np.testing.assert_allclose(printed, [-1.731059 - 0.2 * 0.582203, 0.582203], rtol=1e-5)
  np.testing.assert_allclose(names['target_entropy'], 0.5 * np.log(2.0), rtol=1e-6)


def test_discrete_recipe():
  import jax

  import sac_blocks as sb

  names: dict = {}
  run('make_discrete_networks', names)
  run('recipes.sac_discrete', names)
  obs = {'observation': np.ones((4, 4), np.float32), 'action_mask': np.ones((4, 11), bool)}
  batch = sb.Transition(
    obs, np.zeros((4, 4), np.int32), np.ones(4, np.float32), np.full(4, 0.99, np.float32), obs
  )
  algorithm = names['algorithm']
  _, metrics = jax.jit(algorithm.update)(algorithm.init(jax.random.key(0)), batch)
  np.testing.assert_allclose(metrics['target_entropy'], 0.9 * np.log(54.0), rtol=1e-5)


@pytest.mark.slow
def test_the_example_on_the_device_trains(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch):
  pytest.importorskip('gymnax')
  monkeypatch.chdir(tmp_path)
  code = example('anakin.train')
  for much, little in (('15_000', '1_200'), ('key(0), 8)', 'key(0), 2)'), ('(64, 64)', '(8, 8)')):
    assert much in code
    code = code.replace(much, little)
  names: dict = {}
  exec(compile(code, 'anakin.train', 'exec'), names)
  result = names['result']
  np.testing.assert_array_equal(result.num_steps, [0, 1200])
  assert result.episode_return.shape == (2, 2, 10)
  assert (tmp_path / 'curve.png').exists()


@pytest.mark.slow
def test_the_acme_example_trains(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch):
  pytest.importorskip('acme')
  monkeypatch.setenv('HOME', str(tmp_path))
  code = example('experiments.run_experiment')
  small = code.replace('10_000', '1_200').replace('eval_every=1000', 'eval_every=600')
  assert small != code
  exec(compile(small.replace('num_eval_episodes=10', 'num_eval_episodes=1'), 'README.md', 'exec'), {})


@pytest.mark.slow
def test_the_launchpad_example_trains(tmp_path: pathlib.Path):
  pytest.importorskip('acme')
  experiment = example('experiments.run_experiment').replace('10_000', '1_200')
  program = example('experiments.make_distributed_experiment').replace('local_mp', 'local_mt')
  # All but the call that trains in this process.
  code = experiment[: experiment.index('experiments.run_experiment(')] + program
  result = subprocess.run(
    [sys.executable, '-c', code],
    env={**os.environ, 'HOME': str(tmp_path)},
    capture_output=True,
    text=True,
    timeout=600,
    check=False,
  )
  assert result.returncode == 0, result.stderr
  assert list(tmp_path.glob('acme/**/checkpoint-00000001.pickle'))
