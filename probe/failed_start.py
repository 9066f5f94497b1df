"""The run of a program that ended by an error before it trained a model: what raised, and where."""

import sys
from collections.abc import Mapping
from importlib import import_module

from ..storage import Event, Run, Store, Structure
from ..storage.records import Json
from .facts import environment
from .failure_facts import failure_facts

__all__ = ["record_failed_start", "unlisted_networks"]


def record_failed_start(
    store: Store,
    error: Exception,
    *,
    name: str,
    config: Mapping[str, Json],
    rank: int = 0,
    run_id: str | None = None,
) -> Run:
    """Record a run that has ended before its first step, and return it.

    Args:
        error: What ended the program, with its traceback.
        run_id: The run to join as this rank.

    Raises:
        StoreError: The store cannot take a new run.
    """
    writer = store.begin_run(name, rank=rank, run_id=run_id, config=config, host=environment())
    try:
        site, facts = failure_facts(error, {})
        if words := unlisted_networks(error):
            facts["unlisted"] = words
        writer.write_structure(Structure())
        writer.write_events([Event("exception", 0, site, data=facts)])
    finally:
        writer.close("failed", f"{type(error).__name__}: {error}".removesuffix(": "))
    return writer.run


def unlisted_networks(error: BaseException | None) -> str:
    """Return which networks a model keeps in plain lists, if the error is an optimizer's without parameters."""
    if error is None or "empty parameter list" not in str(error) or "torch" not in sys.modules:
        return ""
    lists = import_module(".adapters.torch.torch_plain_lists", __package__)
    words: str = lists.words_of_plain_lists(error.__traceback__)
    return words
