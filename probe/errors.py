"""What can go wrong while watching.

ProbeError(RuntimeError)
├── ConfigError(ValueError)     the configuration has an unknown key, a wrong value or a contradiction
├── SiteNotFound(LookupError)   a pattern matches no site of the model
├── NotWatchable(TypeError)     what was handed over is no model or optimizer of a framework that is there
├── ScriptNotFound(OSError)     the script to run does not exist
├── ImportFailed(ValueError)    a path holds nothing that can be imported, or its data is damaged
├── NotReplayable(LookupError)  what a module was given, or gave, is not in the run, or the module is another
├── TrainingTouched             a function of the user's has written into a tensor of the training
└── TrainingStopped             the configuration, or a person, asked for the training to end here

Stopped(SystemExit)             ends a script that is run by us: its model cannot be watched, or nothing more is wanted
"""

from collections.abc import Sequence

from ..storage import Finding


class ProbeError(RuntimeError):
    """Anything that keeps a monitor from starting; a running monitor never raises into the training."""


class ConfigError(ProbeError, ValueError):
    """The configuration has an unknown key, a wrong value or a contradiction.

    Args:
        mistakes: A sentence for each thing that is wrong; the message itself where there is one.
    """

    def __init__(self, message: str, mistakes: Sequence[str] = ()) -> None:
        super().__init__(message)
        self.mistakes = tuple(mistakes) or (message,)


class SiteNotFound(ProbeError, LookupError):
    """A pattern matches no site of the model."""


class NotWatchable(ProbeError, TypeError):
    """The model or optimizer belongs to no framework that is installed and loaded."""


class ScriptNotFound(ProbeError, OSError):
    """The script to run does not exist."""


class ImportFailed(ProbeError, ValueError):
    """The path holds nothing that can be imported, or its data is damaged."""


class NotReplayable(ProbeError, LookupError):
    """Tensors that a replay needs are not in the run, or the module is not the one that was recorded."""


class TrainingTouched(ProbeError):
    """A user's function has written into a tensor of the training; it is recorded, never raised to the user."""


class TrainingStopped(ProbeError):
    """The one error that a monitor raises into a training, at the user's request.

    Args:
        finding: Why; None where a person wanted it.
    """

    def __init__(self, message: str, finding: Finding | None = None) -> None:
        super().__init__(message)
        self.finding = finding


class Stopped(SystemExit):
    """Ends the script at a place of ours: where its model cannot be watched, or where nothing more is wanted of it.

    It derives from `SystemExit`: scripts clean up after an exit, let it pass where they catch errors, and do not print
    it in threads.
    """


class CollectiveRefused(RuntimeError):
    """A check of one process alone has come to a collective, in which the others would have to take part."""
