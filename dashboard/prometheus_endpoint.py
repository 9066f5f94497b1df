"""The state of the newest runs for Prometheus: last step, loss, findings by severity, and run state."""

from collections import Counter
from collections.abc import Iterator, Sequence
from importlib import import_module
from typing import Final, Protocol

import flask

from ..storage import ROOT_SITE, SEVERITIES, Finding, Run, RunNotFound
from .queries.reader import Reader

_ROUTE: Final = "/metrics"
#: Runs that are reported, newest first; our choice: alerts are about current runs, and each costs three reads.
_RUNS: Final = 50
_STATES: Final = ("running", "finished", "failed", "crashed")


def serve_metrics(server: flask.Flask, reader: Reader) -> None:
    """Add the route; 501 where `prometheus-client` is not installed."""

    @server.get(_ROUTE)
    def metrics() -> flask.Response:
        try:
            prometheus = import_module("prometheus_client")
            exposition = import_module("prometheus_client.exposition")
        except ImportError:
            words = "metrics need prometheus-client, which is not installed; pip install 'mindscope[metrics]'\n"
            return flask.Response(words, status=501, mimetype="text/plain")
        registry = prometheus.CollectorRegistry(auto_describe=False)
        registry.register(_Runs(reader))
        encode, content_type = exposition.choose_encoder(flask.request.headers.get("Accept", ""))
        return flask.Response(encode(registry), content_type=content_type)


class _Family(Protocol):
    """A metric family of `prometheus_client`, which has no types."""

    def add_metric(self, labels: Sequence[str], value: float) -> None:
        """Add one sample."""


class _Runs:
    """What Prometheus asks for its families."""

    def __init__(self, reader: Reader) -> None:
        self._reader = reader

    def collect(self) -> Iterator[_Family]:
        """Yield the metric families, read from the store as it is now."""
        core = import_module("prometheus_client.core")

        def gauge(name: str, words: str, *labels: str) -> _Family:
            family: _Family = core.GaugeMetricFamily(f"mindscope_{name}", words, labels=("run", "name", *labels))
            return family

        step = gauge("last_step", "The newest step of any rank, -1 before the first.")
        updated = gauge("updated_timestamp_seconds", "When the run last wrote, in Unix seconds.")
        state = gauge("run_state", "1 for the state that the run is in, 0 for the others.", "state")
        counts = gauge("findings", "Findings that nobody muted, by severity.", "severity")
        loss = gauge("loss", "The newest recorded loss; NaN and infinities as they are.")
        for run in self._reader.runs()[:_RUNS]:
            who = (run.id, run.name)
            step.add_metric(who, run.last_step)
            updated.add_metric(who, run.updated_at)
            for word in _STATES:
                state.add_metric((*who, word), float(run.state == word))
            try:
                _add_counts(counts, who, self._reader.findings(run.id))
                value = self._loss(run)
            except RunNotFound:  # deleted since it was listed
                continue
            if value is not None:
                loss.add_metric(who, value)
        yield from (step, updated, state, counts, loss)

    def _loss(self, run: Run) -> float | None:
        values = self._reader.series(run.id, ROOT_SITE, "scalar/loss", first=max(0, run.last_step - 100)).values
        return float(values[-1]) if values.size else None


def _add_counts(family: _Family, who: tuple[str, str], findings: tuple[Finding, ...]) -> None:
    found = Counter(finding.severity for finding in findings)
    for severity in SEVERITIES:
        family.add_metric((*who, severity), found[severity])
