"""Every public name says what it takes and returns, in which shapes and after whom, and shows itself.

Docstrings are read from the sources, so those of names that need Acme are checked where there is none, too.
"""

from __future__ import annotations

import dataclasses
import doctest
import importlib
import importlib.util
import pathlib
import re
from collections.abc import Callable, Iterator

import pytest

from tests import docstrings
from tests.docstrings import Definition
from tests.sources import ROOT

PUBLIC = docstrings.public()

# What the rules about formulas hold for.
FORMULAS = 'sac_blocks'

# Annotations of arrays and of trees of them. Not keys, whose shape is always the same.
ARRAYS = re.compile(r'\b(Array|ndarray|PyTree|Components|Info)\b')
CALLABLE = re.compile(r'Callable\[(\[.*?\]|\.\.\.), [^\]]*\]')

# `[N, ...]`, or in words.
SHAPE = re.compile(r'`\[[^\]]*\]`|\b(scalars?|trees?|specs?|any shape)\b')

# 'Haarnoja et al. 2018, eq. 3', 'Sutton and Barto 2018, eq. 7.1', or what is followed, `optax.chain`.
PAPER = re.compile(r"[A-Z][\w']+ (et al\. |and [A-Z]\w+ )?(19|20)\d\d, \S")
LIBRARY = re.compile(r'`((?:optax|rlax|sac_blocks)\.[\w.]+)`')
ARXIV = re.compile(r'arXiv (\d{4}\.\d{5})')

# Whose papers they are.
AUTHORS = {
  '1511.05952': 'Schaul et al. 2016',
  '1711.08946': 'Tavakoli et al. 2018',
  '1802.09477': 'Fujimoto et al. 2018',
  '1812.05905': 'Haarnoja et al. 2018',
  '1905.04388': 'Bester et al. 2019',
  '1910.07207': 'Christodoulou 2019',
  '1912.11077': 'Delalleau et al. 2019',
  '2006.05990': 'Andrychowicz et al. 2020',
  '2006.14171': 'Huang and Ontañón 2020',
  '2101.05982': 'Chen et al. 2021',
  '2110.02034': 'Hiraoka et al. 2021',
  '2205.07802': 'Nikishin et al. 2022',
  '2209.10081': 'Zhou et al. 2022',
}

# The public names for which a rule need not hold, and why.
EXEMPT = {
  'reference': {
    'sac_blocks.blocks.gradient_step': 'the formula is the objective, the step is the optimiser',
    'sac_blocks.blocks.init_statistics': 'zeros and ones, no formula',
    'sac_blocks.blocks.map_batch': 'plumbing: hands on what a function returns',
    'sac_blocks.blocks.map_component': 'plumbing: stores what a function returns',
    'sac_blocks.blocks.pmean_gradients': 'a mean over devices, of no paper',
    'sac_blocks.blocks.scalars': 'plumbing: picks entries of a dict',
    'sac_blocks.blocks.constant': 'data, no formula',
    'sac_blocks.blocks.copied': 'data, no formula',
    'sac_blocks.blocks.drawn': 'data, no formula',
    'sac_blocks.blocks.init_components': 'plumbing: starts what it is told to',
    'sac_blocks.blocks.num_keys': 'plumbing: counts',
    'sac_blocks.objectives.weighted_sum': 'a sum',
    'sac_blocks.observations.has_action_mask': 'a question about a spec',
    'sac_blocks.observations.is_image': 'a question about a spec',
    'sac_blocks.reductions.apply': 'plumbing: holds a function to its contract',
    'sac_blocks.recipes.algorithm': 'plumbing: the formulas are those of the block that it is given',
  },
}


def described(definition: Definition) -> Iterator[str]:
  """Something is said of the name itself, and of the public methods of a class."""
  if len(definition.doc.text) < 20:
    yield 'has no docstring'
  yield from (f'{method.name} has no docstring' for method in definition.methods if not method.doc)


def arguments(definition: Definition) -> Iterator[str]:
  """All parameters and fields are described, and none that there is not."""
  # A default that is another one than the base's needs no second description.
  inherited = {name for base in docstrings.bases(definition) for name in base.fields}
  for heading, names in (('Args', definition.parameters), ('Attributes', definition.fields)):
    entries = definition.doc.entries(heading)
    if missing := sorted(names.keys() - entries.keys() - inherited):
      yield f'{heading} says nothing of {missing}'
    if unknown := sorted(entries.keys() - names.keys()):
      yield f'{heading} describes {unknown}, which is not there'
    yield from (
      f'{heading} names {name} but says nothing of it' for name, entry in entries.items() if not entry
    )


