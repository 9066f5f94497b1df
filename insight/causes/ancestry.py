"""Whether what one part of a model puts out reaches another: the way on which harm spreads."""

from collections.abc import Iterable

from ...storage import Structure


class Ancestry:
    """The data flow among the modules of the first forward, asked by site.

    A site is a module, a module with others inside, or a parameter; sites that were never called lead nowhere.

    Args:
        structure: As the probe recorded it; of one that knows no inputs nothing leads anywhere.
    """

    def __init__(self, structure: Structure) -> None:
        self._inputs = {module.site: module.inputs for module in structure.modules}
        self._ancestors: dict[str, frozenset[str]] = {}

    def leads_to(self, site: str, other: str) -> bool:
        """True when values flow from the first to the second and never back; False for the whole model, and for two
        sites of which one is inside the other."""
        ours, theirs = self._modules(site), self._modules(other)
        if not site or not other or ours & theirs:
            return False
        return self._reaches(ours, theirs) and not self._reaches(theirs, ours)

    def _reaches(self, ours: frozenset[str], theirs: Iterable[str]) -> bool:
        return any(ours & self._before(site) for site in theirs)

    def _modules(self, site: str) -> frozenset[str]:
        """The modules that the site stands for: itself and all inside, or the one that owns the parameter."""
        owner = site if site in self._inputs else site.rpartition(".")[0]
        inside = {name for name in self._inputs if name == owner or name.startswith(f"{owner}.")}
        return frozenset(inside) if owner else frozenset()

    def _before(self, site: str) -> frozenset[str]:
        """Every module from which values flow into this one."""
        if site not in self._ancestors:
            found: set[str] = set()
            waiting = list(self._inputs.get(site, ()))
            while waiting:
                source = waiting.pop()
                if source not in found:
                    found.add(source)
                    waiting += self._inputs.get(source, ())
            self._ancestors[site] = frozenset(found)
        return self._ancestors[site]
