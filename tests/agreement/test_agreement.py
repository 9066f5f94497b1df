"""The store, the command line and the pages say the same of a run, whatever kind of recording it is."""

from collections.abc import Callable, Iterator

import pytest

pytest.importorskip("torch")

from mindscope.cli import main
from mindscope.dashboard.queries.reader import Reader
from mindscope.storage import Store, open_store

from .recordings import make
from .statements import by_diagnose, by_page, by_report, by_row, by_runs, by_show, by_store, differences

SAMPLE = (
    "three steps",
    "muted finding",
    "error",
    "two learners",
    "csv, diverges",
    "written, thousands",
    "written, killed",
    "empty, ended",
    "failed before its first step",
)


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    folder = tmp_path_factory.mktemp("agreement")
    make(SAMPLE, folder)
    with open_store(str(folder)) as store:
        yield store


@pytest.fixture
def command(capsys: pytest.CaptureFixture[str]) -> Callable[..., str]:
    def call(*arguments: str) -> str:
        main([*arguments])
        return capsys.readouterr().out

    return call


@pytest.mark.parametrize("name", SAMPLE)
def test_store_command_line_and_pages_say_the_same(name: str, recorded: Store, command: Callable[..., str]) -> None:
    run, reader = recorded.find_run(name), Reader(recorded)
    said = {
        "store": by_store(recorded, run),
        "diagnose": by_diagnose(command, recorded.url, run),
        "show": by_show(command, recorded.url, run),
        "runs": by_runs(command, recorded.url, run),
        "list": by_row(reader, run),
        "page": by_page(reader, run),
        "report": by_report(reader, run),
    }
    assert differences(said) == {}
