"""The store, the command line and the pages say the same of a run, whatever kind of recording it is."""

from collections.abc import Callable, Iterator

import pytest

pytest.importorskip("torch")

from mindscope.cli import main
from mindscope.dashboard.queries.reader import Reader
from mindscope.storage import Store, open_store

from .recordings import make
from .statements import Statement, all_said, differences

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
    said = all_said(recorded, Reader(recorded), recorded.find_run(name), command)
    assert differences(said) == {}


def test_a_difference_is_told_by_who_says_what() -> None:
    said = {"store": Statement(last="1"), "page": Statement(verdict="healthy", last="2"), "list": Statement("healthy")}
    assert differences(said) == {"last": {"store": "1", "page": "2"}}
