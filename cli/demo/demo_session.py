"""Run the demo from the first line to the verdict: store, dashboard, one training after the other, diagnosis."""

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from rich.console import Console

from ...armour import evaluate, wrap
from ...insight import Diagnosis, diagnose, render_text
from ...storage import Finding, display_site, nearest, open_store
from ...watching import watch
from ..failures import Interrupted, WrongUse
from .demo_faults import FAULTS, Fault
from .demo_tasks import TASKS, Training
from .training_progress import reporting

#: Word for a training that nobody harms.
_NO_FAULT = "none"


@dataclass(frozen=True, slots=True)
class Wishes:
    """What the user asked the demo for.

    Args:
        models: Names of `TASKS`, trained in this order.
        fault: A name of `FAULTS`, or `none`.
        steps: Of each training; 0 takes each task's own.
        shows_pages: Whether the dashboard is served meanwhile.
        keeps_pages: Whether it is served on after the trainings, until Ctrl-C.
        config: File that says what to record and when; empty records everything.
        seed: Of the models' weights and of the order of their batches.
    """

    models: tuple[str, ...]
    fault: str = _NO_FAULT
    steps: int = 0
    store: str = "runs/"
    shows_pages: bool = True
    keeps_pages: bool = False
    port: int = 8050
    config: str = ""
    seed: int = 0

    def steps_of(self, name: str) -> int:
        """Return how long that model trains."""
        return self.steps or TASKS[name].steps


def run_demo(wishes: Wishes, console: Console) -> int:
    """Run the whole demo; return exit code 0 when every verdict is the right one, else 1.

    Raises:
        WrongUse: There is no such fault.
        StoreError: The store cannot be written.
        Interrupted: The user stopped it; what was recorded until then is in the store.
    """
    fault = _find_fault(wishes.fault)
    open_store(wishes.store).close()  # a store that cannot be used is told before anything is trained
    right = True
    try:
        with _served(wishes, console) as served:
            for name in wishes.models:
                training, run = train(name, wishes, fault, console, served)
                right &= _judge(run, name, fault, wishes, console)
                if fault is None:
                    attack_model(training, wishes.store, run, console)
            console.print(f"look at it again: mindscope dashboard {wishes.store}", highlight=False)
            if served and wishes.keeps_pages:
                served.wait(console)
    except KeyboardInterrupt:
        raise Interrupted(f"stopped; what was recorded is in {wishes.store}") from None
    return 0 if right else 1


def train(
    name: str, wishes: Wishes, fault: Fault | None, console: Console, served: "Pages | None" = None
) -> tuple[Training, str]:
    """Train one model under the monitor; return the training and the id of its run."""
    task = TASKS[name]
    steps = wishes.steps_of(name)
    training = Training(task, wishes.seed)
    strikes_at = fault.step_within(steps) if fault else -1
    if fault and strikes_at == 0:
        fault.strike(training, fault.sites[name])
    tags = {"model": name, "fault": fault.name if fault else _NO_FAULT}
    config = wishes.config or None
    with watch(
        training.model, training.optimizer, config=config, store=wishes.store, run=task.run, tags=tags
    ) as monitor:
        if served:
            served.announce(monitor.run.id, console)
        with reporting(console, task.run, steps, task.items, task.unit) as report:
            for number in range(steps):
                if fault and number == strikes_at > 0:
                    fault.strike(training, fault.sites[name])
                report.step(number, training.step())
    return training, monitor.run.id


def as_injected(finding: Finding, fault: Fault, site: str, step: int) -> bool:
    """Return whether a finding names what was done: cause, site (or a parameter right in it) and step."""
    within = finding.site == site or (finding.site.rpartition(".")[0] == site and site != "")
    return finding.cause == fault.cause and within and finding.first_step == step


def _judge(run: str, name: str, fault: Fault | None, wishes: Wishes, console: Console) -> bool:
    with open_store(wishes.store) as opened:
        found = diagnose(opened, run)
    console.print(render_text(found), markup=False, highlight=False, soft_wrap=True)
    if fault is None:
        return found.verdict != "unhealthy"
    return _compare(found, fault, fault.sites[name], fault.step_within(wishes.steps_of(name)), console)


def _compare(found: Diagnosis, fault: Fault, site: str, step: int, console: Console) -> bool:
    hit = bool(found.root_causes) and as_injected(found.root_causes[0], fault, site, step)
    place = f"{fault.cause} at {display_site(site)}, step {step}"
    console.print(f"done to it: {fault.summary}", style="dim", highlight=False, soft_wrap=True)
    if hit:
        console.print(f"found as it was done: {place}", style="green", highlight=False, soft_wrap=True)
    else:
        console.print(f"not found as it was done: {place}", style="red", highlight=False, soft_wrap=True)
    return hit


def _find_fault(name: str) -> Fault | None:
    if name == _NO_FAULT:
        return None
    if name not in FAULTS:
        known = ", ".join((_NO_FAULT, *FAULTS))
        raise WrongUse(f"no fault {name!r}{nearest(name, FAULTS)}; faults are {known}")
    return FAULTS[name]


@contextmanager
def _served(wishes: Wishes, console: Console) -> Iterator["Pages | None"]:
    if not wishes.shows_pages:
        yield None
        return
    with pages(wishes.store, wishes.port) as served:
        console.print(f"dashboard: {served.home}", highlight=False)
        yield served


class Pages:
    """A served dashboard."""

    def __init__(self, link: Callable[[str], str]) -> None:
        self._link = link
        self.home = link("/")

    def announce(self, run: str, console: Console) -> None:
        """Print where the live page of a run is."""
        console.print(f"watch it live: {self._link(f'/run?run={run}')}", highlight=False, soft_wrap=True)

    def wait(self, console: Console) -> None:
        """Wait until Ctrl-C."""
        console.print(f"still serving {self.home}; Ctrl-C ends it", highlight=False)
        threading.Event().wait()


@contextmanager
def pages(store: str, port: int) -> Iterator[Pages]:
    """Serve the dashboard over `store` on this machine's own address, at `port` or, if taken, at a free one."""
    from ...dashboard import start_in_thread

    server = start_in_thread(store, host="127.0.0.1", port=port if _is_free(port) else 0)
    try:
        yield Pages(server.link)
    finally:
        server.stop()


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True


#: Budgets on pixels between 0 and 1, from hardly visible to a fifth of the range.
_EPSILONS = (0.02, 0.05, 0.1, 0.2)
_SAMPLES = 200


def attack_model(training: Training, store: str, run: str, console: Console) -> None:
    """Attack the trained model on images it has not seen and store the outcomes beside its run; nothing for a task
    without classes to confuse."""
    held_out = training.held_out()
    if held_out is None:
        return
    inputs, labels = held_out
    training.model.set_train(False)
    with open_store(store) as opened:
        found = evaluate(
            wrap(training.model),
            inputs[:_SAMPLES],
            labels[:_SAMPLES],
            _EPSILONS,
            store=opened,
            parent=run,
            name=f"{training.task.run} under attack",
            seed=training.seed,
        )
    console.print(found.table(), highlight=False)
