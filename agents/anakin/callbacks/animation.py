"""Episodes to look at."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import jax
import numpy as np

from agents.anakin.environments import Environment
from agents.anakin.train import Callback, Report
from agents.optional import import_module
from sac_blocks import Algorithm


def save_animation(
  environment: Environment,
  algorithm: Algorithm,
  path: str | os.PathLike[str],
  *,
  seed: int = 0,
  key: jax.Array | None = None,
  max_steps: int = 1000,
  frames_per_second: float = 30.0,
  at_evaluations: bool = False,
) -> Callback:
  """Draws an episode of the greedy policy as an animated picture, when training ends.

  Args:
    environment: that trains, with `render`.
    algorithm: that learns.
    path: of the GIF file, which is replaced; its folder is made if missing.
    seed: the position of the one that is drawn where there are several.
    key: a typed random key of the episode, `jax.random.key(0)` by default.
    max_steps: after which the episode is cut off.
    frames_per_second: of the animation; there is a frame for each step.
    at_evaluations: whether to draw one at each evaluation too, into files with the number of environment
      steps in their names: `path` may be `episode.gif`, and these are `episode_1000.gif` and so on.

  Returns:
    The callback.

  Raises:
    ValueError: the environment cannot be drawn; from the callback, there is no such seed.
  """
  if environment.render is None:
    raise ValueError(
      'The environment cannot be drawn, its render is None: give it one with '
      'environment._replace(render=...), or leave out the animation.'
    )
  key = jax.random.key(0) if key is None else key
  episode = _Episode(environment, algorithm, key, max_steps)
  return _Animation(episode, Path(path).expanduser(), seed, frames_per_second, at_evaluations)


class _Episode:
  """Draws an episode, always from the same start and with the same random numbers.

  Args:
    environment: with `render`.
    algorithm: whose greedy policy acts.
    key: of the episode.
    max_steps: after which it is cut off.
  """

  def __init__(self, environment: Environment, algorithm: Algorithm, key: jax.Array, max_steps: int):
    def step(params: Any, state: Any, observation: Any, key: jax.Array) -> tuple[Any, Any]:
      action_key, step_key = jax.random.split(key)
      batch = jax.tree.map(lambda x: x[None], observation)
      actions = algorithm.evaluation_policy(params, batch, action_key)
      return environment.step(state, jax.tree.map(lambda x: x[0], actions), step_key)

    self._render: Any = environment.render
    self._reset, self._step = jax.jit(environment.reset), jax.jit(step)
    self._key, self._max_steps = key, max_steps

  def draw(self, params: Any) -> list[np.ndarray]:
    """Returns the pictures of the first state and of that after each step."""
    params = jax.device_put(params)
    key, reset_key = jax.random.split(self._key)
    state, observation = self._reset(reset_key)
    images = [self._render(jax.device_get(state))]
    for i in range(self._max_steps):
      state, timestep = self._step(params, state, observation, jax.random.fold_in(key, i))
      observation = timestep.observation
      images.append(self._render(jax.device_get(state)))
      if timestep.last:
        break
    return images


class _Animation:
  def __init__(
    self, episode: _Episode, path: Path, seed: int, frames_per_second: float, at_evaluations: bool
  ):
    self._episode = episode
    self._path = path
    self._seed = seed
    self._frames_per_second = frames_per_second
    self._at_evaluations = at_evaluations
    self._params: Any = None

  def __call__(self, report: Report) -> None:
    params = report.state.algorithm.params
    shape = np.shape(report.state.num_steps)
    if shape and not 0 <= self._seed < shape[0]:
      raise ValueError(f'There are {shape[0]} seeds, got seed={self._seed} to draw: choose one below.')
    # On the host, since the state is gone when training ends, and may be spread over devices.
    self._params = jax.tree.map(lambda x: np.array(x[self._seed] if shape else x), params)
    if self._at_evaluations and report.evaluation is not None:
      self._save(self._path.with_stem(f'{self._path.stem}_{report.num_steps}'))

  def close(self) -> None:
    if self._params is not None:
      self._save(self._path)

  def _save(self, path: Path) -> None:
    pillow: Any = import_module('PIL.Image', '`uv sync --extra anakin` brings it')
    first, *others = [pillow.fromarray(image) for image in self._episode.draw(self._params)]
    path.parent.mkdir(parents=True, exist_ok=True)
    # A viewer never sees a half-written file.
    temporary = path.with_name(f'.{path.name}.tmp')
    first.save(
      temporary,
      format='GIF',
      save_all=True,
      append_images=others,
      duration=1000 / self._frames_per_second,
      loop=0,
    )
    os.replace(temporary, path)
