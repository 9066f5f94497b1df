"""Commands read the first rank of a run that has no rank 0, and name a rank that is not there."""

from collections.abc import Callable
from pathlib import Path

import pytest
from mindscope.storage import open_store

from tests.dashboard.late_ranks import write_late_ranks


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    with open_store(str(tmp_path / "runs")) as store:
        write_late_ranks(store, steps=190)
    return tmp_path / "runs"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ("show late", ("190 steps", "loss", "40 modules")),
        ("show late --json", ('"scalar/loss"', '"modules": 40')),
        ("diagnose late", ("decoder.2.mlp.act",)),
        ("diagnose late --watch", ("decoder.2.mlp.act, activation/nans",)),
        ("graph late", ("head", "step 189")),
        ("compare late late", ("rank 2  against  late rank 2",)),
        ("compare late late --ranks 2,3", ("rank 2  against  late rank 3",)),
        ("profile late", ("step",)),
        ("lineage", ("late",)),
    ],
)
def test_a_command_shows_the_run(command: Callable, folder: Path, arguments: str, words: tuple[str, ...]) -> None:
    more = ["activation/nans > 0"] * arguments.endswith("--watch")
    told = command(*arguments.split(), *more, "--store", folder)
    assert told.code in (0, 1), told.err
    assert [word for word in words if word not in told.out] == []


def test_a_rank_that_is_not_there_is_named_with_those_that_are(command: Callable, folder: Path) -> None:
    for arguments in (("graph", "late", "--rank", 0), ("compare", "late", "late", "--ranks", "0,0")):
        told = command(*arguments, "--store", folder)
        assert told.code not in (0, 1, 70)
        assert "has no rank 0" in told.err
        assert "2, 3" in told.err
