"""The catalogue page that lists every attack; `python -m mindscope.armour.attack_catalogue` writes it."""

from dataclasses import fields
from inspect import cleandoc
from pathlib import Path

from . import attacks  # noqa: F401  fills the table of attacks
from .contract.attack import ATTACKS, Entry

_HEAD = """# Attacks

Made from the table of attacks by `python -m mindscope.armour.attack_catalogue`. Every candidate of a search is moved
into the budget, predicted again and measured again before it is reported.

| attack | norms | options | paper |
|---|---|---|---|
"""


def attacks_page() -> str:
    """Return the page as Markdown: a table, and the docstring of every attack."""
    entries = [ATTACKS[name] for name in sorted(ATTACKS)]
    rows = "".join(
        f"| [{entry.name}](#{entry.name}) | {', '.join(entry.norms)} | {_options(entry)} | {entry.reference} |\n"
        for entry in entries
    )
    sections = "".join(f"\n## {entry.name}\n\n{_text(entry)}\n" for entry in entries)
    return _HEAD + rows + sections


def _options(entry: Entry) -> str:
    own = [f"`{field.name}={field.default}`" for field in fields(entry.make) if field.name != "norm"]
    return ", ".join(own) or "none"


def _text(entry: Entry) -> str:
    """Return the docstring without the sections for readers of the code."""
    return cleandoc(entry.make.__doc__ or "").partition("\nArgs:")[0].partition("\nExample:")[0].strip()


if __name__ == "__main__":
    page = Path(__file__).parents[1] / "docs" / "catalogue" / "attacks.md"
    page.write_text(attacks_page(), encoding="utf-8")
