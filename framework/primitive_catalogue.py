"""The catalogue page that lists every primitive; `python -m mindscope.framework.primitive_catalogue` writes it."""

from inspect import cleandoc, signature
from pathlib import Path

from . import nn, ops
from .primitive import PRIMITIVES, Primitive
from .vmap import BATCHING
from .vmap.array_rules import of_unknown_shape, one_by_one

_HEAD = f"""# Primitives

Made from the table of primitives, which {ops.__name__.rpartition(".")[2]}/ and {nn.__name__.rpartition(".")[2]}/ fill;
`python -m mindscope.framework.primitive_catalogue` writes it anew. Each has an evaluation, an inference of shapes and
dtypes, and a vector-Jacobian product made of primitives, proved beside each other by one contract suite.

`vmap`: "rule" for all samples at once, "one by one" where there is only a loop, "none" where the shape of a result
depends on its values.

| primitive | call | gradient | vmap | result |
|---|---|---|---|---|
"""

_INNER = """
## Made for the derivatives of others

These have no call of their own: the vector-Jacobian products of the primitives above are made of them.

"""


def primitives_page() -> str:
    """Return the page as Markdown: a table of those with a public call, and the names of the others."""
    public = [name for name in sorted(PRIMITIVES) if name in ops.__all__]
    inner = [f"`{name}`" for name in sorted(PRIMITIVES) if name not in ops.__all__]
    return _HEAD + "".join(_row(PRIMITIVES[name]) for name in public) + _INNER + ", ".join(inner) + ".\n"


def _row(primitive: Primitive) -> str:
    call = getattr(ops, primitive.name)
    arguments = ", ".join(signature(call).parameters)
    summary = cleandoc(call.__doc__ or "").partition("\n")[0].replace("|", "\\|")
    gradient = "any order" if primitive.is_differentiable else "none"
    how = _batching(primitive)
    return f"| {primitive.name} | `ops.{primitive.name}({arguments})` | {gradient} | {how} | {summary} |\n"


def _batching(primitive: Primitive) -> str:
    rule = BATCHING.get(primitive.name)  # element-wise functions and reductions need none of their own
    return "one by one" if rule is one_by_one else "none" if rule is of_unknown_shape else "rule"


if __name__ == "__main__":
    page = Path(__file__).parents[1] / "docs" / "catalogue" / "primitives.md"
    page.write_text(primitives_page(), encoding="utf-8")
