from __future__ import annotations

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from agents.anakin import environments
from agents.anakin.environments import drawing
from agents.anakin.environments.cartpole import State as CartPoleState
from agents.anakin.environments.catch import State as CatchState
from agents.anakin.environments.pendulum import State as PendulumState

RED, BLUE, BROWN = (204, 77, 77), (70, 110, 190), (202, 152, 101)


def pixels(image, color):
  """Returns [row, column] of the pixels of a color."""
  return np.argwhere((image == color).all(axis=-1))


def state(kind, *values):
  return kind(*map(jnp.asarray, values))


def test_shapes_cover_the_pixels_inside_of_them():
  canvas = drawing.Canvas((-1.0, -1.0), (3.0, 1.0), pixels_per_unit=10)
  assert canvas.image.shape == (20, 40, 3)
  assert canvas.image.dtype == np.uint8
  assert (canvas.image == 255).all()
  canvas.box((0.0, 0.0), (1.0, 0.5), drawing.BLACK)
  # Upwards and to the right of the middle of the scene's unit squares.
  assert pixels(canvas.image, drawing.BLACK).min(axis=0).tolist() == [5, 10]
  assert pixels(canvas.image, drawing.BLACK).max(axis=0).tolist() == [9, 19]
  assert len(pixels(canvas.image, drawing.BLACK)) == 50
  canvas.disc((2.0, 0.0), 0.5, RED)
  covered = np.sum(255.0 - canvas.image[..., 1]) - 50 * 255
  # Edges are blended, so that the cover sums up to the area, in pixels.
  np.testing.assert_allclose(covered / (255 - 77), math.pi * 5**2, rtol=0.01)
  np.testing.assert_allclose(pixels(canvas.image, RED).mean(axis=0), [9.5, 29.5])
  before = canvas.image
  canvas.rod((-9.0, 0.0), (-8.0, 0.0), 0.1, RED)
  np.testing.assert_array_equal(canvas.image, before)
  canvas.rod((-9.0, -0.8), (9.0, -0.8), 0.2, BLUE)
  assert pixels(canvas.image, BLUE).tolist() == [[row, column] for row in (17, 18) for column in range(40)]


@pytest.mark.parametrize('sense', [-1, 1])
def test_an_arrow_points_where_it_turns_to(sense):
  canvas = drawing.Canvas((-1.0, -1.0), (1.0, 1.0), pixels_per_unit=50)
  canvas.arrow((0.0, 0.0), 0.7, -math.pi / 2, sense * math.pi / 2, 0.04, drawing.BLACK)
  drawn = pixels(canvas.image, drawing.BLACK) - 49.5
  # From below to the side, and not a line there but a broad head.
  assert (sense * drawn[:, 1] > -1).all()
  assert drawn[:, 0].max() == pytest.approx(35, abs=1.5)
  (ahead,) = {tuple(x) for x in drawn[drawn[:, 0] == drawn[:, 0].min()]}
  assert ahead[1] * sense == pytest.approx(35, abs=2)
  assert -10 < ahead[0] < -4
  assert len(drawn[abs(drawn[:, 0] + 1) < 1]) >= 4


@pytest.mark.parametrize(
  ('angle', 'tip'), [(0.0, (0.0, 1.0)), (math.pi / 2, (-1.0, 0.0)), (math.pi, (0.0, -1.0)), (-0.5, None)]
)
def test_the_pendulum_is_drawn_at_its_angle_with_its_torque(angle, tip):
  render = environments.pendulum().render
  image = render(state(PendulumState, angle, 0.0, 0.0))
  assert (image.shape, image.dtype) == ((390, 390, 3), np.uint8)
  rod = pixels(image, RED)
  x, y = rod[:, 1] - 194.5, 194.5 - rod[:, 0]
  tip = (-math.sin(angle), math.cos(angle)) if tip is None else tip
  along = x * tip[0] + y * tip[1]
  # 150 pixels long, in round ends of 15.
  assert along.max() == pytest.approx(165, abs=2)
  assert along.min() == pytest.approx(-15, abs=2)
  assert abs(x * tip[1] - y * tip[0]).max() == pytest.approx(15, abs=2)
  for torque in (-2.0, 1.0):
    turned = render(state(PendulumState, angle, 0.0, torque))
    arrow = np.argwhere((turned != image).any(axis=-1))
    # Below the pivot and on the side that a counterclockwise turn goes to, the right one.
    assert np.sign(arrow[:, 1].mean() - 194.5) == np.sign(torque)


@pytest.mark.parametrize(('position', 'angle'), [(0.0, 0.0), (-2.4, 0.0), (1.5, 0.2), (0.0, -0.2)])
def test_the_cart_and_its_pole_are_drawn_where_they_are(position, angle):
  image = environments.cartpole().render(state(CartPoleState, position, 0.0, angle, 0.0))
  assert (image.shape, image.dtype) == ((220, 600, 3), np.uint8)
  cart = pixels(image, drawing.BLACK)
  assert (cart[:, 1].min() + cart[:, 1].max()) / 2 == pytest.approx(299.5 + 100 * position, abs=1)
  pole = pixels(image, BROWN)
  top = pole[pole[:, 0] < pole[:, 0].min() + 3].mean(axis=0)
  assert top[1] == pytest.approx(299.5 + 100 * (position + math.sin(angle)), abs=3)
  assert top[0] == pytest.approx(160 - 100 * math.cos(angle) - 4, abs=2)


@pytest.mark.parametrize(('row', 'column', 'paddle'), [(0, 0, 2), (5, 3, 0), (6, 1, 3)])
def test_ball_and_paddle_are_drawn_in_their_cells(row, column, paddle):
  image = environments.catch(rows=7, columns=4).render(state(CatchState, row, column, paddle))
  assert (image.shape, image.dtype) == ((280, 160, 3), np.uint8)
  assert {(y // 40, x // 40) for y, x in pixels(image, RED)} == {(row, column)}
  assert {(y // 40, x // 40) for y, x in pixels(image, BLUE)} == {(6, paddle)}
  np.testing.assert_allclose(pixels(image, RED).mean(axis=0), [40 * row + 19.5, 40 * column + 19.5], atol=0.1)


@pytest.mark.parametrize('name', ['pendulum', 'cartpole', 'catch'])
def test_wrapped_tasks_are_drawn_as_the_task_within(name):
  wrapped = environments.make(f'builtin:{name}')
  outer, _ = wrapped.reset(jax.random.key(0))
  inner, _ = getattr(environments, name)().reset(jax.random.key(0))
  image = getattr(environments, name)().render(inner)
  np.testing.assert_array_equal(wrapped.render(outer), image)
  action = jnp.zeros(wrapped.action_spec.shape, wrapped.action_spec.dtype)
  outer, _ = wrapped.step(outer, action, jax.random.key(1))
  assert (wrapped.render(outer) != image).any()
