"""What stands on the page of the profile, and what its address may say."""

from typing import Final

from ...address import Key
from ...spans import SPAN

RANK = Key("rank", pattern=r"\d{1,9}", example="3")
HIDDEN: Final = {"display": "none"}


class Id:
    """What stands on this page."""

    run: Final = "profile-run"
    keys: Final = "profile-keys"
    tick: Final = "profile-tick"
    version: Final = "profile-version"
    span: Final = "profile-span"
    rank: Final = "profile-rank"
    trace: Final = "profile-trace"
    note: Final = "profile-note"
    cards: Final = "profile-cards"
    split: Final = "profile-split"
    split_note: Final = "profile-split-note"
    advice: Final = "profile-advice"
    operators: Final = "profile-operators"
    operators_note: Final = "profile-operators-note"
    memory: Final = "profile-memory"
    memory_note: Final = "profile-memory-note"
    ranks: Final = "profile-ranks"


CONTROLS: Final = ((Id.span, "value", SPAN), (Id.rank, "value", RANK))