def result(definition: Definition) -> Iterator[str]:
  """What a call returns is described; a method may say so in a sentence, 'Returns ...' or 'Makes ...'."""
  if definition.returns and not definition.doc.section('Returns'):
    yield "has no 'Returns:'"
  for method in definition.methods:
    if method.returns and not method.is_property and not re.search(r'\b[Rr]eturns\b|^Makes\b', method.doc):
      yield f'{method.name} does not say what it returns'


def shapes(definition: Definition) -> Iterator[str]:
  """Each array, or tree of arrays, that goes in or comes out has a shape."""
  for heading, names in (('Args', definition.parameters), ('Attributes', definition.fields)):
    entries = definition.doc.entries(heading)
    for name, annotation in names.items():
      if is_array(annotation) and not SHAPE.search(entries.get(name, '')):
        yield f'{heading} gives {name} no shape'
  if is_array(definition.returns) and not SHAPE.search(definition.doc.section('Returns')):
    yield "'Returns:' gives no shape"
  for method in definition.methods:
    if is_array(method.returns) and not SHAPE.search(method.doc):
      yield f'{method.name} gives what it returns no shape'


def reference(definition: Definition) -> Iterator[str]:
  """What computes or binds a formula says whose it is: author, year and place, or the function followed."""
  cited = ' '.join(definition.doc.section('Reference').split())
  if computes(definition) and not (PAPER.search(cited) or LIBRARY.search(cited)):
    yield "has no 'Reference:' that names a paper or a function of a library"


def example(definition: Definition) -> Iterator[str]:
  """What computes something shows it, in a doctest with a result."""
  examples = doctest.DocTestParser().get_examples(definition.doc.text)
  if computes(definition) and not any(shown.want for shown in examples):
    yield 'has no doctest with a result'


def order(definition: Definition) -> Iterator[str]:
  """Arguments come before results, then errors, a doctest, and the reference."""
  sections = list(definition.doc.sections)
  wanted = [h for h in ('Args', 'Attributes', 'Returns', 'Raises', 'Example', 'Reference') if h in sections]
  if sections != wanted:
    yield f'has its sections in the order {sections}'
  if '>>> ' in definition.doc.text.partition('\nReference:')[2]:
    yield 'has its doctest behind the reference'


def is_array(annotation: str) -> bool:
  return bool(ARRAYS.search(CALLABLE.sub('', annotation)))


def computes(definition: Definition) -> bool:
  """Whether it is no mere record of what there is."""
  record = {'NamedTuple', 'Protocol'} & set(definition.bases)
  return definition.is_function or (definition.is_class and not record)


RULES = {rule.__name__: rule for rule in (described, arguments, result, order)}
RULES_OF_FORMULAS = {rule.__name__: rule for rule in (shapes, reference, example)}


def rules_for(definition: Definition) -> dict[str, Callable[[Definition], Iterator[str]]]:
  return RULES | (RULES_OF_FORMULAS if definition.name.startswith(f'{FORMULAS}.') else {})


@pytest.mark.parametrize('definition', PUBLIC, ids=lambda definition: definition.name)
def test_public_names_are_documented(definition: Definition):
  complaints = [
    f'{rule}: {complaint}'
    for rule, check in rules_for(definition).items()
    if definition.name not in EXEMPT.get(rule, {})
    for complaint in check(definition)
  ]
  assert complaints == []


@pytest.mark.parametrize(('rule', 'name'), [(rule, name) for rule, names in EXEMPT.items() for name in names])
def test_exemptions_are_needed(rule: str, name: str):
  (definition,) = (d for d in PUBLIC if d.name == name)
  assert list(rules_for(definition)[rule](definition)), (
    f'{name} keeps the rule {rule!r}: no need to exempt it'
  )
  assert EXEMPT[rule][name]


FUNCTION = '''
def soft_value(q: Array, alpha: Array | float, *, reduce: Callable[[Array], Array], **options: Any) -> Array:
  """Estimates the soft state value.

  Args:
    q: `[N, ...]`, values
      under N critics.
    alpha: the temperature, a scalar or `[...]`.
    reduce: of the critics.
    **options: more of them.

  Returns:
    The soft value, `[...]`.

  Raises:
    ValueError: the shapes don't fit.

  >>> soft_value(1.0, 0.0)
  1.0

  Reference: Haarnoja et al.
  2018, eq. 3, arXiv 1812.05905.
  """
'''

RECORD = '''
class Sample(NamedTuple):
  """What an actor has drawn.

  Attributes:
    action: `[..., D]`, in [-1, 1].
    name: whose it is.
  """

  action: Array
  name: str
'''

