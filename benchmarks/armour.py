"""Robust accuracy of the default suites against the best attack known, over honest, masked, random and stateful models.

    python benchmarks/armour.py [--json] [--quick] [--only TEXT]

A model passes if the suite is at most .02 above the best attack known, says that it is not to be trusted, or refuses
the model; an honest model passes if it is within .02 and not accused, a random one if the lower end of its interval is
within .02. The best attack begins with models without the
mask, which an attacker who has read the code would write, and is judged on the model itself, by fresh draws.
"""

import argparse
import json
import os
import platform
import subprocess
import sys
import warnings
from collections.abc import Iterator
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from environment import FORCED, commit, machine
from rows import row_of
from threadpoolctl import threadpool_limits

_ABOVE = 0.02
_SAMPLES = {False: 100, True: 50}


def measured(quick: bool, only: str) -> Iterator[dict[str, Any]]:
    """Yield the rows of every model, as they come, and the counts over all of them."""
    sys.path.insert(0, str(Path(__file__).parents[1]))
    from benchmarks.armour.cases import CASES
    from benchmarks.armour.trial import trials

    passed: dict[str, list[bool]] = {}
    for case in CASES:
        if only not in case.name:
            continue
        for trial in trials(case, samples=_SAMPLES[quick], is_short=quick):
            row = row_of(case.name, f"{trial.suite}, above best", trial.above, "accuracy", _ABOVE, trial.passes(_ABOVE))
            passed.setdefault(trial.suite, []).append(trial.passes(_ABOVE))
            yield row | {"peers": {"best attack": trial.best}, "signs": list(trial.signs), "kind": case.kind}
    for suite, results in passed.items():
        missed = results.count(False)
        yield row_of(f"{len(results)} models", f"{suite}, overestimated or accused", missed, "models", 0, missed == 0)


def versions() -> dict[str, str]:
    """Return the versions of everything that takes part."""
    return {"python": platform.python_version(), "numpy": version("numpy"), "torch": version("torch")}


def main() -> int:
    """Print the rows, or one document of them."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true", help="print one JSON document")
    parser.add_argument("--quick", action="store_true", help="half of the samples and the quick suite alone")
    parser.add_argument("--only", default="", metavar="TEXT", help="models whose name contains this")
    options = parser.parse_args()
    if find_spec("torch") is None or find_spec("sklearn") is None:
        sys.stderr.write("the models need PyTorch and scikit-learn; pip install mindscope[torch,demo]\n")
        return 2
    if FORCED in os.environ:
        free = {name: value for name, value in os.environ.items() if name != FORCED}
        return subprocess.run([sys.executable, *sys.argv], env=free, check=False).returncode
    import torch

    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    results = []
    with threadpool_limits(1):
        for row in measured(options.quick, options.only):
            results.append(row)
            print(_line(row), file=sys.stderr if options.json else sys.stdout, flush=True)
    if options.json:
        document = {"benchmark": "armour", "machine": machine(), "commit": commit(), "versions": versions()}
        print(json.dumps(document | {"results": results, "missing": []}, indent=1))
    return 0


def _line(row: dict[str, Any]) -> str:
    value = "refused" if row["value"] is None else f"{row['value']:.3f}"
    signs = ", ".join(row.get("signs", ()))
    return f"{row['case']:40} {row['metric']:32} {value:>8} {'yes' if row['ok'] else 'NO':4}{signs}"


if __name__ == "__main__":
    raise SystemExit(main())
