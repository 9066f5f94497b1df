"""What differs between a folder of run files and a PostgreSQL schema, whose tables are the same."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Protocol, TypeAlias

from ..control_channel import ControlChannel
from ..errors import StoreDamaged, StoreTooNew
from ..records import Finding, Json
from ..run_info import Run
from .rank_recording import Feeding, RankRecording, RecordingSummary, RunNote, StoredMessage
from .recording_writer import RecordingWriter

#: The summaries of a run's ranks and its note; or why the run cannot be read.
Listed: TypeAlias = tuple[tuple[RecordingSummary, ...], RunNote] | StoreDamaged | StoreTooNew


class StoreBackend(Protocol):
    """Where the recordings of a store are kept."""

    url: str

    def listed(self) -> Iterator[Listed]:
        """Yield the runs, newest first."""

    def recordings(self, run: str) -> tuple[RankRecording, ...]:
        """Return the ranks of a run, ascending; none for an unknown run."""

    def summaries(self, run: str) -> tuple[RecordingSummary, ...]:
        """Return a summary per rank of a run; raise StoreDamaged when none of them can be read."""

    def revisions(self, run: str) -> tuple[int, Sequence[tuple[int, int]]]:
        """Return the revision of the note, and (rank, revision) of each recording, ascending."""

    def note(self, run: str) -> RunNote:
        """Return the name, tags, remark and muted rules that people gave a run."""

    def annotate(self, run: str, name: str | None, tags: Mapping[str, Json] | None, remark: str | None) -> None:
        """Change the values that are not None."""

    def mute(self, run: str, rule: str, site: str, muted: bool) -> None:
        """Hide the findings of a rule at a site, or show them again."""

    def begin(self, run: Run, rank: int, feeding: Feeding | None = None) -> RecordingWriter:
        """Make or join the recording of a rank; refuse one that is being written."""

    def flush(self, stored: Sequence[StoredMessage]) -> None:
        """Return when these messages, of which there are some, are durable."""

    def add_findings(self, target: RankRecording, findings: Sequence[Finding]) -> None:
        """Add findings to a recording."""

    def control_channel(self, run: str) -> ControlChannel:
        """Return the documents by which observers control a running training."""

    def delete(self, run: str) -> None:
        """Remove everything of a run."""

    def missing(self) -> tuple[str, bool]:
        """Return that the place of the store is not there yet, and whether its name looks misspelt; else empty."""

    def close(self) -> None:
        """Close every connection."""
