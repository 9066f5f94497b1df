"""Expressions of a program that do the opposite of what their names say, as its text shows.

Names that programmers choose tell what a value is, and a swapped operand can be seen from them (Pradel and Sen 2018,
"DeepBugs", arXiv:1805.11683).
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from ..check_result import CheckResult, broken, held
from .formulas import (
    aliases,
    arguments,
    averages,
    data,
    derivatives,
    distances,
    exploration,
    generative,
    groups,
    likelihoods,
    measures,
    mixing,
    network,
    overlaps,
    pairs,
    passes,
    policy,
    positions,
    precision,
    preparation,
    quantiles,
    randomness,
    recognition,
    replay,
    sampling,
    schedules,
    scores,
    selection,
    snapshots,
    splits,
    survival,
    together,
    training,
)
from .formulas.pattern import Sort
from .module_places import NOWHERE, ModulePlaces
from .trees import trees_of

SIGNS, FORMULAS = "losses_fit_their_names", "values_fit_their_names"
FROZEN, PREPARED = "pretrained_values_are_trained", "splits_are_prepared_alike"
SHARED, APART = "modules_of_a_list_differ", "what_is_known_and_what_is_asked_are_apart"
_CLAIMS: Final[Mapping[str, tuple[Sort, str]]] = {
    SIGNS: ("sign", "the program's losses lower what their names call bad, and raise what they call good"),
    FROZEN: ("frozen", "embeddings that are made from pretrained values, and frozen by that, get no random ones"),
    PREPARED: ("shift", "the data of an evaluation are prepared with what was fitted to those of the training"),
    APART: ("leak", "what a training is judged by, or is to predict, is no part of what it is given"),
    SHARED: ("shared", "the modules of a list have weights of their own each"),
    FORMULAS: ("formula", "the program computes what it names by the formula of that name"),
}
_MOST_TOLD: Final = 3
_FIELDS: Final = (
    aliases, policy, generative, network, training, averages, derivatives, survival, recognition, data, arguments,
    passes, scores, splits, quantiles, selection, pairs, snapshots, overlaps, likelihoods, measures, positions,
    sampling, mixing, distances, groups, replay, preparation, schedules, exploration,
    randomness, together, precision,
)  # fmt: skip
_PATTERNS: Final = tuple(pattern for field in _FIELDS for pattern in field.PATTERNS)


@dataclass(frozen=True, slots=True)
class Contradiction:
    """An expression that does not fit its names.

    Args:
        words: What it does, and what its names ask for.
        file, line: Where it stands.
    """

    sort: Sort
    words: str
    file: str
    line: int

    @property
    def place(self) -> str:
        """File and line."""
        return f"{Path(self.file).name}:{self.line}"


def expressions_fit_their_names(sources: Mapping[str, str], places: ModulePlaces = NOWHERE) -> Iterator[CheckResult]:
    """Yield, of losses and of other values, whether their expressions fit their names."""
    found = contradictions(sources)
    for check, (sort, claim) in _CLAIMS.items():
        mine = [one for one in found if one.sort == sort]
        words = "; ".join(f"{one.place}: {one.words}" for one in mine[:_MOST_TOLD])
        if mine:
            where = places.site_of(mine[0].file, mine[0].line)
            yield broken(check, claim, words, subject=mine[0].place).at(where)
        else:
            yield held(check, claim)


def contradictions(sources: Mapping[str, str]) -> list[Contradiction]:
    """Return the expressions of a program that contradict their names.

    Args:
        sources: The texts of the program's own files, by path; a text that cannot be parsed is left out.
    """
    found: list[Contradiction] = []
    for path, tree in trees_of(sources).items():
        for pattern in _PATTERNS:
            found += [Contradiction(sort, words, path, line) for sort, words, line in pattern(tree)]
    return sorted(found, key=lambda one: (one.file, one.line))
