"""Provenance of runs, conditions over it, and which parameters a result depends on."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from mindscope.insight.errors import UnknownField, WrongCondition
from mindscope.insight.lineage import (
    Provenance,
    correlation,
    differing_settings,
    importance,
    lineage,
    ordered,
    parse_condition,
    parse_query,
)
from mindscope.insight.lineage.importance import variance_share
from mindscope.storage import Event, OptimizerInfo, ParameterInfo, StepRecord, Structure, open_store
from scipy.stats import spearmanr


def write(store, name, losses, *, checksums=(1.0, 2.0), lr=0.1, **options):
    writer = store.begin_run(name, **options)
    writer.write_structure(
        Structure(
            parameters=(ParameterInfo("a.weight", (4, 8), "float32"),),
            optimizers=(OptimizerInfo("Adam", ({"lr": lr, "weight_decay": 0.0},)),),
        )
    )
    start = (Event("initial_checksum", 0, data={"checksum": "abc"}),)
    writer.write(
        [
            StepRecord(
                step,
                step,
                scalars={"loss": loss, "batch/checksum": checksums[step % len(checksums)], "step_seconds": 0.1},
                events=start if step == 0 else (),
            )
            for step, loss in enumerate(losses)
        ]
    )
    writer.close()


@pytest.fixture
def rows():
    with open_store("memory:") as store:
        host = {"git": {"commit": "c0ffee", "is_dirty": False}, "packages": {"torch": "2.9"}, "node": "n1"}
        write(store, "first", [3.0, 2.0, 1.0], tags={"lr": 0.1, "model": "mlp"}, host=host)
        write(
            store, "second", [3.0, 9.0, float("nan")], tags={"lr": 0.5, "model": "cnn"}, config={"dump": {"limit": 2}}
        )
        write(store, "third", [3.0, 1.0, 0.5], checksums=(1.0, 3.0), tags={"lr": 0.02}, lr=0.02)
        return lineage(store)


def test_a_row_tells_origin_and_results(rows):
    first = next(row for row in rows if row.fields["name"] == "first").fields
    assert (first["tag.lr"], first["git.commit"], first["package.torch"]) == (0.1, "c0ffee", "2.9")
    assert (first["machine.node"], first["state"], first["steps"]) == ("n1", "finished", 3)
    assert (first["optimizer"], first["optimizer.lr"], first["model.elements"]) == ("Adam", 0.1, 32)
    assert (first["result.loss"], first["result.loss.min"], first["result.loss.max"]) == (1.0, 1.0, 3.0)
    assert first["model.initial_checksum"] == "abc"
    assert not any(name.startswith(("result.batch", "result.step")) for name in first)


def test_what_a_script_was_called_with_is_a_setting_and_gives_way_to_what_came_of_it():
    with open_store("memory:") as store:
        for name, rate in (("slow", "0.1"), ("fast", "0.5")):
            host = {"arguments": ["--lr", rate, "--model", "mlp", "--quick"]}
            write(store, name, [1.0], lr=0.2, host=host)
        rows = lineage(store)
    assert (rows[0].fields["argument.lr"], rows[0].fields["argument.model"]) == (0.5, "mlp")
    assert differing_settings(rows) == ("argument.lr",)
    assert not any(name.startswith("machine.arguments") for name in rows[0].fields)
    assert [row.fields["name"] for row in parse_query("argument.lr > 0.2").select(rows)] == ["fast"]
    assert len(parse_query("lr = 0.2, quick = true").select(rows)) == 2


def test_equal_data_has_one_checksum_and_other_data_another(rows):
    by_name = {row.fields["name"]: row.fields["data.checksum"] for row in rows}
    assert by_name["first"] == by_name["second"] != by_name["third"]


def test_the_result_is_the_last_value_and_the_median_that_of_all_the_last_tenth():
    losses = [500 + 40 * (-1) ** step * (step % 7 == 0) - 0.01 * step for step in range(5000)]
    with open_store("memory:") as store:
        write(store, "long", losses)
        (row,) = lineage(store)
    assert row.number("result.loss") == losses[-1]
    assert row.number("result.loss.median") == pytest.approx(np.median(losses[-500:]), abs=0.05)


def test_what_a_checksum_explains_is_not_offered():
    rows = [
        Provenance(
            str(at),
            {"tag.lr": at % 2, "git.commit": f"c0ffee{at % 3}", "data.checksum": f"{at % 2:016x}", "result.loss": at},
        )
        for at in range(12)
    ]
    assert [found.field for found in importance(rows, "loss")] == ["tag.lr"]
    assert [found.field for found in importance(rows, "loss", fields=["git.commit"])] == ["git.commit"]


def test_a_nested_configuration_is_flat_and_a_loss_of_nan_stays_nan(rows):
    second = next(row for row in rows if row.fields["name"] == "second")
    assert second.fields["config.dump.limit"] == 2
    assert np.isnan(second.number("result.loss"))
    assert second.fields["result.loss.max"] == 9.0


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("tag.lr > 0.05", {"first", "second"}),
        ("lr<=0.1", {"first", "third"}),
        ("model = mlp", {"first"}),
        ("model != mlp", {"second"}),
        ("name ~ *r*", {"first", "third"}),
        ("result.loss < 100", {"first", "third"}),
        ("is_dirty = false", {"first"}),
        ("tag.lr == 5e-1", {"second"}),
    ],
)
def test_conditions_select_runs(rows, text, names):
    assert {row.fields["name"] for row in parse_query(text).select(rows)} == names


def test_sorting_puts_what_is_missing_or_nan_last_either_way(rows):
    for descending in (False, True):
        names = [row.fields["name"] for row in ordered(rows, "result.loss", descending=descending)]
        assert names[-1] == "second"
        assert names[:2] == (["first", "third"] if descending else ["third", "first"])


def test_wrong_conditions_and_fields_are_told_in_words(rows):
    with pytest.raises(WrongCondition, match="must read 'field operator value'"):
        parse_condition("lr")
    with pytest.raises(WrongCondition, match="not a number; use = or ~"):
        parse_condition("model > mlp")
    with pytest.raises(UnknownField, match="did you mean 'model'"):
        ordered(rows, "modle")
    with pytest.raises(UnknownField, match=r"is ambiguous; write one of .*result.loss.min"):
        ordered([Provenance("a", {"result.loss.min": 1, "result.x.min": 2})], "min")


def trials(count, rng):
    """Runs whose loss is a valley in log lr, falls with width, and knows nothing of the seed."""
    for number in range(count):
        lr, width = 10 ** rng.uniform(-4, 0), int(rng.integers(1, 9))
        loss = (np.log10(lr) + 2) ** 2 - 0.05 * width + 0.05 * rng.standard_normal()
        fields = {"tag.lr": lr, "tag.width": width, "tag.seed": number, "tag.kind": rng.choice(["a", "b"])}
        yield Provenance(str(number), {**fields, "tag.same": 1, "result.loss": float(loss)})


def test_the_parameter_that_matters_comes_first_even_where_its_effect_is_a_valley():
    found = {entry.field: entry for entry in importance(tuple(trials(120, np.random.default_rng(1))), "loss")}
    assert next(iter(found)) == "tag.lr"
    assert found["tag.lr"].share > 0.7 > abs(found["tag.lr"].correlation)
    assert found["tag.lr"].p_value == pytest.approx(1 / 500)
    assert found["tag.kind"].share < 0.1
    assert np.isnan(found["tag.kind"].correlation)
    assert "tag.same" not in found


def test_chance_is_seldom_called_important():
    alarms = 0
    for seed in range(40):
        rng = np.random.default_rng(seed)
        rows = [
            Provenance(str(i), {"tag.x": float(rng.random()), "result.loss": float(rng.random())}) for i in range(20)
        ]
        alarms += importance(rows, "loss")[0].p_value <= 0.05
    assert alarms <= 6  # 2 expected; more than 6 has a probability below one in a hundred


def test_too_few_runs_say_nothing():
    assert importance(tuple(trials(5, np.random.default_rng(0))), "loss") == ()


def test_the_share_of_variance_of_a_textbook_case():
    groups, y = np.array([0, 0, 1, 1, 2, 2]), np.array([1.0, 1.0, 2.0, 2.0, 6.0, 6.0])
    assert variance_share(groups, y) == 1.0
    assert variance_share(groups, np.array([1.0, 3.0] * 3)) == pytest.approx(1 - (6 / 3) / (6 / 5))
    assert np.isnan(variance_share(np.arange(6), y))


def test_the_share_of_variance_is_zero_on_average_without_an_effect():
    rng = np.random.default_rng(3)
    shares = [variance_share(rng.integers(0, 4, 30), rng.standard_normal(30)) for _ in range(400)]
    assert abs(np.mean(shares)) < 3 * np.std(shares) / 20


@given(st.lists(st.tuples(st.integers(-3, 3), st.integers(-3, 3)), min_size=3, max_size=30))
def test_the_correlation_of_ranks_is_scipys(pairs):
    x, y = np.array(pairs, dtype=float).T
    if len(set(x)) > 1 and len(set(y)) > 1:
        assert correlation(x, y) == pytest.approx(spearmanr(x, y).statistic, abs=1e-12)
    else:
        assert np.isnan(correlation(x, y))
