"""Carries out what the configuration asks for, in the training's own thread, once for every finding."""

import importlib
import logging
from collections.abc import Callable, Sequence

from ...storage import Finding, FindingKey, display_site
from ..configuration.reactions import Reaction
from ..errors import ConfigError, TrainingStopped

_log = logging.getLogger(__name__)

_Deed = Callable[[Reaction, Finding], object]


class Reactions:
    """What is done about findings.

    Args:
        settings: In any order; what is done for one finding is done in the order checkpoint, callback, pause, stop.
        save: Saves the state of the training and keeps the newest so many.
        pause: Waits until somebody lets the training go on.

    Attributes:
        wants_findings: Whether there is anything to do about findings once they are there.

    Raises:
        ConfigError: A callback cannot be imported.
    """

    def __init__(
        self, settings: Sequence[Reaction], *, save: Callable[[int], object], pause: Callable[[Finding], object]
    ) -> None:
        self._save, self._pause = save, pause
        self._seen: set[FindingKey] = set()
        self._saved_at = -1
        self.follow(settings)

    def follow(self, settings: Sequence[Reaction]) -> None:
        """Nothing; this is what is done about findings from now on.

        Raises:
            ConfigError: A callback cannot be imported; what was done before is done still.
        """
        by_name: dict[str, Callable[[Reaction], _Deed]] = {
            "checkpoint": lambda _: self._checkpoint,
            "callback": lambda one: _calling(_found(one.call or "")),
            "pause": lambda _: lambda _, finding: self._pause(finding),
            "stop": lambda _: _stop,
        }
        self._deeds: list[tuple[Reaction, _Deed]] = [
            (one, make(one)) for name, make in by_name.items() for one in settings if one.do == name
        ]
        self.wants_findings = bool(self._deeds)

    def react(self, findings: Sequence[Finding]) -> None:
        """Nothing; what is to be done about those that are new is done.

        Raises:
            TrainingStopped: If that is what was asked for.
        """
        self._carry_out(findings, self._deeds)

    def conclude(self, findings: Sequence[Finding]) -> None:
        """Nothing; callbacks hear of what the last record has shown, and nothing is left to stop or to wait for."""
        self._carry_out(findings, [(one, deed) for one, deed in self._deeds if one.do == "callback"])

    def _carry_out(self, findings: Sequence[Finding], deeds: Sequence[tuple[Reaction, _Deed]]) -> None:
        new = []
        for finding in findings:
            if finding.key not in self._seen:
                self._seen.add(finding.key)
                new.append(finding)
        for reaction, deed in deeds:
            for finding in new:
                if reaction.answers(finding):
                    deed(reaction, finding)

    def _checkpoint(self, reaction: Reaction, finding: Finding) -> None:
        if finding.step == self._saved_at:
            return
        self._saved_at = finding.step
        try:
            self._save(reaction.keep)
        except Exception:  # noqa: BLE001  the training must not feel that a checkpoint fails
            _log.exception("the checkpoint for %s at step %d failed", finding.cause, finding.step)


def _found(name: str) -> Callable[[Finding], object]:
    module, _, attribute = name.partition(":")
    try:
        function = getattr(importlib.import_module(module), attribute)
    except (ImportError, AttributeError) as error:
        raise ConfigError(f"on_finding: callback {name!r} cannot be imported: {error}") from error
    if not callable(function):
        raise ConfigError(f"on_finding: callback {name!r} must be a function, got {type(function).__name__}")
    return function  # type: ignore[no-any-return]


def _calling(function: Callable[[Finding], object]) -> Callable[[Reaction, Finding], None]:
    def call(_: Reaction, finding: Finding) -> None:
        try:
            function(finding)
        except Exception:  # noqa: BLE001  the training must not feel that a callback fails
            _log.exception("the callback for %s at step %d failed", finding.cause, finding.step)

    return call


def _stop(_: Reaction, finding: Finding) -> None:
    raise TrainingStopped(
        f"{finding.cause} at {display_site(finding.site)} since step {finding.first_step}: {finding.explanation}",
        finding,
    )
