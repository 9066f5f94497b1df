"""One run as one file."""

import re

import pytest
from mindscope.cli import main
from mindscope.dashboard.export import export_report
from mindscope.dashboard.export.html_report import report
from mindscope.dashboard.queries.reader import Reader
from mindscope.storage import open_store

from tests.dashboard.ranked import write_ranks
from tests.dashboard.recorded import BAD_SITE, Plan, write_run


@pytest.fixture(scope="module")
def document(recorded_store, bad_run):
    return report(Reader(recorded_store), bad_run)


def test_the_report_says_where_since_when_and_why(document):
    for words in ("Unhealthy", BAD_SITE, "Non-finite activation", "step 179", "What to do.", "gpt-nan"):
        assert words in document


def test_the_report_holds_the_pictures_and_the_evaluations(document):
    assert document.count("Plotly.newPlot(") - document.partition("<body>")[0].count("Plotly.newPlot(") >= 6
    assert "Layer × step" in document
    assert "gpt-nan under attack" in document


def test_the_report_loads_nothing_from_anywhere(document):
    head, _, body = document.partition("<body>")
    assert "src=" not in re.sub(r"<script>.*?</script>", "", head, flags=re.DOTALL)
    assert not re.findall(r'(?:src|href)="', body)
    assert re.search(r'url\("(?!data:)', re.sub(r"<script>.*?</script>", "", head, flags=re.DOTALL)) is None
    assert "default-src 'none'" in head


def test_the_file_is_named_after_its_run_and_below_ten_megabytes(recorded_store, bad_run, tmp_path):
    path = export_report(recorded_store, bad_run, tmp_path / "new" / "folder", scheme="dark")
    assert path.name == f"{bad_run.id}.html"
    assert path.stat().st_size < 10e6
    assert '<html lang="en" data-mantine-color-scheme="dark">' in path.read_text(encoding="utf-8")


def test_runs_with_hardly_anything_recorded_have_a_report():
    with open_store("memory:") as store:
        store.begin_run("empty <b>")
        write_run(store, "one-step", Plan(steps=1, goes_bad=False))
        write_ranks(store)
        for run in store.runs():
            written = report(Reader(store), run)
            assert "page-title" in written
            assert "<b>" not in written.partition("<title>")[2].partition("</title>")[0]


def test_the_command_writes_the_newest_run_and_prints_where(tmp_path, capsys):
    with open_store(str(tmp_path / "runs")) as store:
        first = write_run(store, "first", Plan(steps=3, goes_bad=False))
        last = write_run(store, "last", Plan(steps=3, goes_bad=False))
    call = ["dashboard", str(tmp_path / "runs"), "--export", str(tmp_path / "out")]
    assert main(call) == 0
    assert capsys.readouterr().out.strip() == str(tmp_path / "out" / f"{last.id}.html")
    assert main([*call, "--run", "first"]) == 0
    assert sorted(path.stem for path in (tmp_path / "out").iterdir()) == sorted([first.id, last.id])


def test_the_command_names_the_nearest_run(tmp_path, capsys):
    with open_store(str(tmp_path / "runs")) as store:
        write_run(store, "first", Plan(steps=3, goes_bad=False))
    call = ["dashboard", str(tmp_path / "runs"), "--export", str(tmp_path / "out"), "--run", "frist"]
    assert main(call) == 2
    assert "first" in capsys.readouterr().err