CLASS = '''
class Law:
  """The law of an action.

  Args:
    logits: `[..., A]`, unnormalised.

  >>> Law(0.0).size
  1

  Reference: `optax.chain`.
  """

  def __init__(self, logits: Array):
    self.logits = logits

  @property
  def size(self) -> int:
    """A, the number of actions."""

  def mode(self) -> Array:
    """Returns the most probable action `[...]`."""

  def close(self) -> None:
    """Frees what it holds."""
'''


@pytest.mark.parametrize('source', [FUNCTION, RECORD, CLASS])
def test_good_docstrings_pass(source: str):
  definition = Definition.parse('sac_blocks.example', source)
  assert [complaint for check in rules_for(definition).values() for complaint in check(definition)] == []


@pytest.mark.parametrize(
  ('rule', 'source', 'old', 'new', 'complaint'),
  [
    ('described', FUNCTION, FUNCTION[FUNCTION.index('"""') :], '"""Does."""', 'has no docstring'),
    ('described', CLASS, '"""Frees what it holds."""', '...', 'close has no docstring'),
    ('arguments', FUNCTION, '    reduce: of the critics.\n', '', r"Args says nothing of \['reduce'\]"),
    ('arguments', FUNCTION, '**options: more', 'options: more', r"says nothing of \['\*\*options'\]"),
    ('arguments', FUNCTION, 'reduce: of the critics.', 'reduce:', 'names reduce but says nothing'),
    ('arguments', FUNCTION, '**options: more', 'tau: gone.\n    **options: more', r"describes \['tau'\]"),
    ('arguments', RECORD, '    name: whose it is.\n', '', r"Attributes says nothing of \['name'\]"),
    ('arguments', CLASS, '    logits: `[..., A]`, unnormalised.\n', '', r"says nothing of \['logits'\]"),
    ('result', FUNCTION, '  Returns:\n    The soft value, `[...]`.\n', '', "has no 'Returns:'"),
    ('result', FUNCTION, '    The soft value, `[...]`.\n', '', "has no 'Returns:'"),
    ('result', CLASS, 'Returns the most', 'The most', 'mode does not say'),
    ('order', FUNCTION, 'Args:', 'Raises:', 'in the order'),
    ('order', FUNCTION, '1812.05905.\n', '1812.05905.\n\n  >>> 1\n  1\n', 'behind the reference'),
    ('shapes', FUNCTION, '`[N, ...]`, values', 'values', 'gives q no shape'),
    ('shapes', FUNCTION, 'a scalar or `[...]`', 'a number', 'gives alpha no shape'),
    ('shapes', FUNCTION, 'The soft value, `[...]`.', 'The soft value.', "'Returns:' gives no shape"),
    ('shapes', RECORD, '`[..., D]`, in [-1, 1]', 'in [-1, 1]', 'gives action no shape'),
    ('shapes', CLASS, 'action `[...]`', 'action', 'mode gives what it returns no shape'),
    ('reference', FUNCTION, 'Reference:', 'After', "has no 'Reference:'"),
    ('reference', FUNCTION, 'Haarnoja et al.\n  2018, eq. 3, arXiv', 'arXiv', "has no 'Reference:'"),
    ('reference', FUNCTION, 'Haarnoja et al.\n  2018', 'Haarnoja et al.', "has no 'Reference:'"),
    ('reference', FUNCTION, '2018, eq. 3, arXiv 1812.05905', '2018', "has no 'Reference:'"),
    ('reference', CLASS, '`optax.chain`', 'the usual', "has no 'Reference:'"),
    ('example', FUNCTION, '>>> soft_value', 'soft_value', 'has no doctest'),
    ('example', FUNCTION, '0.0)\n  1.0', '0.0)', 'has no doctest with a result'),
    ('example', CLASS, '>>> ', '', 'has no doctest'),
  ],
)
def test_bad_docstrings_fail(rule: str, source: str, old: str, new: str, complaint: str):
  assert source.count(old) == 1
  definition = Definition.parse('sac_blocks.example', source.replace(old, new))
  found = list(rules_for(definition)[rule](definition))
  assert any(re.search(complaint, line) for line in found), found


