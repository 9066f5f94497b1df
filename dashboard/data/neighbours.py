"""What stands around a tensor in the model: where its input comes from, who takes its output, what it holds."""

from dataclasses import dataclass

from ...storage import Structure
from .reader import Reader


@dataclass(frozen=True, slots=True)
class Neighbours:
    """Sites around one site.

    Args:
        before: Modules whose output it consumed.
        after: Modules that consumed its output.
        within: Its child modules and parameters, one level down.
        around: The module that holds it, None for the model itself.
    """

    before: tuple[str, ...] = ()
    after: tuple[str, ...] = ()
    within: tuple[str, ...] = ()
    around: str | None = None


def neighbours(reader: Reader, run: str, site: str) -> Neighbours:
    """The neighbours of a module or parameter; none of a site that the structure does not know."""
    structure = reader.structure(run)
    modules = {module.site: module for module in structure.modules}
    known = {*modules, *(parameter.site for parameter in structure.parameters)}
    if site not in known:
        return Neighbours()
    before = modules[site].inputs if site in modules else ()
    after = tuple(module.site for module in structure.modules if site in module.inputs)
    return Neighbours(before, after, _within(structure, site), _holder(site) if site else None)


def _within(structure: Structure, site: str) -> tuple[str, ...]:
    prefix = f"{site}." if site else ""
    names = [*(one.site for one in structure.modules), *(one.site for one in structure.parameters)]
    inside = (name for name in names if name.startswith(prefix) and name and "." not in name[len(prefix) :])
    return tuple(dict.fromkeys(inside))


def _holder(site: str) -> str:
    return site.rpartition(".")[0]
