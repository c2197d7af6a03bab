from __future__ import annotations

import numpy as np
import pytest

from agents.records import plotting
from agents.records.metrics import Evaluation


def _run(steps, means, std=1.0):
  return [Evaluation(s, 0.0, m, std, m - std, m + std, 200.0, 10) for s, m in zip(steps, means, strict=True)]


def test_the_interval_is_that_of_student():
  runs = [_run([0, 10], [1.0, 0.0]), _run([0, 10], [2.0, 0.0]), _run([0, 10], [3.0, 0.0])]
  steps, mean, half_width = plotting.confidence_interval(runs)
  np.testing.assert_array_equal(steps, [0, 10])
  np.testing.assert_allclose(mean, [2.0, 0.0])
  # t(0.975, 2 degrees of freedom) = 4.302653; the sample standard deviation is 1.
  np.testing.assert_allclose(half_width, [4.302653 / 3**0.5, 0.0], rtol=1e-6)


def test_runs_are_interpolated_where_all_have_been():
  steps, mean, _ = plotting.confidence_interval([_run([0, 10, 20], [0, 10, 20]), _run([5, 15], [0, 10])])
  np.testing.assert_array_equal(steps, [5, 10, 15])
  np.testing.assert_allclose(mean, [2.5, 7.5, 12.5])


@pytest.mark.parametrize(
  ('runs', 'message'),
  [
    ([_run([0], [1.0])], 'at least two runs with evaluations, got 1 runs'),
    ([_run([0], [1.0]), []], r'got 2 runs with \[1, 0\] evaluations'),
    ([_run([0, 1], [1, 1]), _run([5, 6], [1, 1])], 'no steps in common: one begins at 5, one ends at 1'),
  ],
)
def test_runs_without_an_interval_are_refused(runs, message):
  with pytest.raises(ValueError, match=message):
    plotting.confidence_interval(runs)


def test_one_run_is_drawn_with_the_deviation_of_its_episodes():
  _, axes = plotting.make_figure('sac on gymnasium:Pendulum-v1')
  plotting.plot_run(axes, _run([0, 1000], [-1200.0, -150.0], std=50.0), label='seed 3')
  (line,) = axes.lines
  np.testing.assert_array_equal(line.get_xydata(), [[0, -1200], [1000, -150]])
  (band,) = axes.collections
  vertices = band.get_paths()[0].vertices
  assert vertices[:, 1].min() == -1250.0
  assert vertices[:, 1].max() == -100.0
  _, labels = axes.get_legend_handles_labels()
  assert labels == ['seed 3: mean of an evaluation', '± standard deviation of its 10 episodes']
  assert axes.get_xlabel() == 'environment steps'
  assert axes.get_ylabel() == 'evaluation return (sum of rewards)'


def test_seeds_are_drawn_with_their_mean():
  _, axes = plotting.make_figure('title')
  plotting.plot_seeds(axes, [_run([0, 10], [1, 3]), _run([0, 10], [3, 5])], label='SAC')
  assert len(axes.lines) == 3
  np.testing.assert_allclose(axes.lines[-1].get_ydata(), [2, 4])
  _, labels = axes.get_legend_handles_labels()
  assert labels == ['each seed', 'SAC: mean of 2 seeds', '95% confidence interval of the mean']


def test_a_picture_is_saved_and_replaced(tmp_path):
  path = tmp_path / 'learning_curve.png'
  path.write_text('old')
  plotting.save_run(_run([0], [-1200.0]), path, title='title', label='seed 0')
  assert path.read_bytes()[:8] == b'\x89PNG\r\n\x1a\n'
  assert [child.name for child in tmp_path.iterdir()] == [path.name]
