"""Ready-made callbacks of `agents.anakin.train`, each for one call of it."""

from agents.anakin.callbacks.animation import save_animation
from agents.anakin.callbacks.checkpoints import restore, save_checkpoints, saved_steps
from agents.anakin.callbacks.curve import save_curve
from agents.anakin.callbacks.progress import show_progress
from agents.anakin.callbacks.recording import Recording, record
from agents.anakin.callbacks.stopping import stop_at_return

__all__ = [
  'Recording',
  'record',
  'restore',
  'save_animation',
  'save_checkpoints',
  'save_curve',
  'saved_steps',
  'show_progress',
  'stop_at_return',
]
