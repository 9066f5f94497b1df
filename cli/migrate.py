"""`mindscope migrate [STORE]` brings a store written by an older mindscope up to this one's schema."""

from .options import DEFAULT_STORE, JsonOption, SameStoreOption, StoreArgument
from .output import print_json
from .stores import require_existing


def migrate(
    store: StoreArgument = DEFAULT_STORE, same_store: SameStoreOption = "", as_document: JsonOption = False
) -> int:
    """Bring a store up to this version's schema."""
    store = same_store or store
    require_existing(store)
    from ..storage import migrate as migrate_store
    from ..storage.passwords import without_passwords

    done = migrate_store(store)
    if as_document:
        print_json({"store": without_passwords(store), "migrated": done})
    else:
        print("\n".join(done) if done else f"{without_passwords(store)} is up to date")
    return 0
