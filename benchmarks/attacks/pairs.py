"""All our attacks in all their norms against the fastest of Foolbox, torchattacks, AutoAttack and ART at equal work.

Work is counted in the network: rows that pass forward, and rows that pass backward. Where our attack asks for more of
them than the other library's at the same settings, because it goes on until the example is a nearer one, that
library's time is extended in proportion; it is never shortened.
"""

import statistics
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any, Final

from rows import at_least, row_of

from .digits import images, torch_model
from .pair_peers import Work, art_peer, autoattack_peer, foolbox_peer, torchattacks_peer

TARGET: Final = 1 / 1.2  # none slower than 1.2 times the fastest
_PEERS: Final = {
    "foolbox": foolbox_peer,
    "torchattacks": torchattacks_peer,
    "autoattack": autoattack_peer,
    "art": art_peer,
}
_EPSILON: Final = {"linf": 0.1, "l2": 0.5, "l1": 4.0, "l0": 10.0}
_PLAIN: Final[dict[str, Any]] = {"halvings": 1, "polishing": 0}  # what no other library does is left out

#: By attack: steps, our options for them, samples, rounds.
_SETTINGS: Final[dict[str, tuple[int, dict[str, Any], int]]] = {
    "fgsm": (1, {}, 200),
    "ll-fgsm": (1, {}, 200),
    "r-fgsm": (1, {}, 200),
    "fast-fgsm": (1, {}, 200),
    "bim": (20, {"steps": 20}, 200),
    "ll-bim": (20, {"steps": 20}, 200),
    "mi-fgsm": (20, {"steps": 20}, 200),
    "di-fgsm": (20, {"steps": 20}, 200),
    "pgd": (20, {"steps": 20, "step_size": 0.1, "random_start": True, "sharpened": False}, 200),
    "apgd-ce": (25, {"steps": 25}, 100),
    "apgd-dlr": (25, {"steps": 25}, 100),
    "apgd-t": (25, {"steps": 25}, 50),
    "fab-t": (10, {"steps": 10, "halvings": 1}, 50),
    "square": (300, {"queries": 300}, 100),
    "deepfool": (50, {"halvings": 1}, 50),
    "cw": (30, {"steps": 30, "searches": 3} | _PLAIN, 50),
    "ead": (30, {"steps": 30, "searches": 3} | _PLAIN, 50),
    "ddn": (50, {"steps": 50} | _PLAIN, 100),
    "fmn": (50, {"steps": 50} | _PLAIN, 100),
    "l-bfgs": (10, {"steps": 10, "searches": 2} | _PLAIN, 20),
    "brendel-bethge": (20, {"steps": 20} | _PLAIN, 20),
    "jsma": (1, {"share": 0.2}, 20),
    "salt-and-pepper": (100, {"draws": 100, "halvings": 1}, 50),
    "pointwise": (1, {"orders": 1}, 10),
    "boundary": (100, {"steps": 100}, 20),
    "hop-skip-jump": (4, {"steps": 4}, 20),
    "plain-noise": (50, {"draws": 50}, 100),
    "spatial": (1, {"shifts": 3}, 20),
    "spsa": (10, {"steps": 10, "pairs": 32}, 50),
    "nes": (10, {"steps": 10}, 50),
    "pso": (10, {"steps": 10}, 50),
    "genetic": (50, {"generations": 50}, 50),
}


@dataclass(frozen=True, slots=True)
class _Passes:
    """Rows that went through the network."""

    forward: int
    backward: int

    @property
    def all(self) -> int:
        return self.forward + self.backward


def pair_rows(network: str, rounds: int, only: str = "") -> Iterator[dict[str, Any]]:
    """Yield a row for each attack and norm, and how many are slower than allowed."""
    from mindscope import armour

    met = []
    for name, entry in armour.ATTACKS.items():
        for norm in entry.norms:
            if only in f"{name} {norm}":
                row = _row(network, name, norm, rounds)
                met += [row["ok"]] if row["peers"] else []
                yield row
    slower = met.count(False)
    yield row_of(
        f"{len(met)} pairs that a peer has, {network}", "slower than 1.2 times", slower, "pairs", 0, not slower
    )


