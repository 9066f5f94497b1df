"""How many trainings of public repositories are accused for their text: `python -m benchmarks.texts FOLDER [--json]`.

FOLDER holds checkouts, one folder each. Nothing of them is run, and nothing of theirs is part of this project. The
programs are taken for healthy; a statement about one may still be true of it, so all that is said is printed.
"""

import argparse
import json
import platform
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from mindscope.probe.checks.check_result import CheckResult
from mindscope.probe.checks.program_text.text_checks import results_of

from ..environment import commit, machine
from ..rows import at_most
from .training_programs import TrainingProgram, training_programs

#: Share of healthy programs that may be accused, percent.
_TARGET = 4.0


def accusations(program: TrainingProgram) -> Iterator[CheckResult]:
    """Yield what is said of a program's text, other than questions; branches count as if all were taken."""
    results = results_of(program.script, program.sources, {}, running=program.running)
    for one in results:
        is_asked = one.numbers.get("leftovers", 0.0) == one.numbers.get("values", -1.0)
        if one.outcome == "broken" and not is_asked:
            yield one


def judged(folder: Path) -> dict[str, Any]:
    """Return the shares of programs and repositories that are accused, and by which words."""
    told: dict[str, dict[str, list[str]]] = {}
    for checkout in sorted(one for one in folder.iterdir() if one.is_dir()):
        for program in training_programs(checkout):
            said = [f"{one.check}: {one.counterexample}" for one in accusations(program)]
            told.setdefault(checkout.name, {})[str(Path(program.script).relative_to(checkout))] = said
    programs = [said for of_one in told.values() for said in of_one.values()]
    repositories = [any(of_one.values()) for of_one in told.values()]
    rows = []
    for case, accused in (("programs", list(map(bool, programs))), ("repositories", repositories)):
        share = 100.0 * sum(accused) / max(len(accused), 1)
        rows.append(at_most(_TARGET, case, f"accused for its text, of {len(accused)}", share, "%"))
    words = {f"{name}/{script}": said for name, of_one in told.items() for script, said in of_one.items() if said}
    return {"results": rows, "repositories": sorted(told), "said": words}


def main() -> None:
    """Print how many are accused, and for what."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path, help="folder of checkouts")
    parser.add_argument("--json", action="store_true", help="print one JSON document")
    options = parser.parse_args()
    document = judged(options.folder)
    if options.json:
        head = {"benchmark": f"texts of public repositories, at {commit()}", "machine": machine()}
        json.dump({**head, "versions": {"python": platform.python_version()}, **document}, sys.stdout, indent=1)
        return
    for name, said in document["said"].items():
        print(name, *said, sep="\n    ")
    for row in document["results"]:
        print(f"{row['case']:14} {row['metric']:34} {row['value']:6.1f} %")


if __name__ == "__main__":
    main()
