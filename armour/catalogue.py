"""The page of the catalogue that lists every attack; `python -m mindscope.armour.catalogue` writes it anew."""

from dataclasses import fields
from inspect import cleandoc
from pathlib import Path

from . import attacks  # noqa: F401  fills the table of attacks
from .contract.registry import ATTACKS, Entry

_HEAD = """# Attacks

Made from the table of attacks; `python -m mindscope.armour.catalogue` writes it anew. Whatever an attack's search finds
is moved into the budget, predicted again and measured again before it is reported.

| attack | norms | options | paper |
|---|---|---|---|
"""


def attacks_page() -> str:
    """The page as Markdown: a table, and the docstring of every attack."""
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
    """The docstring without its sections, which speak to those who read code."""
    return cleandoc(entry.make.__doc__ or "").partition("\nArgs:")[0].partition("\nExample:")[0].strip()


if __name__ == "__main__":
    page = Path(__file__).parents[1] / "docs" / "catalogue" / "attacks.md"
    page.write_text(attacks_page(), encoding="utf-8")
