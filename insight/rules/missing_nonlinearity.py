"""Linear layers in sequence with no activation between them."""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from ...storage import Finding, ModuleInfo, Structure, display_site
from ..context.model_index import ModelIndex
from ..context.step_context import StepContext
from ..recording import Recording, chain
from ..rule import CONFIGURATION, NEW_STRUCTURE, rule

_LINEAR = ("linear", "dense", "conv1d", "conv2d", "conv3d")
#: Modules that are linear in evaluation, so that they do not separate two linear layers.
_TRANSPARENT = ("dropout", "dropout1d", "dropout2d", "dropout3d", "identity", "flatten")


def _linked(structure: Structure) -> Structure:
    """Return the structure with every module given the unchanged output of the one before."""
    return replace(structure, modules=tuple(replace(module, direct=module.inputs) for module in structure.modules))


def _bottleneck() -> Structure:
    narrow = _linked(chain("one:Linear", "two:Linear"))
    shapes = {"one.weight": (2, 8), "two.weight": (8, 2)}
    return replace(
        narrow, parameters=tuple(replace(parameter, shape=shapes[parameter.site]) for parameter in narrow.parameters)
    )


def _branching(structure: Structure) -> Structure:
    """Return the structure with the last module also taking the first module's output."""
    *others, last = [module for module in structure.modules if module.is_leaf]
    return replace(structure, modules=(*others, replace(last, inputs=(others[0].site, *last.inputs))))


@dataclass(slots=True)
class _MissingNonlinearityState:
    """The checked structure, and which layers were reported."""

    checked: ModelIndex | None = None
    reported: set[str] = field(default_factory=set)


@rule(
    "missing-nonlinearity",
    needs=("structure",),
    triggers=(NEW_STRUCTURE,),
    phase=CONFIGURATION,
    memory=_MissingNonlinearityState,
    is_fact=True,
    fires_on=(
        Recording(structure=_linked(chain("one:Linear", "two:Linear", "three:ReLU"))),
        Recording(structure=_linked(chain("one:Dense", "drop:Dropout", "two:Dense"))),
    ),
    silent_on=(
        Recording(structure=_linked(chain("one:Linear", "act:ReLU", "two:Linear"))),
        # a function between them, which is no module
        Recording(structure=chain("one:Linear", "two:Linear")),
        # a factorisation: the first makes it narrower than both ends
        Recording(structure=_bottleneck()),
        Recording(structure=_linked(chain("one:Embedding", "two:Linear"))),
        # the stem of a residual network: what it gives is taken by others as well
        Recording(structure=_branching(_linked(chain("stem:Linear", "one:Linear", "act:ReLU", "two:Linear")))),
    ),
)
def check(context: StepContext, memory: _MissingNonlinearityState) -> Iterator[Finding]:
    """Report two linear layers in a row with nothing between them.

    The rule fires when a linear layer or a convolution gets exactly the tensor that another one returned: both together
    are one linear map. Any function between them, module or not, makes a new tensor.

    Some pairs are built on purpose and left out: a first layer narrower than both ends (a factorisation), a convolution
    by groups followed by another (a separable one), and a layer whose output others take as well, such as the stem of a
    residual network. If each of the two stands in a network of its own with further layers, such as an encoder and a
    head, it is a notice. Put the missing activation between them, or drop one.
    """
    model = context.model
    if memory.checked is model:
        return
    memory.checked = model
    for module in model.structure.modules:
        if module.kind.lower() not in _LINEAR or module.site in memory.reported:
            continue
        source = next((site for site in _sources(model, module) if not _is_on_purpose(model, site, module.site)), None)
        if source is None:
            continue
        memory.reported.add(module.site)
        first, second = _shape(model, source), _shape(model, module.site)
        yield context.finding(
            module.site,
            "",
            {"inner": first[0], "outer": second[0], "inner_inputs": first[1]},
            severity="info" if _are_networks(model, source, module.site) else "warning",
            explanation=f"{display_site(module.site)} takes the output of {display_site(source)} unchanged; two "
            "linear maps in a row are one, so the second can learn nothing that the first could not",
            advice="put the missing activation between them, or remove one of them",
        )


def _sources(model: ModelIndex, module: ModuleInfo) -> Iterator[str]:
    """Linear layers whose output reaches the module unchanged, or through what is linear itself."""
    waiting, seen = list(module.direct), set(module.direct)
    while waiting:
        site = waiting.pop()
        kind = model.kind(site)
        if kind in _LINEAR:
            yield site
        elif kind in _TRANSPARENT:
            fresh = [earlier for earlier in model.modules[site].direct if earlier not in seen]
            seen.update(fresh)
            waiting += fresh


def _is_on_purpose(model: ModelIndex, first: str, second: str) -> bool:
    """Return True for a factorisation, a separable convolution, a shared output, or unknown weights."""
    inner, outer = model.parameters.get(f"{first}.weight"), model.parameters.get(f"{second}.weight")
    if inner is None or outer is None or len(inner.shape) < 2 or len(outer.shape) < 2:
        return True
    if "conv" in model.kind(second) and (inner.shape[1] == 1 or outer.shape[1] < inner.shape[0]):
        return True  # one of them works by groups
    if any(
        model.modules[taker].is_leaf and model.has_weights(taker) for taker in model.consumers(first) if taker != second
    ):
        return True
    return inner.shape[0] < min(inner.shape[1], outer.shape[0])


def _are_networks(model: ModelIndex, first: str, second: str) -> bool:
    """Return whether each layer stands in a network of its own, such as an encoder and a head."""
    parents = first.rpartition(".")[0], second.rpartition(".")[0]
    return parents[0] != parents[1] and all(
        parent != "" and _has_others(model, parent, site) for parent, site in zip(parents, (first, second), strict=True)
    )


def _has_others(model: ModelIndex, parent: str, site: str) -> bool:
    """Return whether the parent has further linear layers."""
    inside = (
        module for module in model.structure.modules if module.site.startswith(f"{parent}.") and module.site != site
    )
    return any(module.kind.lower() in _LINEAR for module in inside)


def _shape(model: ModelIndex, site: str) -> tuple[float, float]:
    shape = model.parameters[f"{site}.weight"].shape
    return float(shape[0]), float(shape[1])
