"""The contract of a framework's adapter: it attaches hooks, tells the recorder what happens, and leaves no trace."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol

from ...storage.run_info import Structure
from ..collectors.collector import View
from ..recording.recorder import Recorder


class Adapter(Protocol):
    """One model and its optimizers, watched through the framework's own hooks."""

    @property
    def framework(self) -> str:
        """The framework's name and version, e.g. `torch 2.13.0`."""

    @property
    def model(self) -> object:
        """The watched model."""

    @property
    def view(self) -> View:
        """The model's parameters and optimizers."""

    def modules(self) -> Mapping[str, Any]:
        """Return the modules of the model by site, the model itself under the empty one."""

    def attach(self, recorder: Recorder) -> None:
        """Attach every hook."""

    def reselect(self) -> None:
        """Move the hooks to the modules and parameters that the configuration now selects."""

    def detach(self) -> None:
        """Remove every hook and restore the model, the optimizer and the framework."""

    def step_done(self) -> None:
        """Close the step of a loop without an optimizer."""

    @property
    def checkpoint_suffix(self) -> str:
        """The suffix of the files that `save_state` writes."""

    def save_state(self, path: Path) -> None:
        """Save the model and its optimizers into the file."""

    def structure(self) -> Structure:
        """Return the modules, parameters and optimizers, as far as known; complete after the first forward."""

    @property
    def structure_version(self) -> int:
        """A number that grows whenever `structure` changes."""
