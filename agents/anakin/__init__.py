"""Environment, replay and learning in one compiled loop, many seeds at once."""

from agents.anakin import callbacks
from agents.anakin.config import AnakinConfig
from agents.anakin.train import Callback, Report, Result, train
from agents.anakin.trainer import Evaluation, Trainer, TrainState, make_trainer

__all__ = [
  'AnakinConfig',
  'Callback',
  'Evaluation',
  'Report',
  'Result',
  'TrainState',
  'Trainer',
  'callbacks',
  'make_trainer',
  'train',
]
