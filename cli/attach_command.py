"""`mindscope attach RUN` halts a running training at the end of a step, looks into it, and lets it go on."""

import cmd
from typing import TYPE_CHECKING, Annotated, Any

import typer

from .failures import WrongUse
from .output import print_json
from .store_options import DEFAULT_STORE, JsonOption, RunArgument, StoreOption, open_existing

if TYPE_CHECKING:
    from ..storage import Store
    from ..storage.control_channel import TrainingState

_SUBJECTS = ("weight", "gradient")
#: Parameters that are named where a pattern matches none.
_NAMED = 8
_DEEDS = ("state", "pause", "step", "continue", "stop", "show")
_INTRO = "halt the training with pause, go on with step [N] or continue; help lists all, quit leaves it as it is"


def attach(
    run: RunArgument,
    do: Annotated[str, typer.Option("--do", metavar="|".join(_DEEDS), help="One command instead of a prompt.")] = "",
    steps: Annotated[int, typer.Option("--steps", min=1, help="Steps until it waits again, for step.")] = 1,
    subject: Annotated[str, typer.Option("--subject", help="weight or gradient, for show.")] = "weight",
    site: Annotated[str, typer.Option("--site", metavar="GLOB", help="Whose tensors, for show.")] = "*",
    timeout: Annotated[float, typer.Option("--timeout", min=0.0, help="Seconds to wait for the end of a step.")] = 60.0,
    store: StoreOption = DEFAULT_STORE,
    as_document: JsonOption = False,
) -> int:
    """Halt a running training at the end of a step, look into it, and let it go on."""
    if do and do not in _DEEDS:
        raise WrongUse(f"--do must be one of {', '.join(_DEEDS)}, got {do!r}")
    if subject not in _SUBJECTS:
        raise WrongUse(f"--subject must be one of {', '.join(_SUBJECTS)}: others are not kept, got {subject!r}")
    if as_document and not do:
        raise WrongUse("--json needs one command; name it with --do")
    with open_existing(store) as opened:
        found = opened.find_run(run)
        if found.state != "running":
            raise WrongUse(f"run {found.name!r} is {found.state}; only a running one can be attached to")
        talk = _Talk(opened, found.id, timeout)
        if not do:
            talk.converse()
            return 0
        state = talk.ask(do, **_details(do, steps, subject, site))
        print_json(_document(state)) if as_document else print(_in_words(state))
    return 0


