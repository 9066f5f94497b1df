"""The command line: its subcommands, and the exit code of a call."""

import logging
import os
import sys
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Final

import typer

from . import armour, configuration_commands, rank_commands, transfer_commands, upkeep_commands
from .attach_command import attach
from .collect_command import collect
from .compare_command import compare
from .dashboard_command import dashboard
from .demo_command import demo
from .diagnose_command import diagnose
from .doctor_command import doctor
from .events_command import events
from .explain_command import explain
from .failures import STORE_UNREADABLE, describe
from .graph_command import graph
from .hang_command import hang
from .landscape_command import landscape
from .lineage_command import lineage
from .profile_command import profile
from .replay_command import replay
from .runs_command import runs, show
from .script_commands import run, sites
from .store_options import opened_stores
from .trace_command import stragglers, trace
from .user_code import calls_own_code
from .verify_command import verify

application = typer.Typer(
    name="mindscope",
    help="Watches a training run from the inside and tells what goes wrong, where, since when and why.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110},
)

_WATCH = "Watch"
_READ = "Read"
_KEEP = "Maintain"

application.command("demo", rich_help_panel=_WATCH)(demo)
application.command("run", rich_help_panel=_WATCH, context_settings={"allow_interspersed_args": False})(run)
application.command("dashboard", rich_help_panel=_READ)(dashboard)
application.command("sites", rich_help_panel=_WATCH, context_settings={"allow_interspersed_args": False})(sites)
application.add_typer(configuration_commands.application, name="config", rich_help_panel=_WATCH)
application.command("set", rich_help_panel=_WATCH)(configuration_commands.set_)
application.command("attach", rich_help_panel=_WATCH)(attach)
application.command("collect", rich_help_panel=_WATCH)(collect)
application.command("runs", rich_help_panel=_READ)(runs)
application.command("show", rich_help_panel=_READ)(show)
application.command("events", rich_help_panel=_READ)(events)
application.command("diagnose", rich_help_panel=_READ)(diagnose)
application.command("hang", rich_help_panel=_READ)(hang)
application.command("compare", rich_help_panel=_READ)(compare)
application.command("graph", rich_help_panel=_READ)(graph)
application.command("explain", rich_help_panel=_READ)(calls_own_code()(explain))
application.command("landscape", rich_help_panel=_READ)(calls_own_code()(landscape))
application.command("lineage", rich_help_panel=_READ)(lineage)
application.command("profile", rich_help_panel=_READ)(profile)
application.command("ranks", rich_help_panel=_READ)(rank_commands.ranks)
application.command("stragglers", rich_help_panel=_READ)(stragglers)
application.command("trace", rich_help_panel=_READ)(trace)
application.command("replay", rich_help_panel=_READ)(calls_own_code()(replay))
application.command("export", rich_help_panel=_READ)(transfer_commands.export)
application.command("import", rich_help_panel=_READ)(transfer_commands.import_)
application.command("rollup", rich_help_panel=_KEEP)(rank_commands.rollup)
application.command("verify", rich_help_panel=_KEEP)(verify)
for command in (
    upkeep_commands.backup,
    upkeep_commands.restore,
    upkeep_commands.merge,
    upkeep_commands.delete,
    upkeep_commands.prune,
):
    application.command(command.__name__, rich_help_panel=_KEEP)(command)
application.command("migrate", rich_help_panel=_KEEP)(transfer_commands.migrate)
application.command("doctor", rich_help_panel=_KEEP, context_settings={"ignore_unknown_options": True})(doctor)
application.add_typer(armour.application, name="armour", rich_help_panel=_READ)


def _print_version(is_wanted: bool) -> None:
    if is_wanted:
        from .. import __version__

        print(f"mindscope {__version__}")
        raise typer.Exit


@application.callback()
def _options(
    context: typer.Context,
    debug: Annotated[bool, typer.Option("--debug", help="Show debug logs and full tracebacks.")] = False,
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    if debug:
        logging.getLogger(_NAME).setLevel(logging.DEBUG)
    if context.invoked_subcommand not in _RUNNING_SCRIPTS:
        warnings.formatwarning = _format_warning


_PACKAGE: Final = Path(__file__).parents[1]
_NAME: Final = __name__.partition(".")[0]
#: Commands whose warnings are the script's.
_RUNNING_SCRIPTS: Final = ("run", "sites", "doctor")
_format_foreign_warning: Final = warnings.formatwarning


@contextmanager
def _own_log(*, debug: bool) -> Iterator[None]:
    """Show the logs of mindscope on stderr and nowhere else: the root logger belongs to the script that is run."""
    logger = logging.getLogger(_NAME)
    before = logger.propagate, logger.level
    handler = logging.StreamHandler(sys.stderr)
    layout = "%(levelname)s %(name)s: %(message)s" if debug else "%(levelname)s: %(message)s"
    handler.setFormatter(logging.Formatter(layout))
    logger.addHandler(handler)
    logger.propagate = False
    try:
        yield
    finally:
        logger.removeHandler(handler)
        logger.propagate, level = before
        logger.setLevel(level)
        warnings.formatwarning = _format_foreign_warning


def _format_warning(
    message: Warning | str, category: type[Warning], filename: str, lineno: int, line: str | None = None
) -> str:
    """Return a warning of mindscope without the line of its source, and any other as Python formats it."""
    if Path(filename).is_relative_to(_PACKAGE):
        return f"WARNING: {message}\n"
    return _format_foreign_warning(message, category, filename, lineno, line)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one call of the command and return its exit code.

    Args:
        arguments: The arguments after the command's name; None reads those of the process. `--debug` may stand
            anywhere before a `--`.

    Returns:
        0 done, 1 findings at or above `--fail-on`, or an evaluation below `--fail-under` or not to be trusted,
        2 wrong use, 3 the store cannot be read, 130 interrupted,
        70 a fault of mindscope itself; `run` returns the script's own code.
    """
    debug, ordered = _debug_first(sys.argv[1:] if arguments is None else arguments)
    with _own_log(debug=debug):
        return _call(ordered, debug=debug)


def _call(arguments: list[str], *, debug: bool) -> int:
    try:  # not called as `application()`, which replaces sys.excepthook
        code = typer.main.get_command(application).main(arguments, prog_name="mindscope", standalone_mode=False)
        sys.stdout.flush()
        code = code or (STORE_UNREADABLE if any(store.damage for store in opened_stores) else 0)
    except SystemExit as system_exit:
        return system_exit.code if isinstance(system_exit.code, int) else 1
    except BrokenPipeError:  # the reader of the output has closed it, as in `mindscope runs | head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except (Exception, KeyboardInterrupt) as error:
        if debug:
            logging.getLogger(__name__).exception("the command stopped")
        code, message = describe(error)
        print(message, file=sys.stderr)
    finally:
        opened_stores.clear()
    return code if isinstance(code, int) else 0


def _debug_first(arguments: Sequence[str]) -> tuple[bool, list[str]]:
    ours = list(arguments)
    rest: list[str] = []
    if "--" in ours:
        cut = ours.index("--")
        ours, rest = ours[:cut], ours[cut:]
    if "--debug" not in ours:
        return False, ours + rest
    return True, ["--debug", *(argument for argument in ours if argument != "--debug"), *rest]
