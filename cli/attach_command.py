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
#: Most parameters that an error names when a pattern matches none.
_NAMED = 8
_ACTIONS = ("state", "pause", "step", "continue", "stop", "show")
_INTRO = (
    "pause halts the training, step [N] or continue lets it go on; help lists all commands, quit leaves it as it is"
)


def attach(
    run: RunArgument,
    do: Annotated[str, typer.Option("--do", metavar="|".join(_ACTIONS), help="One command instead of a prompt.")] = "",
    steps: Annotated[int, typer.Option("--steps", min=1, help="For step: steps until it waits again.")] = 1,
    subject: Annotated[str, typer.Option("--subject", help="For show: weight or gradient.")] = "weight",
    site: Annotated[str, typer.Option("--site", metavar="GLOB", help="For show: sites of the tensors.")] = "*",
    timeout: Annotated[float, typer.Option("--timeout", min=0.0, help="Seconds to wait for the end of a step.")] = 60.0,
    store: StoreOption = DEFAULT_STORE,
    as_document: JsonOption = False,
) -> int:
    """Halt a running training at the end of a step, look into it, and let it go on."""
    if do and do not in _ACTIONS:
        raise WrongUse(f"--do must be one of {', '.join(_ACTIONS)}, got {do!r}")
    if subject not in _SUBJECTS:
        raise WrongUse(f"--subject must be one of {', '.join(_SUBJECTS)}: others are not kept, got {subject!r}")
    if as_document and not do:
        raise WrongUse("--json needs one command; name it with --do")
    with open_existing(store) as opened:
        found = opened.find_run(run)
        if found.state != "running":
            raise WrongUse(f"run {found.name!r} is {found.state_words}; only a running one can be attached to")
        prompt = _Prompt(opened, found.id, timeout)
        if not do:
            prompt.loop()
            return 0
        state = prompt.ask(do, **_details(do, steps, subject, site))
        print_json(_document(state)) if as_document else print(_in_words(state))
    return 0


class _Prompt(cmd.Cmd):
    """The interactive prompt."""

    intro = _INTRO
    prompt = "(mindscope) "

    def __init__(self, store: "Store", run: str, timeout: float) -> None:
        super().__init__()
        self._store, self._run, self._timeout = store, run, timeout

    def loop(self) -> None:
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

        channel = self._store.control_channel(self._run)
        if do == "state":
            return self._now(state_of(channel))
        number = send(channel, do, **details)  # type: ignore[arg-type]  # checked where it comes in
        state = wait_for(channel, number, self._timeout)
        if state is None:
            raise WrongUse(
                f"the training has not answered within {self._timeout:g} s; it reads commands at the end of a step: "
                f"does a step take that long, or does it wait in a collective?"
            )
        if do == "show":
            self._check_shown(state, **details)
        return state

    def _now(self, posted: "TrainingState") -> "TrainingState":
        """Return the training's state: its last message while it waits, else the progress of its run."""
        from dataclasses import replace

        run = self._store.find_run(self._run)
        if run.state != "running":
            return replace(posted, state=run.state, step=run.last_step, why="", tensors={})
        step = posted.step if posted.state == "paused" else max(posted.step, run.last_step)
        return replace(posted, step=step, tensors={})

    def _check_shown(self, state: "TrainingState", *, subject: str, sites: str, **_: Any) -> None:  # Any: as above
        """Raise WrongUse when the answer holds no tensor."""
        from fnmatch import fnmatchcase

        from ..storage import nearest

        if isinstance(why := state.tensors.get("error"), str):
            raise WrongUse(f"no {subject} can be shown: {why}")
        if state.tensors:
            return
        known = [parameter.site for parameter in self._store.structure(self._run).parameters]
        if any(fnmatchcase(site, sites) for site in known):
            raise WrongUse(f"no {subject} of {sites!r} is there after step {state.step}: zero_grad may have removed it")
        more = f" and {len(known) - _NAMED} more" if len(known) > _NAMED else ""
        there = nearest(sites, known) or f"; there are {', '.join(known[:_NAMED])}{more}"
        raise WrongUse(f"no parameter matches {sites!r}{there}; --site '*' shows them all")

    def do_state(self, _: str) -> None:
        """state: show the step of the training"""
        self._print_answer("state")

    def do_pause(self, _: str) -> None:
        """pause: halt at the end of the step in progress"""
        self._print_answer("pause")

    def do_step(self, line: str) -> None:
        """step [N]: go on for one step, or N, and halt again"""
        if line and not line.isdigit():
            print(f"step takes a number of steps, got {line!r}")
            return
        self._print_answer("step", steps=int(line or 1))

    def do_continue(self, _: str) -> None:
        """continue: let it go on"""
        self._print_answer("continue")

    def do_stop(self, _: str) -> bool:
        """stop: end the training, which raises TrainingStopped"""
        self._print_answer("stop")
        return True

    def do_show(self, line: str) -> None:
        """show GLOB [weight|gradient]: tensors, and what feeds them"""
        glob, _, rest = line.partition(" ")
        subject = rest.strip() or "weight"
        if subject not in _SUBJECTS:
            print(f"show takes one of {', '.join(_SUBJECTS)}: others are not kept, got {subject!r}")
        elif self._print_answer("show", sites=glob or "*", subject=subject):
            self._print_neighbours(glob or "*")

    def do_watch(self, line: str) -> None:
        """watch CONDITION: set a watchpoint that halts the training; without one, list those that are set"""
        from ..probe.errors import ConfigError
        from ..probe.reconfiguration import request_change
        from ..storage.control_channel import combined_settings, requested_settings

        channel = self._store.control_channel(self._run)
        begun_with = self._store.find_run(self._run).config.get("watchpoints") or []
        watched: list[Any] = [*combined_settings(requested_settings(channel)).get("watchpoints", begun_with)]
        if line:
            try:
                request_change(channel, {"watchpoints": [*watched, {"when": line, "pause": True}]})
            except ConfigError as error:
                print(error)
                return
            watched.append({"when": line})
        print(
            "\n".join(str(entry["when"] if isinstance(entry, dict) else entry) for entry in watched)
            or "no watchpoint is set"
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

    def _print_answer(self, do: str, **details: Any) -> bool:  # Any: as above
        """Print the training's answer, or why it has not obeyed; return whether it has obeyed."""
        try:
            print(_in_words(self.ask(do, **details)))
        except WrongUse as error:
            print(error)
            return False
        return True

    def _print_neighbours(self, glob: str) -> None:
        """Print the inputs of the modules whose tensors were shown."""
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
    for site, content in state.tensors.items():
        lines.append(f"{site}: {_described(content) if isinstance(content, dict) else content}")
    return "\n".join(lines)


def _described(tensor: dict[str, Any]) -> str:
    numbers = ", ".join(f"{name} {tensor[name]:.6g}" for name in ("min", "max", "mean", "std") if name in tensor)
    values = " ".join(f"{value:.4g}" for value in tensor["values"][:8])
    non_finite = f"{tensor['nans']} NaN, {tensor['infs']} Inf"
    return f"{tensor['dtype']} {tuple(tensor['shape'])} {numbers}, {non_finite}; {values} ..."


def _document(state: "TrainingState") -> dict[str, Any]:
    from dataclasses import asdict

    return asdict(state)
