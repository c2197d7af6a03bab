"""Pictures of simple shapes with smooth edges."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

import numpy as np

Point: TypeAlias = tuple[float, float]
Color: TypeAlias = tuple[int, int, int]
Distance: TypeAlias = Callable[[np.ndarray, np.ndarray], np.ndarray]

BLACK, GREY = (0, 0, 0), (200, 200, 200)


class Canvas:
  """A white picture, onto which shapes are drawn one over the other.

  Points and lengths are in units of the scene, with y upwards. Pixels at the edge of a shape are blended.

  Args:
    left_bottom: corner of the part of the scene that is seen.
    right_top: the opposite corner.
    pixels_per_unit: of length.
  """

  def __init__(self, left_bottom: Point, right_top: Point, pixels_per_unit: float):
    (left, bottom), (right, top) = left_bottom, right_top
    width, height = round((right - left) * pixels_per_unit), round((top - bottom) * pixels_per_unit)
    self._scale = pixels_per_unit
    self._x = left + (np.arange(width) + 0.5)[None, :] / pixels_per_unit
    self._y = top - (np.arange(height) + 0.5)[:, None] / pixels_per_unit
    self._image = np.full((height, width, 3), 255.0)

  @property
  def image(self) -> np.ndarray:
    """The picture so far, uint8 `[height, width, 3]`."""
    return np.round(self._image).astype(np.uint8)

  def disc(self, center: Point, radius: float, color: Color) -> None:
    """Draws a disc."""
    self.rod(center, center, 2 * radius, color)

  def rod(self, start: Point, end: Point, width: float, color: Color) -> None:
    """Draws a thick line with round ends, whose centers are the given points."""
    across, along = end[0] - start[0], end[1] - start[1]
    squared_length = max(across**2 + along**2, 1e-12)

    def distance(x: np.ndarray, y: np.ndarray) -> np.ndarray:
      x, y = x - start[0], y - start[1]
      part = np.clip((x * across + y * along) / squared_length, 0.0, 1.0)
      return np.hypot(x - part * across, y - part * along) - width / 2

    self._fill(distance, color, [start, end], width / 2)

  def polygon(self, corners: Sequence[Point], color: Color) -> None:
    """Draws a convex polygon.

    Args:
      corners: counterclockwise.
      color: of its inside.
    """
    edges = list(zip(corners, [*corners[1:], corners[0]], strict=True))

    def distance(x: np.ndarray, y: np.ndarray) -> np.ndarray:
      sides = [
        ((x - x0) * (y1 - y0) - (y - y0) * (x1 - x0)) / np.hypot(x1 - x0, y1 - y0)
        for (x0, y0), (x1, y1) in edges
      ]
      return np.max(sides, axis=0)

    self._fill(distance, color, corners)

  def box(self, left_bottom: Point, right_top: Point, color: Color) -> None:
    """Draws an upright rectangle."""
    (left, bottom), (right, top) = left_bottom, right_top
    self.polygon([(left, bottom), (right, bottom), (right, top), (left, top)], color)

  def arrow(
    self, center: Point, radius: float, start: float, angle: float, width: float, color: Color
  ) -> None:
    """Draws a part of a circle that ends in an arrowhead.

    Args:
      center: of the circle.
      radius: of the circle.
      start: where it begins, in radians, counterclockwise from the right.
      angle: how far it goes, in radians, less than a turn; counterclockwise where positive.
      width: of the line.
      color: of line and head.
    """
    sense = 1.0 if angle > 0 else -1.0

    def distance(x: np.ndarray, y: np.ndarray) -> np.ndarray:
      x, y = x - center[0], y - center[1]
      turned = np.mod(sense * (np.arctan2(y, x) - start), 2 * np.pi)
      return np.where(turned <= abs(angle), abs(np.hypot(x, y) - radius) - width / 2, np.inf)

    self._fill(distance, color, [center], radius + width)

    def at(phi: float, distance: float = radius) -> Point:
      return center[0] + distance * np.cos(phi), center[1] + distance * np.sin(phi)

    end = start + angle
    head = [at(end, radius + 2 * width), at(end + sense * 4 * width / radius), at(end, radius - 2 * width)]
    self.polygon(head[:: int(sense)], color)

  def _fill(self, distance: Distance, color: Color, points: Sequence[Point], margin: float = 0.0) -> None:
    """Covers the pixels inside of a shape.

    Args:
      distance: of points from the edge, negative inside.
      color: of the shape.
      points: that it lies between.
      margin: how far it goes beyond them.
    """
    margin += 1 / self._scale
    x, y = np.transpose(points)
    columns = np.flatnonzero((self._x >= x.min() - margin) & (self._x <= x.max() + margin))
    rows = np.flatnonzero((self._y >= y.min() - margin) & (self._y <= y.max() + margin))
    if not (columns.size and rows.size):
      return
    window = slice(rows[0], rows[-1] + 1), slice(columns[0], columns[-1] + 1)
    away = distance(self._x[:, window[1]], self._y[window[0]])
    cover = np.clip(0.5 - away * self._scale, 0.0, 1.0)[..., None]
    self._image[window] += cover * (np.asarray(color, np.float64) - self._image[window])