def _row(network: str, name: str, norm: str, rounds: int) -> dict[str, Any]:
    import torch

    steps, options, count = _SETTINGS[name]
    module = torch_model(network)
    images_, labels = (torch.from_numpy(part[:count]) for part in images())
    work = Work(name, norm, steps, _EPSILON[norm])
    calls = {"ours": _ours(module, work, options)}
    for library, make in _PEERS.items():
        if find_spec(library) is not None and (call := make(module, work)) is not None:
            calls[library] = call
    passes = {library: _counted(module, call, images_, labels) for library, call in calls.items()}
    seconds = _take_turns(calls, images_, labels, rounds)
    ratios = {
        library: statistics.median(theirs / own for theirs, own in zip(seconds[library], seconds["ours"], strict=True))
        * max(1.0, passes["ours"].all / passes[library].all)
        for library in calls
        if library != "ours"
    }
    case = f"{name} {norm}, {network}, {count} images"
    own = statistics.median(seconds["ours"])
    asked = passes["ours"]
    alone = _passes_alone(module, images_, asked)
    unit = f"fastest library/ours at equal work; {1e3 * own:.3g} ms, {alone / own:.0%} of them in passes"
    if not ratios:
        return row_of(case, "cpu_ratio", round(alone / own, 3), unit.replace("fastest library", "passes alone"))
    rounded = {library: round(ratio, 3) for library, ratio in ratios.items()}
    return at_least(round(TARGET, 3), case, "cpu_ratio", min(ratios.values()), unit, rounded)


def _ours(module: Any, work: Work, options: Mapping[str, Any]) -> Callable[[Any, Any], Any]:
    from mindscope import armour

    attack = armour.ATTACKS[work.attack].make(norm=work.norm, **options)
    model = armour.wrap(module)
    is_free = attack.finds_minimum or work.attack == "spatial"
    return lambda x, y: attack(model, x, y.numpy(), epsilons=None if is_free else [work.epsilon], batch_size=len(x))


def _counted(module: Any, call: Callable[[Any, Any], Any], x: Any, y: Any) -> _Passes:
    """Return the rows that a call, which also warms the library up, sends through the network."""
    counts = [0, 0]

    def backward(gradient: Any) -> None:
        counts[1] += len(gradient)

    def forward(_: Any, inputs: tuple[Any, ...], output: Any) -> None:
        counts[0] += len(inputs[0])
        if output.requires_grad:
            output.register_hook(backward)

    hook = module.register_forward_hook(forward)
    try:
        call(x, y)
    finally:
        hook.remove()
    return _Passes(*counts)


def _take_turns(calls: Mapping[str, Any], x: Any, y: Any, rounds: int) -> dict[str, list[float]]:
    """Return processor seconds of every call, by library; a slow one is called once."""
    seconds: dict[str, list[float]] = {name: [] for name in calls}
    for number in range(rounds):
        for name in list(calls) if number % 2 else list(calls)[::-1]:
            if number and seconds[name][0] > _LONG:
                seconds[name].append(seconds[name][0])
                continue
            began = time.process_time()
            repeats = 1 if not number else max(1, min(20, int(_SHORT / max(seconds[name][0], 1e-4))))
            for _ in range(repeats):
                calls[name](x, y)
            seconds[name].append((time.process_time() - began) / repeats)
    return seconds


_LONG: Final = 3.0  # seconds: no second call
_SHORT: Final = 0.05  # seconds: calls that take less are repeated


def _passes_alone(module: Any, x: Any, passes: _Passes) -> float:
    """Return the processor seconds that so many passes take, measured on whole batches."""
    import torch

    leaf = x.clone().requires_grad_()
    weight = torch.ones_like(module(leaf))

    def plain() -> None:
        with torch.no_grad():
            module(x)

    def both() -> None:
        torch.autograd.grad(module(leaf), leaf, weight)

    forward, whole = (_seconds_of(call) / len(x) for call in (plain, both))
    return forward * max(passes.forward - passes.backward, 0) + whole * passes.backward


def _seconds_of(call: Callable[[], None]) -> float:
    found = []
    for _ in range(15):
        began = time.process_time()
        call()
        found.append(time.process_time() - began)
    return statistics.median(found)
