"""`mindscope armour attacks`: the catalogue."""

from ..options import JsonOption
from ..output import add_row, console, print_json, table


def attacks(as_document: JsonOption = False) -> int:
    """List the attacks, the norms they know, what they ask of a model and the papers they come from."""
    from ...armour import ATTACKS

    entries = [ATTACKS[name] for name in sorted(ATTACKS)]
    if as_document:
        names = ("name", "norms", "asks", "summary", "reference")
        facts = [(entry.name, entry.norms, entry.asks, _summary(entry.make), entry.reference) for entry in entries]
        print_json({"attacks": [dict(zip(names, fact, strict=True)) for fact in facts]})
        return 0
    listing = table("", "name", "norms", "asks for", "what it does", "paper")
    for entry in entries:
        add_row(listing, entry.name, " ".join(entry.norms), entry.asks, _summary(entry.make), entry.reference)
    console().print(listing)
    return 0


def _summary(attack: type) -> str:
    return (attack.__doc__ or "").partition("\n")[0]
