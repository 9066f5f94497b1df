"""Attacks as a command line names them: `fgsm`, or with options `pgd:steps=100,restarts=2`."""

from collections.abc import Iterable
from dataclasses import fields, replace
from typing import Any, Final, get_type_hints

from pydantic import TypeAdapter, ValidationError

from ...storage import nearest
from ..distances import Norm
from ..errors import InvalidInput, UnknownAttack
from .attack import Attack, make_attack


def attacks_in(words: Iterable[str], norm: Norm = "linf") -> list[Attack]:
    """Return the attacks that the words name, in their order.

    Args:
        words: Names separated by commas, each followed by its options: `fgsm,pgd:steps=100,restarts=2,square`.

    Raises:
        UnknownAttack: No attack or option has the name, or the attack does not know the norm.
        InvalidInput: A value does not fit its option.
    """
    return [_with_options(make_attack(name, norm), pairs) for name, pairs in _calls(words)]


def _calls(words: Iterable[str]) -> list[tuple[str, list[str]]]:
    """Split the words into attacks and their `option=value` pairs: a pair without a colon continues the attack."""
    calls: list[tuple[str, list[str]]] = []
    for part in (part.strip() for word in words for part in word.split(",")):
        name, colon, pair = part.partition(":")
        if not colon and "=" in part and calls:
            calls[-1][1].append(part)
        elif part:
            calls.append((name.strip(), [pair.strip()] if colon else []))
    return calls


def _with_options(attack: Attack, pairs: list[str]) -> Attack:
    known = [field.name for field in fields(attack) if field.name != "norm"]
    found: dict[str, Any] = {}  # options are unlike one another
    for pair in pairs:
        option, equals, text = (part.strip() for part in pair.partition("="))
        if option == "norm":
            raise InvalidInput(f"{attack.name} takes the norm of the budgets, not one of its own; name it with --norm")
        if option not in known:
            names = f"its options are {', '.join(known)}" if known else "it has none"
            raise UnknownAttack(f"{attack.name} has no option {option!r}; {names}{nearest(option, known)}")
        if not equals or not text:
            raise InvalidInput(
                f"{attack.name} expects {option}=value, as in {option}={getattr(attack, option)}; got {pair!r}"
            )
        found[option] = _value(attack, option, text)
    return replace(attack, **found)


#: How pydantic's answers to a wrong value begin, and our word for what was expected.
_KINDS: Final = {"int": "a whole number", "float": "a number", "bool": "true or false"}


def _value(attack: Attack, option: str, text: str) -> object:
    """Convert the text to the type of the option; the attack itself checks the range."""
    if text.lower() == "none" and getattr(attack, option) is None:
        return None
    hint = get_type_hints(type(attack))[option]
    try:
        return TypeAdapter(hint).validate_python(text)
    except ValidationError as error:
        first = error.errors()[0]
        expected = _KINDS.get(first["type"].partition("_")[0], first["msg"].removeprefix("Input should be "))
        raise InvalidInput(f"{attack.name} expects {option} to be {expected}, got {text!r}") from None
