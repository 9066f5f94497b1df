"""All campaigns over several ranks, one after the other, as one document.

    python benchmarks/ranks.py [--json] [--quick] [--part NAME]...

hangs        hangs of two to eight processes: how soon they are told, and whether the culprit is named
stragglers   traces and real jobs with one slow rank, stage, operation or machine: who it is and what it costs
divergence   ranks that silently compute something else: found with rank and cause, healthy ones silent
streams      ranks that publish to a broker while collectors die, the server restarts and the network is cut
writers      64 processes that write to one PostgreSQL database, and how long its readers wait
wide         a simulated job of 4,096 ranks: its roll-up, the page Ranks, and how soon a slow rank is seen
"""

import argparse
import json
import subprocess
import sys
from pathlib import Path
from typing import Final

PARTS: Final = {
    "hangs": "ranks_hangs",
    "stragglers": "ranks_stragglers",
    "divergence": "ranks_divergence",
    "streams": "ranks_streams",
    "writers": "store_writers",
    "wide": "ranks_wide",
}


def main() -> None:
    """Run the parts that are asked for, each in a process of its own, and print what they print, or one document."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true", help="print one JSON document")
    parser.add_argument("--quick", action="store_true", help="a few cases of each")
    parser.add_argument("--part", action="append", choices=PARTS, help="only this one, may be repeated")
    asked = parser.parse_args()
    document, failed = {}, []
    for name in asked.part or PARTS:
        options = [option for option in ("json", "quick") if getattr(asked, option)]
        command = [sys.executable, "-m", f"benchmarks.{PARTS[name]}", *(f"--{option}" for option in options)]
        if not asked.json:
            print(f"# {name}", flush=True)
        done = subprocess.run(
            command,
            cwd=Path(__file__).parents[1],
            stdout=subprocess.PIPE if asked.json else None,
            text=True,
            check=False,
        )
        if done.returncode:
            failed.append(name)
        elif asked.json:
            document[name] = json.loads(done.stdout)
    if asked.json:
        print(json.dumps({"benchmark": "ranks", "parts": document, "failed": failed}, indent=1))
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
