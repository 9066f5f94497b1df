"""What stands on the page of lineage, and what its address may say."""

from typing import Any, Final

from dash import Input

from ...address import Key

#: Axes of the parallel coordinates that a screen has room for; our choice.
AXES: Final = 8
HIDDEN: Final = {"display": "none"}
WHERE = Key("where")
OF = Key("result", "loss")
FIELDS = Key("fields")
ORDER = Key("order", pattern=r"[A-Za-z0-9_./:@+-]{1,80}\.(asc|desc)", example="tag.lr.asc")
# A row of the grid is JSON: unlike values under fixed keys.
Row = dict[str, Any]


class Id:
    """What stands on this page."""

    keys: Final = "lineage-keys"
    tick: Final = "lineage-tick"
    seen: Final = "lineage-seen"
    where: Final = "lineage-where"
    result: Final = "lineage-result"
    fields: Final = "lineage-fields"
    order: Final = "lineage-order"
    counts: Final = "lineage-counts"
    note: Final = "lineage-note"
    grid: Final = "lineage-grid"
    remark: Final = "lineage-remark"
    save: Final = "lineage-save"
    said: Final = "lineage-said"
    parallel: Final = "lineage-parallel"
    parallel_note: Final = "lineage-parallel-note"
    importance: Final = "lineage-importance"
    importance_note: Final = "lineage-importance-note"
    correlation: Final = "lineage-correlation"


CONTROLS: Final = (
    (Id.where, "value", WHERE),
    (Id.result, "value", OF),
    (Id.fields, "value", FIELDS),
    (Id.order, "data", ORDER),
)
ASKED: Final = (Input(Id.where, "value"), Input(Id.result, "value"), Input(Id.fields, "value"), Input(Id.seen, "data"))
