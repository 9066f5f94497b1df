"""Runs a script of this folder in two processes, as a launcher would start it."""

import os
import subprocess
import sys
from pathlib import Path


def run_in_ranks(script: str, folder: Path, *arguments: object, ranks: int = 2) -> None:
    """Waits for `script arguments` in every rank; an error shows what they said, and none is left behind."""
    folder.mkdir(parents=True, exist_ok=True)
    processes = [
        subprocess.Popen(
            [sys.executable, str(Path(__file__).with_name(script)), str(folder), *map(str, arguments)],
            env={**os.environ, "RANK": str(rank), "WORLD_SIZE": str(ranks), "LOCAL_RANK": str(rank)},
            stderr=subprocess.PIPE,
            text=True,
        )
        for rank in range(ranks)
    ]
    try:
        said = [process.communicate(timeout=240)[1] for process in processes]
    finally:
        for process in processes:
            process.kill()
    assert [process.returncode for process in processes] == [0] * ranks, "\n".join(said)
