"""Our attacks against those of Foolbox, ART and torchattacks: how fast they are and how far they get.

    python benchmarks/attacks.py [--json] [--quick] [--only speed|strength|pairs]

Nothing is trained: three networks for 8 x 8 digits stand beside the code. Every call takes turns with those of the
other libraries in one process, on one thread, and is measured in processor time; a ratio is the median over rounds of
the fastest library's time to ours, through PyTorch and through our engine. `pairs` runs every attack in every norm,
with AutoAttack beside the others where it is installed (github.com/fra31/auto-attack). The others come with `bench`.
"""

import argparse
import json
import platform
import sys
import warnings
from collections.abc import Iterator
from importlib.metadata import version
from importlib.util import find_spec
from typing import Any

from attacks.libraries import PACKAGES, missing
from attacks.pairs import pair_rows
from attacks.speed import QUICK, RACES, race_rows
from attacks.strength import strength_rows
from environment import machine
from threadpoolctl import threadpool_limits


def measured(only: str | None, quick: bool) -> Iterator[dict[str, Any]]:
    """All rows, as they come."""
    if only in (None, "speed"):
        yield from race_rows(QUICK if quick else RACES)
    if only in (None, "pairs"):
        yield from pair_rows("plain", 2 if quick else 5, "fgsm" if quick else "")
    if only in (None, "strength"):
        yield from strength_rows(quick)


def versions() -> dict[str, str]:
    """Of everything that takes part."""
    found = {"python": platform.python_version()}
    absent = missing()
    packages = ["numpy", "torch", *(package for name, package in PACKAGES.items() if name not in absent)]
    return found | {package: version(package) for package in packages}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true", help="print one JSON document")
    parser.add_argument("--quick", action="store_true", help="under a minute, for checks")
    parser.add_argument("--only", choices=("speed", "strength", "pairs"), help="one part")
    options = parser.parse_args()
    if find_spec("torch") is None:
        sys.stderr.write("attacks are compared through PyTorch, which is not installed; pip install mindscope[torch]\n")
        return 2
    import torch

    torch.set_num_threads(1)
    warnings.simplefilter("ignore")  # the libraries' own
    results = []
    with threadpool_limits(1):
        for row in measured(options.only, options.quick):
            results.append(row)
            met = {True: "yes", False: "NO", None: ""}[row["ok"]]
            target = "" if row["target"] is None else f"{row['target']:g}"
            line = f"{row['case']:64} {row['metric']:24} {row['value']:10.4g} {target:8} {met}"
            print(line, file=sys.stderr if options.json else sys.stdout, flush=True)
    if options.json:
        document = {"benchmark": "attacks", "machine": machine(), "versions": versions(), "results": results}
        print(json.dumps(document | {"missing": [f"{name}: {why}" for name, why in missing().items()]}, indent=1))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
