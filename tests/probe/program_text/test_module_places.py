"""Lines of a program's text are placed at the modules of the model that they belong to."""

import sys
import textwrap
from types import ModuleType

import pytest
from mindscope.probe.checks.program_text.module_places import ModulePlaces
from mindscope.probe.checks.program_text.text_checks import text_checks

TEXT = textwrap.dedent(
    """
    class Attention:
        def __init__(self):
            self.out = object()

        def forward(self, x):
            scores = x * 2
            return self.out(scores)


    def helper(x):
        return x + 1


    def train(critic, actor):
        values = critic(1)
        loss = values - 3
        both = actor(1) + critic(1)
        return loss, both
    """
)


def line_of(words):
    return next(at for at, line in enumerate(TEXT.splitlines(), 1) if words in line)


@pytest.fixture
def places(tmp_path, monkeypatch):
    path = str(tmp_path / "train.py")
    module = ModuleType("places_train")
    module.__file__ = path
    monkeypatch.setitem(sys.modules, "places_train", module)
    exec(compile(TEXT, path, "exec"), vars(module))
    attention = module.Attention
    modules = {
        "": object(),
        "blocks.0": attention(),
        "blocks.0.out": object(),
        "blocks.1": attention(),
        "critic": object(),
        "actor": object(),
    }
    return ModulePlaces(modules, {path: TEXT}), path


@pytest.mark.parametrize(
    ("words", "site"),
    [
        ("scores = x * 2", "blocks.0"),
        ("self.out(scores)", "blocks.0.out"),
        ("self.out = object()", "blocks.0.out"),
        ("def forward", "blocks.0"),
        ("return x + 1", ""),
        ("values = critic(1)", "critic"),
        ("loss = values - 3", "critic"),
        ("both = actor(1) + critic(1)", ""),
        ("def train", ""),
    ],
)
def test_a_line_belongs_to_the_module_of_its_class_or_to_the_one_that_it_uses(places, words, site):
    found, path = places
    assert found.site_of(path, line_of(words)) == site


def test_of_other_files_and_lines_nothing_is_known(places):
    found, path = places
    assert found.site_of("elsewhere.py", 1) == ""
    assert found.site_of(path, 1000) == ""


def test_a_broken_claim_about_a_text_names_the_module(tmp_path, monkeypatch):
    text = textwrap.dedent(
        """
        class Head:
            def forward(self, scores, mask):
                mask = mask * 1
                scores.masked_fill(mask, 0.0)
                return scores


        def train():
            found = Head()
            look(found)
        """
    )
    path = str(tmp_path / "told.py")
    module = ModuleType("told_train")
    module.__file__, module.found = path, []
    monkeypatch.setitem(sys.modules, "told_train", module)
    exec(compile(text, path, "exec"), vars(module))
    module.look = lambda head: module.found.extend(text_checks(path, {path: text}, {"net.head": head}))
    module.train()
    told = {result.check: result for result in module.found if result.outcome == "broken"}
    assert told["results_are_used"].where == "net.head"


def test_a_class_is_known_by_its_whole_name_and_every_class_where_no_modules_are(places):
    found, path = places
    assert found.has_class(path, "Attention")
    assert not found.has_class(path, "tention")
    assert not found.has_class("other.py", "Attention")
    assert ModulePlaces({}, {}).has_class(path, "Any")
