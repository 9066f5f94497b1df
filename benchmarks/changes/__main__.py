"""How often the change of a program names its cause, of the texts alone: `python -m benchmarks.changes [--json]`.

Two sets of programs with mistakes in them were written by people who had seen neither the rules nor each other's work,
and the strangers' faults are a third. No program is run: a diagnosis beside a good run needs other values as well.
"""

import argparse
import json
import platform
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from mindscope.insight.compare.changed_program import named_change

from ..environment import commit, machine
from ..rows import at_least
from ..strangers.cases import PROGRAMS, all_cases

_FOLDER: Final = Path(__file__).parent
#: Share of causes that are to be named, percent: that of a diagnosis beside a good run.
_TARGET: Final = 85.0


@dataclass(frozen=True, slots=True)
class Change:
    """A program, a mistake in it, and the word of docs/causes.md that fits best.

    Args:
        group: The set that it is of.
        good, other: Texts of the program, and of the program with the mistake.
    """

    group: str
    title: str
    cause: str
    good: str
    other: str


def all_changes() -> Iterator[Change]:
    """Yield the changes of both sets, then those of the strangers for which there is a word.

    Raises:
        ValueError: A program does not have a piece exactly once.
    """
    for variant in json.loads((_FOLDER / "variants.json").read_text(encoding="utf-8")):
        title = f"{variant['program']}/{variant['name']}"
        good = (_FOLDER / "programs" / f"{variant['program']}.py").read_text(encoding="utf-8")
        other = good
        for old, new in variant["edits"]:
            if good.count(old) != 1:
                raise ValueError(f"{title}: expected {old!r} once in {variant['program']}.py")
            other = other.replace(old, new)
        yield Change(f"{variant['set']} set", title, variant["cause"], good, other)
    for case in all_cases():
        if case.role == "fault" and case.cause:
            good = (PROGRAMS / f"{case.program}.py").read_text(encoding="utf-8")
            yield Change("strangers", case.title, case.cause, good, case.text)


def judged(only: str = "") -> dict[str, Any]:
    """Return the rates of each set, and what was named otherwise.

    Args:
        only: Name of one set; of all by default.
    """
    named = [(change, named_change({"": change.good}, {"": change.other})) for change in all_changes()]
    named = [(change, cause) for change, cause in named if only in ("", change.group)]
    rows = []
    for group in dict.fromkeys(change.group for change, _ in named):
        of_group = [(change.cause, cause) for change, cause in named if change.group == group]
        right = 100.0 * sum(one == two for one, two in of_group) / len(of_group)
        other = 100.0 * sum(two not in ("", one) for one, two in of_group) / len(of_group)
        rows.append(at_least(_TARGET, group, f"cause named, of {len(of_group)}", right, "%"))
        rows.append(at_least(None, group, "another cause named", other, "%"))
    misnamed = {change.title: [cause or "none", change.cause] for change, cause in named if cause != change.cause}
    return {"results": rows, "misnamed": misnamed}


def main() -> None:
    """Print how often the cause is named."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true", help="print one JSON document")
    parser.add_argument("--set", default="", help="only this set, such as 'second set'")
    options = parser.parse_args()
    document = judged(options.set)
    if options.json:
        head = {"benchmark": f"changes of a program, by their texts alone, at {commit()}", "machine": machine()}
        json.dump({**head, "versions": {"python": platform.python_version()}, **document}, sys.stdout, indent=1)
        return
    for row in document["results"]:
        print(f"{row['case']:12} {row['metric']:24} {row['value']:6.1f} %")


if __name__ == "__main__":
    main()
