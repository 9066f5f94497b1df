"""What a run takes on disk for each observation, and how long a point needs to reach a reader."""

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import mindscope
from mindscope.storage import open_store
from models import torch_model

_HERE = Path(__file__).resolve().parents[1]
#: Whether a reader polls often enough to tell a second from less.
_POLL_S = 0.02


def bytes_per_observation(model: str, steps: int) -> tuple[float, int]:
    """Bytes of the closed run's files for one tensor at one step, everything included; and how many there were."""
    with tempfile.TemporaryDirectory() as folder:
        module, optimizer, step = torch_model(model)
        seen = _Counting()
        monitor = mindscope.watch(module, optimizer, store=open_store(folder), listeners=(seen,))
        for _ in range(steps):
            step()
        monitor.close()
        size = sum(path.stat().st_size for path in Path(folder).rglob("*") if monitor.run.id in path.name)
    return size / seen.observations, seen.observations


class _Counting:
    """A listener that counts the rows of every record."""

    def __init__(self) -> None:
        self.observations = 0

    def begin(self, *_: Any) -> None:
        """Nothing to do."""

    def observe(self, record: Any) -> tuple[()]:
        """Nothing is found; the rows are counted."""
        for block in record.blocks:
            self.observations += len(block.values) if block.present is None else int(block.present.sum())
        return ()

    def end(self) -> tuple[()]:
        """Nothing is found."""
        return ()


def seconds_to_a_reader(model: str, seconds: float, pause_s: float) -> tuple[float, float]:
    """Median and largest time from the end of a step to the moment when another process can read its loss.

    Args:
        pause_s: That every step lasts longer, so that it is a step of a larger model.
    """
    with tempfile.TemporaryDirectory() as folder:
        module, optimizer, step = torch_model(model)
        monitor = mindscope.watch(module, optimizer, store=open_store(folder))
        step()
        monitor.flush()
        command = [sys.executable, "-m", "overhead.disk", folder, monitor.run.id, str(seconds)]
        ended: dict[int, float] = {}
        with tempfile.TemporaryFile("w+") as said:  # a pipe would hold the steps of a slow machine only
            reader = subprocess.Popen(command, cwd=_HERE, stdout=said)
            while reader.poll() is None:
                step()
                ended[monitor.step - 1] = time.time()
                time.sleep(pause_s)
            said.seek(0)
            seen = {int(number): at for number, at in json.load(said).items()}
        monitor.close()
    delays = [seen[number] - at for number, at in ended.items() if number in seen]
    return statistics.median(delays), max(delays)


def read(folder: str, run: str, seconds: float) -> dict[int, float]:
    """When each step of the run was first seen, by a reader that polls for so long."""
    seen: dict[int, float] = {}
    with open_store(folder) as store:
        until = time.time() + seconds
        last = -1
        while time.time() < until:
            found = store.series(run, "", "scalar/loss", first=last + 1)
            now = time.time()
            fresh = [int(number) for number in found.steps if number > last]
            if last >= 0:  # what was there before the first look was not seen to come
                seen.update(dict.fromkeys(fresh, now))
            last = max([last, *fresh])
            time.sleep(_POLL_S)
    return seen


if __name__ == "__main__":
    json.dump(read(sys.argv[1], sys.argv[2], float(sys.argv[3])), sys.stdout)
    sys.stdout.flush()
    os._exit(0)