def test_names_come_from_every_package():
  names = {definition.name for definition in PUBLIC}
  for module in docstrings.modules('sac_blocks'):
    if module.count('.') == 1 and docstrings.is_package(module):
      assert docstrings.exported(module), f'{module} has no __all__'
  assert {
    'sac_blocks.ActorCritic',
    'sac_blocks.losses.soft_value',
    'sac_blocks.networks.make_networks',
  } <= names
  # On demand, by inheritance, behind a decorator, and a value.
  assert {'agents.sac.SACBuilder', 'agents.config.ReplayConfig', 'agents.experiments.run_experiment'} <= names
  assert {'agents.anakin.Callback', 'agents.acme.compat.Networks'} <= names
  with pytest.raises(LookupError, match='soft_values is neither imported from here nor defined'):
    docstrings.find('sac_blocks', 'soft_values')


def test_papers_are_their_authors():
  cited = set()
  for place, doc in docstrings.everything():
    for number in ARXIV.findall(doc):
      cited.add(number)
      assert AUTHORS.get(number, 'an author in AUTHORS') in ' '.join(doc.split()), f'{place}: arXiv {number}'
  assert cited == set(AUTHORS)


def test_functions_that_are_followed_exist():
  followed = {name for d in PUBLIC for name in LIBRARY.findall(d.doc.section('Reference'))}
  assert followed
  for name in sorted(followed):
    module, _, attribute = name.rpartition('.')
    if module.startswith('sac_blocks'):
      assert docstrings.find(module, attribute)
    else:
      # Not imported: rlax brings TensorFlow in, where that is installed.
      spec = importlib.util.find_spec(module)
      assert spec is not None, name
      assert re.search(rf'\b{attribute}\b', pathlib.Path(str(spec.origin)).read_text()), name


@dataclasses.dataclass
class Collected:
  """A plugin of pytest that keeps what is collected, and the modules that are left out without a word."""

  doctests: set[str] = dataclasses.field(default_factory=set)
  left_out: set[str] = dataclasses.field(default_factory=set)

  def pytest_itemcollected(self, item: pytest.Item) -> None:
    self.doctests.add(item.name)

  def pytest_collectreport(self, report: pytest.CollectReport) -> None:
    if not report.passed:
      self.left_out.add(report.nodeid.removesuffix('.py').removesuffix('/__init__').replace('/', '.'))

  def misses(self, place: str) -> bool:
    """Whether a doctest would not run although its module is there."""
    known = any(f'{place}.'.startswith(f'{module}.') for module in self.left_out)
    return not known and place not in self.doctests


def lacks_acme(error: BaseException) -> bool:
  missing = getattr(error.__cause__ or error, 'name', None)
  return missing in ('acme', 'courier', 'launchpad', 'reverb', 'tensorflow')


@pytest.fixture(scope='module')
def collected() -> Collected:
  """What the test command collects in the packages."""
  recorder = Collected()
  paths = [str(ROOT / package) for package in docstrings.PACKAGES]
  options = ['--collect-only', '-qq', '-s', '-p', 'no:cacheprovider', f'--rootdir={ROOT}']
  pytest.main([*options, *paths], plugins=[recorder])
  return recorder


def test_the_test_command_runs_doctests(pytestconfig: pytest.Config):
  assert set(docstrings.PACKAGES) < set(pytestconfig.getini('testpaths'))
  assert '--doctest-modules' in pytestconfig.getini('addopts')
  skipped = [place for place, doc in docstrings.everything() if re.search(r'doctest:.*SKIP', doc)]
  assert skipped == []


def test_all_doctests_are_collected(collected: Collected):
  shown = [place for place, doc in docstrings.everything() if '>>> ' in doc]
  assert {'sac_blocks.losses.values.soft_value', 'sac_blocks.distributions.hybrid.Hybrid'} <= set(shown)
  assert [place for place in shown if collected.misses(place)] == []


def test_modules_are_left_out_only_for_lack_of_acme(collected: Collected):
  # Of both packages, or the option that ignores import errors could hide everything.
  assert {'sac_blocks.losses.values.soft_value', 'agents.environments.loaders.make'} <= collected.doctests
  if importlib.util.find_spec('acme') is not None:
    assert collected.left_out == set()
  for module in collected.left_out:
    with pytest.raises(ImportError) as caught:
      importlib.import_module(module)
    assert lacks_acme(caught.value), f'{module}: {caught.value}'


def test_doctests_that_do_not_run_are_noticed():
  run = Collected({'package.here.shown'}, {'package.absent'})
  assert not run.misses('package.here.shown')
  assert run.misses('package.here.Record.method')
  assert not run.misses('package.absent.shown')
  assert run.misses('package.absent_not.shown')
  assert lacks_acme(ModuleNotFoundError(name='reverb'))
  assert not lacks_acme(ModuleNotFoundError(name='optax'))
  assert not lacks_acme(ImportError('cannot import name'))
