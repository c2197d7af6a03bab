from __future__ import annotations

import importlib.util
import inspect
import signal
import subprocess
import sys
import textwrap

import pytest

_HAS_ACME = importlib.util.find_spec('acme') is not None
needs_acme = pytest.mark.skipif(not _HAS_ACME, reason='Acme is not installed')

if _HAS_ACME:
  import jax
  import jax.numpy as jnp
  import numpy as np
  from absl import flags

  from agents.acme import compat
  from tests.agents.acme import toy_agent

  import reverb  # isort: skip
  from launchpad.launch import worker_manager  # isort: skip

  needs_release = pytest.mark.skipif(toy_agent.AT_HEAD, reason='the head of Acme needs no mending')
else:
  needs_release = needs_acme


def _run_python(code: str) -> subprocess.CompletedProcess[str]:
  return subprocess.run([sys.executable, '-c', textwrap.dedent(code)], capture_output=True, text=True)


@pytest.mark.parametrize(
  ('missing', 'statement'),
  [
    ('acme', 'from agents.acme import compat'),
    ('acme', 'from agents.sac import SACBuilder'),
    pytest.param('reverb', 'from agents.acme import compat', marks=needs_acme),
  ],
)
def test_names_the_install_command_where_a_module_is_missing(missing, statement):
  result = _run_python(f"""
    import sys
    sys.modules[{missing!r}] = None
    {statement}
  """)
  last_line = result.stderr.strip().splitlines()[-1]
  assert last_line == (
    f"ImportError: the Acme agents need the module '{missing}', which is not installed: "
    'run `uv sync --python 3.10 --extra acme` on Linux'
  )


@needs_release
def test_puts_back_what_jax_has_removed():
  assert isinstance(jnp.ones(3), jnp.DeviceArray)
  assert isinstance(jnp.ones(3), jax.xla.DeviceArray)
  assert isinstance(jax.devices()[0], jax.xla.Device)
  assert jax.tree_multimap(lambda a, b: a + b, {'a': 1}, {'a': 2}) == {'a': 3}


@pytest.mark.slow
@needs_release
def test_leaves_what_jax_has_and_imports_no_network_libraries():
  result = _run_python("""
    import sys
    import jax
    jax.xla, jax.tree_multimap, jax.numpy.DeviceArray = 'xla', 'tree_multimap', 'DeviceArray'
    from agents.acme import compat
    print(jax.xla, jax.tree_multimap, jax.numpy.DeviceArray)
    print([name for name in ('sonnet', 'tensorflow_probability', 'haiku') if name in sys.modules])
  """)
  assert result.stdout.splitlines() == ['xla tree_multimap DeviceArray', '[]']


@needs_release
def test_writers_take_the_timeout_that_the_adders_of_the_release_pass():
  table = reverb.Table.queue('queue', 10)
  server = reverb.Server([table])
  client = reverb.Client(f'localhost:{server.port}')
  with client.trajectory_writer(1, get_signature_timeout_ms=300_000, validate_items=False) as writer:
    writer.append(np.float32(3.0))
    writer.create_item('queue', 1.0, writer.history[-1:])
    writer.flush()
  assert table.info.current_size == 1
  server.stop()


@needs_acme
def test_loops_need_no_parsed_flags_and_return_the_steps_done():
  was_parsed = flags.FLAGS.is_parsed()
  flags.FLAGS.unparse_flags()
  try:
    loop = compat.EnvironmentLoop(
      toy_agent.Environment(episode_length=5), toy_agent.Actor(0.0, None), logger=toy_agent.Log()('loop')
    )
    assert loop.run(num_steps=12) == 15
    assert loop.run(num_episodes=2) == 10
    assert loop.run(num_steps=0) == 0
    assert not flags.FLAGS.is_parsed()
  finally:
    if was_parsed:
      flags.FLAGS.mark_as_parsed()


@needs_acme
def test_loops_leave_ctrl_c_alone():
  handler = signal.getsignal(signal.SIGINT)
  environment = toy_agent.Environment(
    on_step=lambda step: signal.raise_signal(signal.SIGINT) if step == 3 else None
  )
  loop = compat.EnvironmentLoop(environment, toy_agent.Actor(0.0, None), logger=toy_agent.Log()('loop'))
  with pytest.raises(KeyboardInterrupt):
    loop.run(num_steps=100)
  assert environment.total_steps == 3
  assert signal.getsignal(signal.SIGINT) is handler


@needs_acme
def test_loops_register_for_stop_signals_inside_a_launchpad_program(monkeypatch):
  from acme.utils import signals

  registered = []
  monkeypatch.setattr(worker_manager, 'get_worker_manager', object)
  monkeypatch.setattr(signals.launchpad, 'register_stop_handler', registered.append)
  monkeypatch.setattr(signals.launchpad, 'unregister_stop_handler', registered.remove)
  with signals.runtime_terminator():
    assert len(registered) == 1
  assert registered == []


@needs_acme
def test_counters_name_their_steps():
  parent = compat.Counter()
  assert parent.get_steps_key() == 'steps'
  assert compat.Counter(parent, 'actor').get_steps_key() == 'actor_steps'
  assert compat.Counter(parent, 'actor', return_only_prefixed=True).get_steps_key() == 'steps'


@needs_acme
@pytest.mark.parametrize(
  ('method', 'parameters', 'num_required'),
  [
    ('make_replay_tables', ['environment_spec', 'policy'], 2),
    ('make_dataset_iterator', ['replay_client'], 1),
    ('make_adder', ['replay_client', 'environment_spec', 'policy'], 3),
    ('make_actor', ['random_key', 'policy', 'environment_spec', 'variable_source', 'adder'], 3),
    (
      'make_learner',
      ['random_key', 'networks', 'dataset', 'logger_fn', 'environment_spec', 'replay_client', 'counter'],
      5,
    ),
    ('make_policy', ['networks', 'environment_spec', 'evaluation'], 2),
  ],
)
def test_builders_have_the_arguments_of_the_head(method, parameters, num_required):
  signature = inspect.signature(getattr(compat.ActorLearnerBuilder, method))
  arguments = list(signature.parameters.values())[1:]
  assert [parameter.name for parameter in arguments] == parameters
  assert sum(parameter.default is inspect.Parameter.empty for parameter in arguments) == num_required


@needs_acme
def test_default_loggers_take_the_arguments_of_the_head(tmp_path, monkeypatch):
  monkeypatch.setenv('HOME', str(tmp_path))
  logger = compat.create_experiment_logger_factory()('actor', 'actor_steps', 0)
  logger.write({'actor_steps': 3})
  logger.close()
  (path,) = tmp_path.rglob('*.csv')
  assert 'actor_steps' in path.read_text()
