"""How many faults that only several ranks together show are found with rank and cause, and what healthy runs say.

    python -m benchmarks.ranks_divergence [--json] [--quick] [--seed N] [WORD ...]

Targets: 90 % detected, 85 % with the right rank and cause, every healthy run silent.
"""

import argparse
import json
from collections import defaultdict
from dataclasses import asdict

from .divergence.faults import FAULTS
from .divergence.kinds import KINDS
from .divergence.run import OF_RANKS, Result, run

DETECTED, RIGHT = 0.9, 0.85
#: One of each way to share the work, for a quick look.
QUICK = (
    "by-hand/step-skipped-once",
    "tensor-data/shards-not-reduced",
    "pipeline-data/weight-of-a-later-stage-flipped",
    "hybrid/replica-of-a-shard-flipped",
    "sequence/mean-for-sum",
    "tensor-data",
    "hybrid",
)


def main() -> None:
    """Run the faults and the healthy trainings, and print what was found."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("words", nargs="*", help="only those whose name contains one of these words")
    parser.add_argument("--json", action="store_true", help="print one JSON document")
    parser.add_argument("--quick", action="store_true", help=f"only {len(QUICK)} of them")
    parser.add_argument("--seed", type=int, default=0)
    asked = parser.parse_args()
    names = QUICK if asked.quick else (*FAULTS, *KINDS)
    chosen = [name for name in names if not asked.words or any(word in name for word in asked.words)]
    results: list[Result] = []
    for name in chosen:
        results.append(run(name, asked.seed))
        if not asked.json:
            print(_line(results[-1]), flush=True)
    document = {"seed": asked.seed, "summary": summary(results), "results": [asdict(result) for result in results]}
    print(json.dumps(document if asked.json else document["summary"], indent=2))


def summary(results: list[Result]) -> dict[str, object]:
    """Counts over all runs, and by kind."""
    broken = [result for result in results if not result.is_healthy]
    healthy = [result for result in results if result.is_healthy]
    kinds: dict[str, list[int]] = defaultdict(lambda: [0, 0, 0])
    for result in broken:
        counts = kinds[result.name.partition("/")[0]]
        for place, holds in enumerate((True, result.is_detected, result.is_right)):
            counts[place] += holds
    return {
        "faults": len(broken),
        "detected": sum(result.is_detected for result in broken),
        "right_rank_and_cause": sum(result.is_right for result in broken),
        "rank_itself_named": sum(result.is_named for result in broken),
        "target_detected": DETECTED,
        "target_right": RIGHT,
        "healthy": len(healthy),
        "healthy_with_an_alarm_about_ranks": [result.name for result in healthy if result.is_detected],
        "ended_by_an_error": [result.name for result in results if result.error],
        "by_kind_faults_detected_right": dict(kinds),
        "seconds": round(sum(result.seconds for result in results), 1),
    }


def _line(result: Result) -> str:
    spoken = [words for words in result.said if words.split()[0] in OF_RANKS or not result.is_healthy]
    if result.is_healthy:
        mark = "ALARM " if result.is_detected else "silent"
    else:
        mark = "right " if result.is_right else "found " if result.is_detected else "missed"
    return f"{mark} {result.name:50} {result.seconds:5.1f} s {result.error} {'; '.join(spoken)[:300]}"


if __name__ == "__main__":
    main()
