"""What may have no gradient by design: it is not called, a placeholder, a pooler, or the end of a chain of blocks."""

import re
from math import prod
from typing import Final

from ...storage import ParameterInfo
from ..context.step_context import StepContext
from ..context.subject_table import Table

#: The number of a block in a list, or of one among attributes such as `layer_3`.
_NUMBERED: Final = re.compile(r"((?:\w*_)?)(\d+)")


def question_about(context: StepContext, site: str, items: tuple[ParameterInfo, ...], table: Table) -> str:
    """Return what to ask of a part that gets no gradient, behind a semicolon; empty where nothing explains it.

    Args:
        site: The part.
        items: Its parameters.
        table: The gradients of the step.
    """
    if not _is_called(context, site):
        return "; the forward pass did not call it: is that meant?"
    if _is_placeholder(context, items):
        return "; no optimizer holds it beside another: is it a placeholder?"
    if _ends_a_chain(site, table):
        return "; it is the last of several alike, which nothing may follow: is its output meant to be used?"
    if _is_spare(context, site):
        return "; a pooler may be there for other uses of the model: is its output meant to be used?"
    return ""


def _is_called(context: StepContext, site: str) -> bool:
    """Return whether the first forward called the module, or one inside it; True where no call is known."""
    model = context.model
    orders = [model.order(name) for name in model.parameters if name == site or name.startswith(f"{site}.")]
    return model.last_layer < 0 or any(order >= 0 for order in orders)


def _ends_a_chain(site: str, table: Table) -> bool:
    """Return whether a part of the last block gets nothing, where the rest of it does, and that part of those before.

    So does what a block would hand on to the next one, such as the last backcast of N-BEATS (Oreshkin et al. 2020).
    """
    norms = table.column("l2_norm")
    given = {name for row, name in enumerate(table.rows.sites) if table.present[row] and norms[row] > 0}
    parts = site.split(".")
    for at, part in enumerate(parts[:-1]):
        if (numbered := _NUMBERED.fullmatch(part)) is None:
            continue
        name, number = numbered.groups()
        before, after = "".join(f"{one}." for one in parts[:at]), ".".join(parts[at + 1 :])
        blocks = [f"{before}{name}{one}." for one in range(int(number) + 2)]
        earlier, mine, later = blocks[:-2], blocks[-2], blocks[-1]
        alike = [any(name.startswith(f"{block}{after}") for name in given) for block in earlier]
        is_last = not any(name.startswith(later) for name in table.rows.sites)
        return is_last and any(alike) and any(name.startswith(mine) for name in given)
    return False


def _is_placeholder(context: StepContext, items: tuple[ParameterInfo, ...]) -> bool:
    """Return whether this is one value, of no optimizer that holds another, as where a class must have one."""
    numbers = {group[0] for item in context.model.parameters.values() if (group := item.group) and item not in items}
    own = {item.group[0] for item in items if item.group}
    return bool(numbers) == bool(own) and not own & numbers and sum(prod(item.shape) for item in items) == 1


def _is_spare(context: StepContext, site: str) -> bool:
    """Return whether the module is a pooler, which models of a library call whether its output is used or not."""
    kinds = {module.site: module.kind for module in context.model.structure.modules}
    return any(kinds.get(part, "").endswith("Pooler") for part in (site, site.rpartition(".")[0]))
