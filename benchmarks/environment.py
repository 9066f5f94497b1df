"""What a benchmark ran on, and the same benchmark once more where the environment forces a slower BLAS kernel."""

import json
import os
import platform
import subprocess
import sys
from pathlib import Path
from typing import Any

import mindscope
from threadpoolctl import threadpool_info

#: Set, it makes OpenBLAS use the kernels of an older processor; some machines export it.
FORCED = "OPENBLAS_CORETYPE"


def machine() -> dict[str, Any]:
    """Processor, cores, and the BLAS of NumPy with its kernel and threads, for the document's `machine`."""
    blas = [
        f"{pool['internal_api']} {pool['version']} {pool.get('architecture', '')} with {pool['num_threads']} threads"
        for pool in threadpool_info()
        if pool["user_api"] == "blas" and "numpy" in pool["filepath"]
    ]
    return {
        "processor": _processor(),
        "cores": os.cpu_count(),
        "blas": ", ".join(blas) or "unknown",
        FORCED: os.environ.get(FORCED, "unset"),
    }


def commit() -> str:
    """Return the commit of the monitor that was measured, `unknown` outside a checkout."""
    place = Path(mindscope.__file__).parent
    command = ["git", "-C", str(place), "rev-parse", "--short=8", "HEAD"]
    return subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip() or "unknown"


def again_with_free_blas() -> list[dict[str, Any]]:
    """The results of this very call in a child process whose BLAS may choose its kernels; none if it may already."""
    if FORCED not in os.environ:
        return []
    free = {name: value for name, value in os.environ.items() if name != FORCED}
    command = [sys.executable, *sys.argv, *([] if "--json" in sys.argv else ["--json"])]
    done = subprocess.run(command, env=free, capture_output=True, text=True, check=False)
    rows: list[dict[str, Any]] = json.loads(done.stdout)["results"]
    return [row | {"case": f"{row['case']}, BLAS free"} for row in rows]


def _processor() -> str:
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as file:
            names = [line.partition(":")[2].strip() for line in file if line.startswith("model name")]
    except OSError:
        names = []
    return names[0] if names else platform.processor() or platform.machine()
