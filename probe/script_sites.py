"""The modules of a script's model in call order, found by running its first forward."""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from importlib import import_module
from math import prod
from pathlib import Path

from .adapters import Adapter
from .configuration.config import Config
from .errors import Stopped
from .monitor import Monitor
from .script_runner import Closable, run_to_end
from .script_world import TrainingScript
from .tensor_access import ForwardHook
from .watch_session import rehearsal

__all__ = ["ScriptModel", "ScriptModule", "sites_of_script"]


@dataclass(frozen=True, slots=True)
class ScriptModule:
    """One module.

    Args:
        site: Its dotted name; the root is the empty string.
        kind: Its class.
        calls: How often it was called in the forward.
        outputs: Shape and dtype of each tensor that its first call gave, as `(8, 512) float32`.
        parameters: Number of elements of its own parameters.
    """

    site: str
    kind: str
    calls: int
    outputs: tuple[str, ...]
    parameters: int


@dataclass(frozen=True, slots=True)
class ScriptModel:
    """What a script was found to train.

    Args:
        sites: The modules of its first model; none where there is no model.
        reason: Why there is none; empty where there is.
        is_whole: Whether the first forward came to its end.
        others: Classes of the models that are there beside it.
    """

    sites: tuple[ScriptModule, ...]
    reason: str
    is_whole: bool
    others: tuple[str, ...]


def sites_of_script(script: Path | TrainingScript, arguments: Sequence[str]) -> ScriptModel:
    """Return the modules of the first model that the script trains; stop the script after its first forward.

    What the script watches itself is not recorded.

    Raises:
        ScriptNotFound: There is no such file.
    """
    seen: list[tuple[str, object]] = []
    outputs: dict[str, tuple[str, ...]] = {}
    model: list[Adapter] = []
    others: list[str] = []

    def begin(adapter: Adapter) -> Closable:
        model.append(adapter)
        monitor = Monitor(adapter, Config())  # without a run: it only watches until the forward ends
        for site, module in adapter.modules().items():
            with suppress(RuntimeError):  # a module of `torch.jit.script` takes no hooks
                module.register_forward_hook(_noting(site, seen, outputs))
        others.extend(_beside(adapter))
        return _Detaching(monitor)

    with rehearsal():
        _, reason, _ = run_to_end(script, arguments, begin)
    sites = _collected(model[0], seen, outputs) if model else ()
    return ScriptModel(sites, reason, any(not site for site, _ in seen), tuple(others))


def _beside(adapter: Adapter) -> list[str]:
    """Return classes of the other models of the process; none is known of frameworks other than torch."""
    if not adapter.framework.startswith("torch"):
        return []
    found: list[str] = import_module(".adapters.torch.torch_sites", __package__).models_beside(adapter.model)
    return found


class _Detaching:
    """Ends a monitor that has no run."""

    def __init__(self, monitor: Monitor) -> None:
        self._monitor = monitor

    def close(self, error: BaseException | None = None) -> None:
        """Remove the hooks."""
        del error
        self._monitor.disown()


def _noting(site: str, seen: list[tuple[str, object]], outputs: dict[str, tuple[str, ...]]) -> ForwardHook:
    """Return a forward hook; the root's ends the script."""

    def hook(module: object, _inputs: object, output: object) -> None:
        seen.append((site, module))
        outputs.setdefault(site, tuple(_described(output)))
        if not site:
            raise Stopped(0)

    return hook


def _described(output: object) -> list[str]:
    if hasattr(output, "shape") and hasattr(output, "dtype"):
        return [f"{tuple(output.shape)} {str(output.dtype).rpartition('.')[2]}"]
    parts = output.values() if isinstance(output, dict) else output if isinstance(output, tuple | list) else ()
    return [word for part in parts for word in _described(part)]


def _collected(
    adapter: Adapter, seen: list[tuple[str, object]], outputs: dict[str, tuple[str, ...]]
) -> tuple[ScriptModule, ...]:
    order = list(dict.fromkeys(site for site, _ in seen))
    modules = adapter.modules()
    names = [*order, *(site for site in modules if site not in outputs)]
    calls = [site for site, _ in seen]
    own: dict[str, int] = {}
    for parameter in adapter.structure().parameters:
        owner = parameter.site.rpartition(".")[0]
        own[owner] = own.get(owner, 0) + prod(parameter.shape)
    return tuple(
        ScriptModule(site, type(modules[site]).__name__, calls.count(site), outputs.get(site, ()), own.get(site, 0))
        for site in names
    )
