"""The contract of a framework's adapter: it puts hooks on, tells the recorder what happens, and leaves no trace."""

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
        """Its name and version, e.g. `torch 2.13.0`."""

    @property
    def model(self) -> Any:
        """What is watched."""

    @property
    def view(self) -> View:
        """Its parameters and optimizers."""

    def modules(self) -> Mapping[str, Any]:
        """The modules of the model by site, the model itself under the empty one."""

    def attach(self, recorder: Recorder) -> None:
        """Puts every hook on."""

    def reselect(self) -> None:
        """Puts the hooks of modules where the configuration wants them; the parameters that it picks are recorded."""

    def detach(self) -> None:
        """Takes every hook off; the model, the optimizer and the framework are as they were."""

    def step_done(self) -> None:
        """Closes the step of a loop without an optimizer."""

    @property
    def checkpoint_suffix(self) -> str:
        """Of the files that `save_state` writes; empty where the framework's adapter writes none."""

    def save_state(self, path: Path) -> None:
        """Nothing; the file holds the model and its optimizers as they are."""

    def structure(self) -> Structure:
        """What is trained, as far as known; complete after the first forward."""

    @property
    def structure_version(self) -> int:
        """Grows whenever `structure` has something new to say."""
