"""Patterns pick sites, and say so when they pick none."""

import pytest
import torch
from mindscope.framework import Key, nn
from mindscope.framework.optim import SGD
from mindscope.probe import Config, SiteNotFound, watch
from mindscope.probe.configuration.site_selection import choose_sites, select_sites
from mindscope.storage import open_store

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


IDLE = (
    ({"dump": {"sites": ["*", "haed"]}}, "dump.sites: pattern 'haed'", "head"),
    ({"flight_recorder": {"tensors": ["encodr.*"]}}, "flight_recorder.tensors: pattern 'encodr.*'", "encoder.1"),
    ({"expected_frozen": ["head.wieght"]}, "expected_frozen: pattern 'head.wieght'", "head.weight"),
    ({"routers": [{"sites": ["*"]}, {"sites": ["head", "haed"]}]}, "routers[1].sites: pattern 'haed'", "head"),
    ({"watchpoints": ["nan @ *", "weight/max @ hd.* > 1"]}, "watchpoints[1]: pattern 'hd.*'", "head"),
)


def _count(who: str) -> int:
    """Of the sites that it may match: a router is a module, never a parameter."""
    return len(MODULES) + (not who.startswith("routers"))


@pytest.mark.parametrize(("settings", "who", "near"), IDLE)
def test_every_pattern_that_matches_nothing_is_an_error_that_names_its_key(settings, who, near):
    with pytest.raises(SiteNotFound) as caught:
        choose_sites(MODULES, ["head.weight"], Config(**settings))
    assert str(caught.value) == f"{who} matches none of {_count(who)} sites; did you mean {near!r}?"
    choose_sites(MODULES, ["head.weight"], Config(**settings), is_late=True)


@pytest.mark.parametrize(("settings", "who", "near"), IDLE)
def test_among_several_processes_it_is_only_warned_of(settings, who, near, monkeypatch, caplog):
    monkeypatch.setenv("RANK", "0")
    monkeypatch.setenv("WORLD_SIZE", "2")
    assert choose_sites(MODULES, ["head.weight"], Config(**settings))[1] == ("head.weight",)
    (record,) = caplog.records
    words = f"{who} matches none of {_count(who)} sites; did you mean {near!r}?; it has no effect on this rank"
    assert record.getMessage().startswith(words)


def test_a_run_of_either_framework_does_not_begin_with_such_a_pattern():
    cell, module = nn.Dense(4, 2, key=Key(0)), torch.nn.Linear(4, 2)
    optimizers = SGD(cell.trainable_params(), 0.1), torch.optim.SGD(module.parameters(), 0.1)
    with open_store("memory:") as store:
        for model, optimizer in zip((cell, module), optimizers, strict=True):
            for settings, who, _ in IDLE:
                with pytest.raises(SiteNotFound) as caught:
                    watch(model, optimizer, store=store, config=settings)
                assert str(caught.value).startswith(who.partition("'")[0])
        assert not store.runs()


def test_under_way_only_what_can_change_is_looked_at():
    for settings, _, _ in IDLE[:-1]:
        choose_sites(MODULES, ["head.weight"], Config(**settings), is_under_way=True)
    with pytest.raises(SiteNotFound, match=r"^watchpoints\[1\]"):
        choose_sites(MODULES, ["head.weight"], Config(**IDLE[-1][0]), is_under_way=True)


def test_what_stands_at_sites_of_its_own_is_no_error():
    watchpoints = ["scalar/loss > 1", "communication/l2_norm @ all_reduce/dp > 1", "activation/max @ (model) > 1"]
    choose_sites(MODULES, [], Config(watchpoints=watchpoints, dump={"sites": ["head[[]1]"]}))


def test_where_nothing_is_near_some_sites_are_named():
    with pytest.raises(SiteNotFound, match=r"'xyz' matches none of 5 sites; there are .model., encoder, .* and more$"):
        select_sites(SITES, ["xyz"])


def test_modules_are_picked_by_the_class_and_by_the_depth():
    assert choose_sites(MODULES, [], Config(types=("Lin*",)))[0] == ("encoder.0", "encoder.1", "head")
    assert choose_sites(MODULES, [], Config(depth=1))[0] == ("", "encoder", "head")
    assert choose_sites(MODULES, ["head.w"], Config(depth=0)) == (("",), ("head.w",))
    with pytest.raises(SiteNotFound, match=r"'Linera' is none of this model's; did you mean 'Linear'.*: Linear, Model"):
        choose_sites(MODULES, [], Config(types=("Linera",)))
