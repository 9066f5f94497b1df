"""The table of runs: queries, columns of metrics and tags, and a long list that is read a few runs at a time."""

import pytest
from mindscope.dashboard.app import create_app
from mindscope.dashboard.pages.runs.run_rows import RunDetailsCache, run_table
from mindscope.dashboard.pages.runs.runs_page import columns_of
from mindscope.dashboard.queries.reader import Reader
from mindscope.insight.errors import WrongCondition
from mindscope.storage import StepRecord, open_store

from ..calling import call

LONG = 100.0


@pytest.fixture(scope="module")
def store():
    with open_store("memory:") as store:
        for name, rate, losses in (
            ("slow", 1e-5, [3.0, 2.5]),
            ("good", 1e-3, [3.0, 1.5]),
            ("nan", 1e-1, [3.0, float("nan")]),
        ):
            writer = store.begin_run(name, tags={"lr": rate})
            scalars = {"val/accuracy": 0.5} if name == "good" else {}
            writer.write([StepRecord(step, 0.0, scalars={"loss": loss, **scalars}) for step, loss in enumerate(losses)])
            writer.close()
        yield store


@pytest.fixture
def table(store):
    reader = Reader(store)
    cache = RunDetailsCache(reader)
    return lambda where="", fields=("loss",): run_table(cache, reader.runs(), where, fields, now=0.0, for_s=LONG)


def names(table):
    return [row["name"] for row in table.rows]


@pytest.mark.parametrize(
    ("where", "found"),
    [
        ("", ["nan", "good", "slow"]),
        ("loss < 2 and tags.lr > 1e-4", ["good"]),
        ("not loss < 2", ["nan", "slow"]),
        ("val/accuracy = 0.5", ["good"]),
        ("accuracy = 0.5 or name = slow", ["good", "slow"]),
        ("steps = 2, state = finished", ["nan", "good", "slow"]),
        ("elapsed > 1000", []),
    ],
)
def test_a_query_over_last_values_tags_and_the_state_selects_runs(table, where, found):
    assert names(table(where)) == found
    assert table(where).error == ""


def test_a_wrong_query_is_one_sentence_with_the_nearest_name(table):
    wrong = table("los < 2")
    assert (wrong.rows, wrong.error) == ([], "no run has a field 'los'; did you mean 'loss'?")
    with pytest.raises(WrongCondition, match="not a number"):
        table("loss < two")


def test_metrics_and_tags_are_columns_with_their_last_values(table):
    shown = table("", ["loss", "tags.lr", "accuracy"])
    assert shown.columns == ("loss", "tag.lr", "val/accuracy")
    cells = [[row[f"field.{name}"] for name in shown.columns] for row in shown.rows]
    assert cells == [["NaN", 1e-1, None], [1.5, 1e-3, 0.5], [2.5, 1e-5, None]]
    fields = [column["field"] for column in columns_of(shown.columns, "field.tag.lr.desc")]
    assert fields[fields.index("spark") + 1 :][:3] == ["field.loss", "field.tag.lr", "field.val/accuracy"]
    assert [column["field"] for column in columns_of(shown.columns, "field.tag.lr.desc") if "sort" in column] == [
        "field.tag.lr"
    ]


def test_a_store_without_losses_is_no_error():
    with open_store("memory:") as store:
        store.begin_run("empty").close()
        reader = Reader(store)
        assert run_table(RunDetailsCache(reader), reader.runs(), "", ["loss"], now=0.0, for_s=LONG).error == ""


def test_a_long_list_is_read_a_few_runs_at_a_time_and_shown_at_once(store):
    reader, times = Reader(store), iter(range(100))
    cache = RunDetailsCache(reader, clock=lambda: float(next(times)))
    assert run_table(cache, reader.runs(), "", ["loss"], now=0.0, for_s=0.0).left == 3
    seen = [run_table(cache, reader.runs(), "", ["loss"], now=0.0, for_s=1.0) for _ in range(3)]
    assert [shown.left for shown in seen] == [2, 1, 0]
    assert all(names(shown) == ["nan", "good", "slow"] for shown in seen)
    assert [row["worst"] for row in seen[0].rows][1:] == ["…", "…"]
    assert "…" not in [row["worst"] for row in seen[2].rows]


def test_a_run_that_has_not_changed_is_not_read_again(store):
    class Counting(Reader):
        reads = 0

        def version(self, run):
            self.reads += 1
            return super().version(run)

    reader = Counting(store)
    cache = RunDetailsCache(reader)
    first = run_table(cache, reader.runs(), "loss < 9", ["loss"], now=0.0, for_s=LONG)
    before = reader.reads
    assert run_table(cache, reader.runs(), "loss < 9", ["loss"], now=0.0, for_s=LONG) == first
    assert reader.reads == before


def test_the_first_run_of_an_empty_store_appears_without_a_reload():
    with open_store("memory:") as store:
        app = create_app(store)
        asked = {"overview-tick": 1, "overview-where": "", "overview-fields": ["loss"], "overview-grid": []}
        answer = call(app, "overview-grid.rowData", asked).get_json()["response"]
        assert answer["overview-body"]["style"] == {"display": "none"}
        store.begin_run("first").close()
        answer = call(create_app(store), "overview-grid.rowData", asked).get_json()["response"]
        assert [row["name"] for row in answer["overview-grid"]["rowData"]] == ["first"]
        assert (answer["overview-body"]["style"], answer["overview-nothing"]["style"]) == ({}, {"display": "none"})


def test_the_next_part_of_a_long_list_is_asked_for_when_this_one_has_come(store, monkeypatch):
    """Two questions at a time would drop the answer to the first."""
    monkeypatch.setattr("mindscope.dashboard.pages.runs.runs_page._FILLING_S", 1e-9)
    app = create_app(store)
    asked = {"overview-tick": 0, "overview-where": "", "overview-fields": ["loss"], "overview-grid": []}
    answers = [call(app, "overview-grid.rowData", asked).get_json()["response"] for _ in range(3)]
    assert [bool(answer["overview-filling"]["data"]) for answer in answers] == [True, True, False]
    assert [answer["overview-tick"]["interval"] for answer in answers] == [10_000, 10_000, 2000]
    assert [column["field"] for column in answers[0]["overview-grid"]["columnDefs"]].count("field.loss") == 1
