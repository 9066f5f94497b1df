"""Do the data of a training and those of its evaluation give the same numbers to the same names?"""

from collections.abc import Iterator, Mapping
from typing import Final

from .check_result import CheckResult, broken, held
from .program_text.names import EVALUATION, TRAINING, words_of

NUMBERS: Final = "names_have_one_number"
_CLAIM = "words and classes have the same numbers in the data of the training and of the evaluation"
#: Words of lists of names that are numbered by their places; others hold files or captions.
_LISTS: Final = frozenset({"classes", "categories", "itos", "vocab", "vocabulary", "idx2word", "id2word", "id2label"})
#: Names that both must have, how deep an object is looked into, and entries that are compared. Our choice.
_SHARED, _DEEPEST, _MOST = 3, 4, 200_000
#: Share of the numbers from zero on that numbers of names fill; counts of words do not.
_FILLED: Final = 0.5


def names_have_one_number(variables: Mapping[str, object]) -> CheckResult | None:
    """Compare the numbers of names that pairs of objects hold of which one is called `train` and the other `test`.

    Both must be of one class, and hold a vocabulary, or an index of classes, under one name. Names in lists are
    numbered by their places.

    Args:
        variables: Of the program, by name.

    Returns:
        None where there are no such pairs.
    """
    result: CheckResult | None = None
    for name, twin in _twins(variables):
        mine, others = (dict(_numbers_in(variables[one], one)) for one in (name, twin))
        for where in mine.keys() & others.keys():
            numbers, other = mine[where], others[where]
            shared = numbers.keys() & other.keys()
            unlike = sorted(one for one in shared if numbers[one] != other[one])
            if len(shared) < _SHARED:
                continue
            if not unlike:
                result = result or held(NUMBERS, _CLAIM)
                continue
            first = unlike[0]
            words = (
                f"{first!r} is {numbers[first]} in {_path(name, where)} and {other[first]} in {_path(twin, where)}, "
                f"and so on for {len(unlike)} of {len(shared)} names that both have"
            )
            return broken(NUMBERS, _CLAIM, words, subject=twin, unlike=len(unlike), names=len(shared))
    return result


def is_of_a_split(name: str) -> bool:
    """Return whether the name of a variable says that it belongs to the training or to the evaluation."""
    return bool(words_of(name) & (TRAINING | EVALUATION))


def _path(name: str, where: str) -> str:
    return f"{name}.{where}" if where else name


def _twins(variables: Mapping[str, object]) -> Iterator[tuple[str, str]]:
    """Yield names that differ in one word only: that of the training, and that of the evaluation."""
    known: dict[tuple[frozenset[str], type], str] = {}
    for name, value in variables.items():
        words = words_of(name)
        if words & TRAINING and not words & EVALUATION:
            known[frozenset(words - TRAINING), type(value)] = name
    for name, value in variables.items():
        words = words_of(name)
        twin = known.get((frozenset(words - EVALUATION), type(value)))
        if twin is not None and words & EVALUATION and value is not variables[twin]:
            yield twin, name


def _numbers_in(value: object, name: str = "", where: str = "", depth: int = 0) -> Iterator[tuple[str, dict[str, int]]]:
    """Yield the vocabularies that an object of this name holds, by the attributes that lead there."""
    found = _numbers_of(value, where or name)
    if found is not None:
        yield where, found
        return
    held_here = getattr(value, "__dict__", None)
    if depth >= _DEEPEST or not isinstance(held_here, dict) or isinstance(value, type):
        return
    for inner, part in list(held_here.items()):
        yield from _numbers_in(part, name, f"{where}.{inner}" if where else inner, depth + 1)


def _numbers_of(value: object, name: str) -> dict[str, int] | None:
    """Return the number of each name: of a dictionary, or of a list of classes or words without repetitions."""
    if isinstance(value, list | tuple):
        if (
            not words_of(name.rpartition(".")[2]) & _LISTS
            or not _SHARED <= len(value) <= _MOST
            or not all(type(one) is str for one in value)
        ):
            return None
        return {name: at for at, name in enumerate(value)} if len(set(value)) == len(value) else None
    if not isinstance(value, dict) or not _SHARED <= len(value) <= _MOST:
        return None
    if not all(type(name) is str and type(number) is int for name, number in value.items()):
        return None
    numbers = set(value.values())
    is_numbering = len(numbers) == len(value) and min(numbers) >= 0 and max(numbers) * _FILLED < len(numbers) + 2
    return dict(value) if is_numbering else None
