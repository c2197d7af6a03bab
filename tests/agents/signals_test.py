from __future__ import annotations

import signal
import threading

import pytest

from agents.signals import Interrupts


def _press_ctrl_c() -> None:
  signal.raise_signal(signal.SIGINT)


def test_ctrl_c_takes_effect_at_the_end_of_the_section():
  done = []

  def work() -> None:
    with Interrupts() as interrupts:
      with interrupts.deferred():
        _press_ctrl_c()
        done.append('all of the section')
      done.append('more')

  with pytest.raises(KeyboardInterrupt):
    work()
  assert done == ['all of the section']


def test_ctrl_c_takes_effect_at_once_outside_a_section():
  done = []

  def work() -> None:
    with Interrupts() as interrupts:
      with interrupts.deferred():
        done.append('section')
      _press_ctrl_c()
      done.append('more')

  with pytest.raises(KeyboardInterrupt):
    work()
  assert done == ['section']


def test_the_second_ctrl_c_does_not_wait():
  done = []

  def work() -> None:
    with Interrupts() as interrupts, interrupts.deferred():
      _press_ctrl_c()
      done.append('once')
      _press_ctrl_c()
      done.append('twice')

  with pytest.raises(KeyboardInterrupt):
    work()
  assert done == ['once']


def test_each_ctrl_c_reaches_the_handler_that_was_there_once():
  calls = []

  def count_and_raise(signal_number: int, frame: object) -> None:
    del frame
    calls.append(signal_number)
    raise KeyboardInterrupt

  def work() -> None:
    with Interrupts() as interrupts, interrupts.deferred():
      _press_ctrl_c()
      _press_ctrl_c()

  previous = signal.signal(signal.SIGINT, count_and_raise)
  try:
    with pytest.raises(KeyboardInterrupt):
      work()
  finally:
    signal.signal(signal.SIGINT, previous)
  # Two, and the command would take it for a wish to quit without saving.
  assert len(calls) == 1


def test_an_error_in_the_section_gives_way_to_the_pending_ctrl_c():
  def work() -> None:
    with Interrupts() as interrupts, interrupts.deferred():
      _press_ctrl_c()
      raise LookupError('cause')

  with pytest.raises(KeyboardInterrupt) as caught:
    work()
  assert isinstance(caught.value.__context__, LookupError)


def test_the_handler_that_was_there_is_called_and_comes_back():
  calls = []
  previous = signal.signal(signal.SIGINT, lambda number, frame: calls.append(number))
  try:
    ours = signal.getsignal(signal.SIGINT)
    with Interrupts() as interrupts:
      with interrupts.deferred():
        _press_ctrl_c()
        assert calls == []
      assert calls == [signal.SIGINT]
    assert signal.getsignal(signal.SIGINT) is ours
  finally:
    signal.signal(signal.SIGINT, previous)


def test_other_threads_leave_signals_alone():
  handler = signal.getsignal(signal.SIGINT)
  seen = []

  def work() -> None:
    with Interrupts() as interrupts, interrupts.deferred():
      seen.append(signal.getsignal(signal.SIGINT))

  thread = threading.Thread(target=work)
  thread.start()
  thread.join()
  assert seen == [handler]


def test_a_noted_ctrl_c_speaks_at_once_and_ends_nothing():
  calls = []

  def count_and_raise(signal_number: int, frame: object) -> None:
    del frame
    calls.append(signal_number)
    raise KeyboardInterrupt

  previous = signal.signal(signal.SIGINT, count_and_raise)
  try:
    with Interrupts() as interrupts, interrupts.noted():
      assert not interrupts.pressed
      _press_ctrl_c()
      assert (calls, interrupts.pressed) == ([signal.SIGINT], True)
  finally:
    signal.signal(signal.SIGINT, previous)


def test_a_handler_that_raises_nothing_leaves_nothing_to_note():
  previous = signal.signal(signal.SIGINT, lambda number, frame: None)
  try:
    with Interrupts() as interrupts, interrupts.noted():
      _press_ctrl_c()
      assert not interrupts.pressed
  finally:
    signal.signal(signal.SIGINT, previous)


def test_a_held_ctrl_c_waits_until_it_is_passed_on():
  with Interrupts() as interrupts:
    with interrupts.held():
      _press_ctrl_c()
      _press_ctrl_c()
    assert interrupts.pressed
    with pytest.raises(KeyboardInterrupt):
      interrupts.pass_on()


def test_it_can_be_put_back_in_place():
  with Interrupts() as interrupts, interrupts.held():
    signal.signal(signal.SIGINT, signal.default_int_handler)
    interrupts.install()
    _press_ctrl_c()
    assert interrupts.pressed
