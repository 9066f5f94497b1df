"""Patterns pick sites, and say so when they pick none."""

import pytest
from mindscope.probe import Config, SiteNotFound
from mindscope.probe.select import choose_sites, select_sites

SITES = ("", "encoder", "encoder.0", "encoder.1", "head")


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
    modules, parameters = choose_sites(SITES, ["head.weight", "head.bias"], Config(exclude=("*.bias", "encoder*")))
    assert modules == ("", "head")
    assert parameters == ("head.weight",)
    with pytest.raises(SiteNotFound, match=r"did you mean 'head\.bias'"):
        choose_sites(SITES, ["head.weight", "head.bias"], Config(exclude=("head.bais",)))


def test_excluding_everything_is_an_error():
    with pytest.raises(SiteNotFound, match="leave no site"):
        choose_sites(SITES, ["head.weight"], Config(exclude=("*",)))
