"""Patterns pick sites, and say so when they pick none."""

import pytest
from mindscope.probe import Config, SiteNotFound
from mindscope.probe.configuration.select import choose_sites, select_sites

SITES = ("", "encoder", "encoder.0", "encoder.1", "head")


class Linear:
    """Stands for a layer."""


class Model:
    """Stands for what has layers."""


MODULES = {"": Model(), "encoder": Model(), "encoder.0": Linear(), "encoder.1": Linear(), "head": Linear()}


@pytest.mark.parametrize(
    ("patterns", "expected"),
    [
        (["*"], SITES),
        (["encoder.*"], ("encoder.0", "encoder.1")),
        (["head", "(model)"], ("", "head")),
        (["*.[01]"], ("encoder.0", "encoder.1")),
    ],
)
def test_patterns_pick_in_the_order_of_the_sites(patterns, expected):
    assert select_sites(SITES, patterns) == expected


def test_a_pattern_that_matches_nothing_names_the_nearest_site():
    with pytest.raises(SiteNotFound, match=r"'encodr\.0' matches none of 5 sites; did you mean 'encoder\.0'"):
        select_sites(SITES, ["encodr.0"])


def test_exclusions_may_speak_of_modules_or_parameters_and_must_match_one():
    modules, parameters = choose_sites(MODULES, ["head.weight", "head.bias"], Config(exclude=("*.bias", "encoder*")))
    assert modules == ("", "head")
    assert parameters == ("head.weight",)
    with pytest.raises(SiteNotFound, match=r"did you mean 'head\.bias'"):
        choose_sites(MODULES, ["head.weight", "head.bias"], Config(exclude=("head.bais",)))


def test_excluding_everything_is_an_error():
    with pytest.raises(SiteNotFound, match="leave no site"):
        choose_sites(MODULES, ["head.weight"], Config(exclude=("*",)))


def test_modules_are_picked_by_the_class_and_by_the_depth():
    assert choose_sites(MODULES, [], Config(types=("Lin*",)))[0] == ("encoder.0", "encoder.1", "head")
    assert choose_sites(MODULES, [], Config(depth=1))[0] == ("", "encoder", "head")
    assert choose_sites(MODULES, ["head.w"], Config(depth=0)) == (("",), ("head.w",))
    with pytest.raises(SiteNotFound, match=r"'Linera' is none of this model's; did you mean 'Linear'.*: Linear, Model"):
        choose_sites(MODULES, [], Config(types=("Linera",)))
