"""The table of cases: what was done to which script, and what a diagnosis must say of it."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Final

from .script import Script

SCRIPTS: Final[dict[str, type[Script]]] = {}
CASES: Final[dict[str, "Case"]] = {}

#: Scripts that no threshold may be chosen on: they are only measured.
HELD_OUT: Final = frozenset({"moe", "grpo", "gru", "autoencoder", "engine-lm", "contrastive"})


@dataclass(frozen=True, slots=True)
class Truth:
    """Where and since when a run is at fault, as whoever broke it knows.

    Args:
        sites: Names of modules, any of which is right; empty where no single one is at fault.
        rank: The process at fault; None where no single one is.
        onset: The first step that goes wrong.
    """

    sites: tuple[str, ...] = ()
    rank: int | None = None
    onset: int = 0


#: Breaks the script, or makes it odd, and tells where; Any: each takes the kind of script that it is for.
Strike = Callable[[Any], Truth | None]


@dataclass(frozen=True, slots=True)
class Case:
    """One way to train.

    Args:
        script: Name of the script that is changed; it is also the healthy twin.
        causes: Words of the vocabulary that are right, the plainest first; empty for a healthy run.
        strike: Changes the script.
        is_silent: The loss stays finite and falls as if nothing were wrong.
        summary: One sentence for a person.
    """

    name: str
    script: str
    causes: tuple[str, ...]
    strike: Strike
    is_silent: bool
    summary: str

    @property
    def is_healthy(self) -> bool:
        """Whether any warning is a false one."""
        return not self.causes

    @property
    def is_held_out(self) -> bool:
        """Whether no threshold was chosen on its script."""
        return self.script in HELD_OUT

    def prepare(self, seed: int, *, rank: int = 0) -> tuple[Script, Truth]:
        """The script, changed, and what is true of it."""
        script = SCRIPTS[self.script](seed, case=self.name, rank=rank)
        return script, self.strike(script) or Truth()

    def twin(self) -> "Case":
        """The same script as it should be."""
        return replace(self, name=self.script, causes=(), strike=_leave, is_silent=False, summary="the script itself")


def script(name: str) -> Callable[[type[Script]], type[Script]]:
    """The decorator that enters a script, and itself as a healthy case."""

    def enter(kind: type[Script]) -> type[Script]:
        SCRIPTS[name] = kind
        _enter(Case(name, name, (), _leave, False, _first_line(kind)))
        return kind

    return enter


def fault(name: str, *, on: str, cause: str | tuple[str, ...], is_silent: bool = False) -> Callable[[Strike], Strike]:
    """The decorator that enters a way to break the script `on`."""
    causes = (cause,) if isinstance(cause, str) else cause

    def enter(strike: Strike) -> Strike:
        _enter(Case(name, on, causes, strike, is_silent, _first_line(strike)))
        return strike

    return enter


def healthy(name: str, *, on: str) -> Callable[[Strike], Strike]:
    """The decorator that enters a way to make the script `on` odd but not wrong."""

    def enter(strike: Strike) -> Strike:
        _enter(Case(name, on, (), strike, False, _first_line(strike)))
        return strike

    return enter


def _enter(case: Case) -> None:
    if case.name in CASES:
        raise ValueError(f"there are two cases named {case.name!r}; give the second a name of its own")
    CASES[case.name] = case


def _leave(_script: Script) -> None:
    """Changes nothing."""


def _first_line(thing: object) -> str:
    return (thing.__doc__ or "").partition("\n")[0]