class _Talk(cmd.Cmd):
    """The prompt."""

    intro = _INTRO
    prompt = "(mindscope) "

    def __init__(self, store: "Store", run: str, timeout: float) -> None:
        super().__init__()
        self._store, self._run, self._timeout = store, run, timeout

    def converse(self) -> None:
        """Run the prompt; when it ends, remind the user of a training that still waits."""
        try:
            self.cmdloop()
        except KeyboardInterrupt:
            print()
        state = self.ask("state")
        if state.state == "paused":
            print(f"the training waits after step {state.step}; `mindscope attach` with --do continue lets it go on")

    def ask(self, do: str, **details: Any) -> "TrainingState":  # Any: what belongs to the command
        """Send a command and return the training's state once it has obeyed."""
        from ..storage.control_channel import send, state_of, wait_for

        mailbox = self._store.mailbox(self._run)
        if do == "state":
            return self._now(state_of(mailbox))
        number = send(mailbox, do, **details)  # type: ignore[arg-type]  # checked where it comes in
        state = wait_for(mailbox, number, self._timeout)
        if state is None:
            raise WrongUse(
                f"the training has not answered within {self._timeout:g} s; it looks at the end of a step: "
                f"is one that long, or does it wait in a collective?"
            )
        if do == "show":
            self._check_shown(state, **details)
        return state

    def _now(self, told: "TrainingState") -> "TrainingState":
        """Return the training's state: its last message while it waits, else the progress of its run."""
        from dataclasses import replace

        run = self._store.find_run(self._run)
        if run.state != "running":
            return replace(told, state=run.state, step=run.last_step, why="", tensors={})
        step = told.step if told.state == "paused" else max(told.step, run.last_step)
        return replace(told, step=step, tensors={})

    def _check_shown(self, state: "TrainingState", *, subject: str, sites: str, **_: Any) -> None:  # Any: as above
        """Raise WrongUse when the answer holds no tensor."""
        from fnmatch import fnmatchcase

        from ..storage import nearest

        if isinstance(why := state.tensors.get("error"), str):
            raise WrongUse(f"no {subject} can be shown: {why}")
        if state.tensors:
            return
        known = [one.site for one in self._store.structure(self._run).parameters]
        if any(fnmatchcase(site, sites) for site in known):
            raise WrongUse(f"no {subject} of {sites!r} is there after step {state.step}: zero_grad may have removed it")
        more = f" and {len(known) - _NAMED} more" if len(known) > _NAMED else ""
        there = nearest(sites, known) or f"; there are {', '.join(known[:_NAMED])}{more}"
        raise WrongUse(f"no parameter matches {sites!r}{there}; --site '*' shows them all")

    def do_state(self, _: str) -> None:
        """state: where the training is"""
        self._say("state")

    def do_pause(self, _: str) -> None:
        """pause: halt at the end of the step in progress"""
        self._say("pause")

    def do_step(self, line: str) -> None:
        """step [N]: go on for one step, or N, and halt again"""
        if line and not line.isdigit():
            print(f"step takes a number of steps, got {line!r}")
            return
        self._say("step", steps=int(line or 1))

    def do_continue(self, _: str) -> None:
        """continue: let it go on"""
        self._say("continue")

    def do_stop(self, _: str) -> bool:
        """stop: end the training, which raises TrainingStopped"""
        self._say("stop")
        return True

    def do_show(self, line: str) -> None:
        """show GLOB [weight|gradient]: tensors, and what feeds them"""
        glob, _, rest = line.partition(" ")
        subject = rest.strip() or "weight"
        if subject not in _SUBJECTS:
            print(f"show takes one of {', '.join(_SUBJECTS)}: others are not kept, got {subject!r}")
        elif self._say("show", sites=glob or "*", subject=subject):
            self._print_neighbours(glob or "*")

    def do_watch(self, line: str) -> None:
        """watch CONDITION: set a watchpoint that halts the training; without one, list those that are set"""
        from ..probe.errors import ConfigError
        from ..probe.reconfiguration import request_change
        from ..storage.control_channel import combined_settings, requested_settings

        mailbox = self._store.mailbox(self._run)
        begun_with = self._store.find_run(self._run).config.get("watchpoints") or []
        watched: list[Any] = [*combined_settings(requested_settings(mailbox)).get("watchpoints", begun_with)]
        if line:
            try:
                request_change(mailbox, {"watchpoints": [*watched, {"when": line, "pause": True}]})
            except ConfigError as error:
                print(error)
                return
            watched.append({"when": line})
        print(
            "\n".join(str(one["when"] if isinstance(one, dict) else one) for one in watched) or "no watchpoint is set"
        )

    def do_quit(self, _: str) -> bool:
        """quit: leave; the training stays as it is"""
        return True

    def do_EOF(self, _: str) -> bool:  # noqa: N802  the name by which cmd calls it
        """Leave as quit does, with the terminal on a new line."""
        print()
        return True

    def emptyline(self) -> bool:
        """Repeat no command on an empty line."""
        return False

    def _say(self, do: str, **details: Any) -> bool:  # Any: as above
        """Print the training's answer, or why it has not obeyed; return whether it has."""
        try:
            print(_in_words(self.ask(do, **details)))
        except WrongUse as error:
            print(error)
            return False
        return True

    def _print_neighbours(self, glob: str) -> None:
        """Print the modules around those whose tensors were shown."""
        from fnmatch import fnmatchcase

        for module in self._store.structure(self._run).modules:
            if fnmatchcase(module.site, glob) or fnmatchcase(f"{module.site}.weight", glob):
                print(f"{module.site or '(model)'} ({module.kind}) takes {', '.join(module.inputs) or 'the input'}")


def _details(do: str, steps: int, subject: str, site: str) -> dict[str, Any]:  # Any: what belongs to the command
    if do == "step":
        return {"steps": steps}
    return {"subject": subject, "sites": site} if do == "show" else {}


def _in_words(state: "TrainingState") -> str:
    lines = [f"{state.state} after step {state.step}" if state.step >= 0 else state.state]
    if state.why:
        lines.append(state.why)
    for site, one in state.tensors.items():
        lines.append(f"{site}: {one}" if not isinstance(one, dict) else f"{site}: {_described(one)}")
    return "\n".join(lines)


def _described(one: dict[str, Any]) -> str:
    numbers = ", ".join(f"{name} {one[name]:.6g}" for name in ("min", "max", "mean", "std") if name in one)
    values = " ".join(f"{value:.4g}" for value in one["values"][:8])
    return f"{one['dtype']} {tuple(one['shape'])} {numbers}, {one['nans']} NaN, {one['infs']} Inf; {values} ..."


def _document(state: "TrainingState") -> dict[str, Any]:
    from dataclasses import asdict

    return asdict(state)
