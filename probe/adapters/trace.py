"""The first forward, followed: in which order modules are called, and whose outputs each of them consumes."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from ...storage.run import ModuleInfo
from ..access.tensors import Access, Node, Tensor, tensors_in

_FARTHEST = 200
_MOST_KEPT = 20_000


class CallTrace:
    """Follows forwards until one of the whole model is complete, then takes its hooks off and lets go of every tensor.

    An input's origin is the module whose output it is, by identity, or by the graph of differentiation between them, so
    that `x + f(x)` has the origins of both. The tensors of this one forward are kept until it ends, so that none is
    confused with another at the same place.

    Args:
        register: Puts a forward hook `(module, inputs, output)` on a module and returns its handle.
    """

    def __init__(self, modules: Mapping[str, Any], access: Access, register: Callable[[Any, Any], Any]) -> None:
        self.is_complete = False
        self._modules, self._access = modules, access
        self._order: dict[str, int] = {}
        self._inputs: dict[str, tuple[str, ...]] = {}
        self._direct: dict[str, tuple[str, ...]] = {}
        self._leaves: dict[int, tuple[str, int]] = {}
        self._containers = {site.rpartition(".")[0] for site in modules if site}
        self._producers: dict[int, str] = {}
        self._nodes: dict[Node, str] = {}
        self._kept: list[Tensor] = []
        self._handles = [register(module, self._hook(site)) for site, module in modules.items()]

    def stop(self) -> None:
        """Takes the hooks off and lets go of every tensor."""
        for handle in self._handles:
            handle.remove()
        self._handles = []
        self._producers, self._nodes, self._kept, self._leaves = {}, {}, [], {}

    def finish(self) -> None:
        """Takes what has been seen for the order: a model that is only a list of parts is never called as a whole."""
        if self._order and not self.is_complete:
            self.is_complete = True
            self.stop()

    def modules(self, children: Callable[[Any], Iterable[Any]]) -> tuple[ModuleInfo, ...]:
        """The modules in order of their first completion, then those that were never called."""
        infos = [
            ModuleInfo(
                site,
                type(module).__name__,
                self._order.get(site, -1),
                self._inputs.get(site, ()),
                not any(True for _ in children(module)),
                self._direct.get(site, ()),
            )
            for site, module in self._modules.items()
        ]
        return tuple(sorted(infos, key=lambda info: (info.order < 0, info.order)))

    def _hook(self, site: str) -> Callable[[Any, Any, Any], None]:
        def after_forward(_module: Any, inputs: Any, output: Any) -> None:
            if site not in self._order:
                self._inputs[site] = tuple(dict.fromkeys(self._origins(inputs)))
                self._direct[site] = tuple(dict.fromkeys(self._givers(inputs)))
                self._order[site] = len(self._order)
            for _, tensor in tensors_in(output, self._access):
                self._kept.append(tensor)
                self._producers[id(tensor)] = site
                if site not in self._containers:
                    self._leaves[id(tensor)] = site, self._access.version(tensor)
                node = self._access.node(tensor)
                if node is not None:
                    self._nodes[node] = site
            if not site or len(self._kept) > _MOST_KEPT:
                self.is_complete = True
                self.stop()

        return after_forward

    def _origins(self, inputs: Any) -> Iterable[str]:
        for _, tensor in tensors_in(inputs, self._access):
            if id(tensor) in self._producers:
                yield self._producers[id(tensor)]
            else:
                yield from self._behind(self._access.node(tensor))

    def _givers(self, inputs: Any) -> Iterable[str]:
        """The innermost modules that gave these very tensors, if nothing has changed them in place since."""
        for _, tensor in tensors_in(inputs, self._access):
            giver, version = self._leaves.get(id(tensor), ("", -1))
            if giver and self._access.version(tensor) == version:
                yield giver

    def _behind(self, node: Node | None) -> list[str]:
        found: list[str] = []
        waiting = [] if node is None else [node]
        seen = set(waiting)
        while waiting and len(seen) < _FARTHEST:
            node = waiting.pop()
            if node in self._nodes:
                found.append(self._nodes[node])
                continue
            fresh = [one for one in self._access.before(node) if one not in seen]
            seen.update(fresh)
            waiting += fresh
        return found
