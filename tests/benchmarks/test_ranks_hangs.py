"""A sample of the campaign of hangs: real ranks over gloo, of which one sleeps, or sends what no other receives."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("torch", reason="PyTorch is not installed")
BENCHMARKS = Path(__file__).resolve().parents[2] / "benchmarks"


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
@pytest.mark.parametrize("cases", [["shape", "sleeping"], ["missing send, batch", "wrong tag"]], ids=" and ".join)
def test_hangs_of_two_ranks_are_reported_and_explained(cases: list[str]) -> None:
    command = [sys.executable, "ranks_hangs.py", "--json", "--ranks", "2", "--only", ";".join(cases)]
    done = subprocess.run(command, cwd=BENCHMARKS, capture_output=True, text=True, check=True, timeout=200)
    rows = json.loads(done.stdout)["results"]
    assert sorted(row["case"] for row in rows) == cases
    for row in rows:
        assert row["culprits"] == [1], row
        assert row["named_s"] is not None, row
        assert row["is_explained_afterwards"], row
        assert row["is_diagnosed_offline"], row
