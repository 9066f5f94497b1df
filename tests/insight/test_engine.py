"""The engine: tables from blocks, rules that fail, rules that could not run."""

from dataclasses import replace

import numpy as np
import pytest
from mindscope.insight import RULES, InvalidRule, Recording, UnknownRule, find_rule, rule
from mindscope.insight.context.subject_table import SubjectRows
from mindscope.insight.engine import Engine
from mindscope.storage import Block, Layout, StepRecord

STATISTICS = ("l2_norm", "nans", "pos_infs", "neg_infs")


def block(sites, values, calls=(), part=0, present=None):
    layout = Layout("activation", tuple(sites), STATISTICS, ("float64",) * 4, tuple(calls), part)
    return Block(layout, np.array([[value, 0, 0, 0] for value in values], dtype=float), present)


def test_parts_of_a_subject_become_one_table():
    rows = SubjectRows(block("ab", [1, 2]).layout)
    table = rows.table([block("ab", [1, 2]), block("cd", [3, 4], part=1)])
    assert rows.sites == ["a", "b", "c", "d"]
    assert table.column("l2_norm").tolist() == [1, 2, 3, 4]


def test_rows_keep_their_numbers_when_the_layout_changes():
    rows = SubjectRows(block("ab", [1, 2]).layout)
    rows.table([block("ab", [1, 2])])
    table = rows.table([block("ba", [2, 1])])
    assert table.column("l2_norm").tolist() == [1, 2]
    table = rows.table([block("c", [3])])
    assert table.present.tolist() == [False, False, True]


def test_calls_of_one_module_are_rows_of_their_own():
    rows = SubjectRows(block("aa", [1, 2], calls=(0, 1)).layout)
    assert rows.table([block("aa", [1, 2], calls=(0, 1))]).column("l2_norm").tolist() == [1, 2]


def test_a_block_that_is_the_whole_table_is_not_copied():
    part = block("ab", [1, 2])
    assert np.shares_memory(SubjectRows(part.layout).table([part]).values, part.values)


def broken(context, memory):
    raise ValueError("no such thing")


def test_a_rule_that_raises_is_switched_off_and_reported_once(caplog):
    rules = {"broken": replace(RULES["loss-spike"], name="broken", check=broken), "loss-spike": RULES["loss-spike"]}
    engine = Engine(rules)
    for record in Recording({"scalar/loss": (1.0, 2.0, 3.0)}).records():
        engine.observe(record)
    (found,) = engine.findings
    assert (found.cause, found.site, found.severity) == ("monitor_fault", "rule/broken", "warning")
    assert "no such thing" in found.explanation
    assert "no such thing" in engine.not_run()["broken"]
    assert caplog.text.count("switched off") == 1


def test_a_place_that_fails_several_rules_is_told_of_once_and_all_of_them_are_named(caplog):
    names = ("first", "second", "third")
    rules = {name: replace(RULES["loss-spike"], name=name, check=broken) for name in names}
    engine = Engine(rules)
    for record in Recording({"scalar/loss": (1.0, 2.0, 3.0)}).records():
        engine.observe(record)
    assert [found.site for found in engine.findings] == ["rule/first"]
    assert [name for name, reason in engine.not_run().items() if "no such thing" in reason] == [*names]
    assert caplog.text.count("switched off") == 1


def test_rules_that_saw_nothing_say_what_was_missing():
    engine = Engine(RULES)
    engine.observe(StepRecord(0, 0.0, scalars={"loss": 1.0}))
    reasons = engine.not_run()
    assert reasons["non-finite-activation"] == "activation was never recorded"
    assert "loss-scale-overflow" not in reasons  # a training without loss scaling has nothing to report
    assert reasons["loss-spike"] == "scalar/loss was recorded once, 20 are needed"
    assert "non-finite-loss" not in reasons


def test_a_rule_entered_twice_is_refused():
    spike = RULES["loss-spike"]
    enter = rule("loss-spike", needs=("record",), phase=0, fires_on=spike.fires_on, silent_on=spike.silent_on)
    with pytest.raises(InvalidRule, match="entered twice"):
        enter(spike.check)


def test_a_rule_without_an_example_is_refused():
    with pytest.raises(InvalidRule, match="lacks one of"):
        rule("bare", needs=("record",), phase=0, fires_on=(), silent_on=())(RULES["loss-spike"].check)


def test_the_former_names_of_triggers_and_skip_window_work_and_warn(monkeypatch):
    spike = RULES["loss-spike"]
    with pytest.warns(DeprecationWarning, match=r"triggers= and skip_window="):
        enter = rule(
            "former",
            needs=("record",),
            phase=0,
            fires_on=spike.fires_on,
            silent_on=spike.silent_on,
            asked_on=("event/odd",),
            rests=spike.check,
        )
    monkeypatch.setitem(RULES, "former", spike)  # which takes the entry back at the end
    del RULES["former"]
    enter(spike.check)
    assert (RULES["former"].triggers, RULES["former"].skip_window) == (("event/odd",), spike.check)


def test_an_unknown_rule_names_the_nearest():
    with pytest.raises(UnknownRule, match="did you mean 'vanishing-gradient'"):
        find_rule("vanishing-grad")
