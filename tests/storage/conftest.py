"""Fixtures of the tests of the store."""

import pytest


@pytest.fixture
def fast_retries(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ask a store that refuses again after 20 ms instead of seconds."""
    for name in ("_RETRY_S", "_MOST_RETRY_S", "_CLOSING_RETRY_S"):
        monkeypatch.setattr(f"mindscope.storage.writing.retrying_writer.{name}", 0.02)
