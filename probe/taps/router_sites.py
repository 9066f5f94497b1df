"""Which modules are routers of experts, told by how a model is put together."""

from collections.abc import Iterator, Mapping
from typing import Any, Final

#: What a router is called inside the module that has it.
_ROUTERS: Final = ("router", "gate")
_EXPERTS: Final = "experts"
#: Attributes that say how many experts a token goes to; one where none does.
_TOP_K: Final = ("top_k", "num_experts_per_tok", "topk", "k")


def routers_in(modules: Mapping[str, Any]) -> Iterator[tuple[str, int]]:
    """Site of every router whose output is the logits of its experts, and how many of them a token goes to.

    That is a child `router` of a module with a number `top_k`, or a child whose name has router or gate in it, beside a
    list of `experts`, and whose weight has a row for each of them.
    """
    sizes: dict[str, int] = {}
    for site in modules:
        parent, _, name = site.rpartition(".")
        if name.isdigit() and parent.rpartition(".")[2] == _EXPERTS:
            whole = parent.rpartition(".")[0]
            sizes[whole] = sizes.get(whole, 0) + 1
    for site, module in modules.items():
        parent, _, name = site.rpartition(".")
        if not site or parent not in modules:
            continue
        top_k = _top_k_of(modules[parent])
        is_declared = name == "router" and isinstance(getattr(modules[parent], "top_k", None), int)
        if is_declared or _fits(module, name, sizes.get(parent, 0), top_k):
            yield site, top_k


def _top_k_of(module: Any) -> int:
    found = (getattr(module, name, None) for name in _TOP_K)
    return next((one for one in found if isinstance(one, int) and one > 0), 1)


def _fits(module: Any, name: str, experts: int, top_k: int) -> bool:
    if experts < 2 or not any(word in name for word in _ROUTERS):
        return False
    try:
        shape = tuple(getattr(getattr(module, "weight", None), "shape", ()))
    except RuntimeError:  # of a lazy layer
        return False
    return len(shape) == 2 and shape[0] == experts and top_k <= experts
