"""`mindscope set RUN key=value ...` changes what a running training records, from its next step on."""

from collections.abc import Sequence
from typing import Annotated, Any

import typer

from .failures import WrongUse
from .options import DEFAULT_STORE, JsonOption, RunArgument, StoreOption
from .output import print_json
from .stores import open_existing


def set_(
    run: RunArgument,
    settings: Annotated[
        list[str], typer.Argument(metavar="KEY=VALUE...", help="As in the configuration: every=10, subjects.weight=5.")
    ],
    store: StoreOption = DEFAULT_STORE,
    as_document: JsonOption = False,
) -> int:
    """Change what a running training records; values are YAML, dots lead into a key.

    What can change: every, subjects, histograms, modules, types, depth, exclude, watchpoints. Settings add up;
    key={} takes back what was set for that key and below it, whatever it was.
    """
    fields = fields_of(settings)
    from ..probe.configuration.control import ask_for

    with open_existing(store) as opened:
        found = opened.find_run(run)
        if found.state != "running":
            raise WrongUse(f"run {found.name!r} is {found.state}; only a running one can be changed")
        ask_for(opened.mailbox(found.id), fields)
    if as_document:
        print_json({"run": found.id, "asked": fields})
    else:
        print(
            f"{found.id}: asked for {', '.join(settings)}; mindscope events {found.id} --kind 'configuration_*' "
            f"tells since which step it holds, or why it was refused"
        )
    return 0


def fields_of(settings: Sequence[str]) -> dict[str, Any]:  # Any: whatever the YAML says
    """The keys and values of `key=value` words; dots lead into a key.

    Raises:
        WrongUse: A word is none of these, or its value is no YAML.
    """
    import yaml

    fields: dict[str, Any] = {}
    for setting in settings:
        key, equals, text = setting.partition("=")
        if not equals or not key:
            raise WrongUse(f"a setting reads key=value, got {setting!r}")
        try:
            value = yaml.safe_load(text)
        except yaml.YAMLError as error:
            raise WrongUse(
                f"{setting!r} has no YAML value: {str(error).splitlines()[0]}; what begins with * needs quotes, as in "
                f"modules=['*.head']"
            ) from error
        *outer, last = key.split(".")
        inside = fields
        for name in outer:
            inside = inside.setdefault(name, {})
        inside[last] = value
    return fields
