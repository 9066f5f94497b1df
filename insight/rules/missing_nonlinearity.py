"""Linear layers in sequence with no activation between them."""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from ...storage import Finding, ModuleInfo, Structure, display_site
from ..context.model_index import ModelIndex
from ..context.step_context import StepContext
from ..indicators.executable_checks import at_two_occasions, refutation, refuted_twice, refuting_event
from ..recording import Recording, chain, linked
from ..rule import CONFIGURATION, NEW_STRUCTURE, rule

_CURVED = "second_derivatives_are_not_zero"
_FLAT = "the second derivatives by inputs that the loss uses are exactly zero, all 400 of them"
_LINEAR = ("linear", "dense", "conv1d", "conv2d", "conv3d")
#: Modules that are linear in evaluation, so that they do not separate two linear layers.
_TRANSPARENT = ("dropout", "dropout1d", "dropout2d", "dropout3d", "identity", "flatten")


def _bottleneck() -> Structure:
    narrow = linked(chain("one:Linear", "two:Linear"))
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
    flat: set[tuple[str, str, str]] = field(default_factory=set)


@rule(
    "missing-nonlinearity",
    needs=("structure",),
    triggers=(NEW_STRUCTURE, "event/check"),
    phase=CONFIGURATION,
    memory=_MissingNonlinearityState,
    is_fact=True,
    asks="intent",
    fires_on=(
        Recording(structure=linked(chain("one:Linear", "two:Linear", "three:ReLU"))),
        Recording(structure=linked(chain("one:Dense", "drop:Dropout", "two:Dense"))),
        # a differential equation of second order, and a network of rectifiers
        Recording(
            structure=chain("one:Linear", "act:ReLU"), events=at_two_occasions(refuting_event(_CURVED, _FLAT)), steps=2
        ),
    ),
    silent_on=(
        # an output layer that began at zero
        Recording(
            structure=chain("one:Linear", "act:Tanh"),
            events=(refuting_event(_CURVED, _FLAT, occasion=1), refuting_event(_CURVED, "", outcome="held")),
        ),
        Recording(structure=linked(chain("one:Linear", "act:ReLU", "two:Linear"))),
        # a function between them, which is no module
        Recording(structure=chain("one:Linear", "two:Linear")),
        # a factorisation: the first makes it narrower than both ends
        Recording(structure=_bottleneck()),
        Recording(structure=linked(chain("one:Embedding", "two:Linear"))),
        # the stem of a residual network: what it gives is taken by others as well
        Recording(structure=_branching(linked(chain("stem:Linear", "one:Linear", "act:ReLU", "two:Linear")))),
    ),
)
def check(context: StepContext, memory: _MissingNonlinearityState) -> Iterator[Finding]:
    """Report two linear layers in a row with nothing between them.

    The rule fires when a linear layer or a convolution gets exactly the tensor that another one returned: both together
    are one linear map. Any function between them, module or not, makes a new tensor.

    Some pairs are built on purpose and left out: a first layer narrower than both ends (a factorisation), a convolution
    by groups followed by another (a separable one), and a layer whose output others take as well, such as the stem of a
    residual network. Two convolutions, a first layer narrower than one of the ends, and two layers that each stand in a
    network of their own with further layers, such as an encoder and a head, are a question. Put the missing activation
    between them, or drop one.

    A loss may also use second derivatives by the inputs, as that of a differential equation. If all of them are exactly
    zero at steps 1 and 25, the network is linear in pieces, as with ReLU, and these terms train nothing.
    """
    for event in refuted_twice(context, memory.flat, _CURVED):
        yield refutation(
            context,
            event,
            consequence="the network is linear in pieces, as with ReLU, so these terms train nothing",
            advice="use a smooth activation, such as tanh, sine, softplus or SiLU, in a network that is differentiated "
            "twice by its inputs",
            metric="scalar/loss",
            severity="warning",
            confidence=0.95,
        )
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
        is_odd = _is_odd(module, first, second) and not _are_networks(model, source, module.site)
        yield context.finding(
            module.site,
            "",
            {"inner": first[0], "outer": second[0], "inner_inputs": first[1]},
            severity="warning" if is_odd else "info",
            explanation=f"{display_site(module.site)} takes the output of {display_site(source)} unchanged, and two "
            f"linear maps in a row are one{'' if is_odd else '; is that meant?'}",
            advice="put the missing activation between them, or remove one of them; if they are a projection, a "
            "factorisation or a stem, do nothing",
            confidence=0.95 if is_odd else 0.5,
        )


def _sources(model: ModelIndex, module: ModuleInfo) -> Iterator[str]:
    """Linear layers whose output reaches the module unchanged, or through what is linear itself."""
    waiting, seen = list(module.direct), set(module.direct)
    while waiting:
        site = waiting.pop()
        kind = model.kind(site)
        if kind in _LINEAR:
            yield site
        elif kind in _TRANSPARENT and _is_called_once(model, site):
            fresh = [earlier for earlier in model.modules[site].direct if earlier not in seen]
            seen.update(fresh)
            waiting += fresh


def _is_called_once(model: ModelIndex, site: str) -> bool:
    """Return whether a module without weights is given one tensor and feeds one module, as far as the graph tells.

    One dropout that serves several places of a layer joins what no tensor goes between.
    """
    return len(model.modules[site].inputs) <= 1 and len(list(model.consumers(site))) <= 1


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


def _is_odd(module: ModuleInfo, first: tuple[float, float], second: tuple[float, float]) -> bool:
    """Return whether nobody builds such a pair on purpose: two dense layers, the first no narrower than both ends.

    Convolutions in a row are stems, projections of channels, and filters of upsampled maps.
    """
    return "conv" not in module.kind.lower() and first[0] >= max(first[1], second[0])


def _are_networks(model: ModelIndex, first: str, second: str) -> bool:
    """Return whether the first layer ends a network of its own and the second is not in it: an encoder and a head."""
    inner, outer = first.rpartition(".")[0], second.rpartition(".")[0]
    is_apart = inner not in ("", outer) and not f"{inner}.".startswith(f"{outer}." if outer else "?")
    return is_apart and _has_others(model, inner, first)


def _has_others(model: ModelIndex, parent: str, site: str) -> bool:
    """Return whether the parent has further linear layers."""
    inside = (
        module for module in model.structure.modules if module.site.startswith(f"{parent}.") and module.site != site
    )
    return any(module.kind.lower() in _LINEAR for module in inside)


def _shape(model: ModelIndex, site: str) -> tuple[float, float]:
    shape = model.parameters[f"{site}.weight"].shape
    return float(shape[0]), float(shape[1])
