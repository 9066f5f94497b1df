"""Parameters that require gradients and belong to no optimizer."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from math import prod

from ...storage import Finding, display_site
from ..context.model_index import ModelIndex
from ..context.step_context import StepContext
from ..recording import Recording, chain
from ..rule import CONFIGURATION, NEW_STRUCTURE, rule

_LAYERS = ("one:Dense", "two:Dense", "three:Dense")


@dataclass(slots=True)
class _ParameterNotInOptimizerState:
    """The checked structure, and which sites were reported."""

    checked: ModelIndex | None = None
    reported: set[str] = field(default_factory=set)


@rule(
    "parameter-not-in-optimizer",
    needs=("structure",),
    triggers=(NEW_STRUCTURE,),
    phase=CONFIGURATION,
    memory=_ParameterNotInOptimizerState,
    is_fact=True,
    asks="intent",
    fires_on=(Recording(structure=chain(*_LAYERS, not_stepped=["two.weight"])),),
    silent_on=(
        Recording(structure=chain(*_LAYERS)),
        Recording(structure=chain(*_LAYERS, not_stepped=["two.weight"]), config={"expected_frozen": ["two*"]}),
        Recording(structure=chain(*_LAYERS, frozen=["two.weight"], not_stepped=["two.weight"])),
    ),
)
def check(context: StepContext, memory: _ParameterNotInOptimizerState) -> Iterator[Finding]:
    """Report parameters that require gradients but belong to no watched optimizer.

    Such parameters keep their first values. A parameter that shares its memory with a stepped one is stepped with it.
    Without a watched optimizer there is nothing to compare with. `expected_frozen` in the run's configuration declares
    what is left out on purpose. Make the optimizer after the whole model is built, and pass it all parameters.
    """
    model = context.model
    if memory.checked is model or not model.structure.optimizers:
        return
    memory.checked = model
    parameters = model.parameters.values()
    stepped = {item.storage for item in parameters if item.group is not None}
    stepped = (
        stepped if len({item.storage for item in parameters}) > 1 else set()
    )  # all alike: sharing was not recorded
    outside = tuple(
        item
        for item in parameters
        if item.requires_grad and item.group is None and item.storage not in stepped and model.is_trainable(item)
    )
    total = sum(prod(item.shape) for item in parameters)
    for site, items in list(model.gather(outside).items())[:8]:
        if site not in memory.reported:
            memory.reported.add(site)
            yield context.finding(
                site,
                "",
                {
                    "parameters": len(items),
                    "values": sum(prod(item.shape) for item in items),
                    "values_of_the_model": total,
                },
                severity="warning",
                explanation=f"no watched optimizer holds {len(items)} parameter{'s' * (len(items) > 1)} of "
                f"{display_site(site)}, although gradients reach them; they keep their first values",
                advice="make the optimizer after the whole model is built, and pass it all parameters; if another "
                f"optimizer steps them, watch that one too; to keep them fixed, declare expected_frozen: [{site!r}]",
            )
