"""Run the demo: store, dashboard, one training after the other, diagnosis."""

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
from ..store_options import require_readable
from .demo_faults import FAULTS, Fault
from .demo_tasks import TASKS, Training
from .training_progress import reporting

#: Name of the training without a fault.
_NO_FAULT = "none"


@dataclass(frozen=True, slots=True)
class DemoOptions:
    """The options of the demo.

    Args:
        models: Names of `TASKS`, trained in this order.
        fault: A name of `FAULTS`, or `none`.
        steps: Steps of each training; 0 takes each task's own number.
        shows_pages: Whether the dashboard is served meanwhile.
        keeps_pages: Whether it is served after the trainings, until Ctrl-C.
        config: Configuration file of the monitor; empty records everything.
        seed: Seed of the models' weights and of the order of their batches.
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
        """Return the number of steps of that model's training."""
        return self.steps or TASKS[name].steps


def run_demo(options: DemoOptions, console: Console) -> int:
    """Run the whole demo; return exit code 0 when every verdict is right, else 1.

    Raises:
        WrongUse: There is no fault of that name.
        StoreError: The store cannot be written.
        Interrupted: The user stopped the demo; everything recorded so far is in the store.
    """
    fault = _find_fault(options.fault)
    require_readable(options.store)
    open_store(options.store).close()  # an unusable store stops the demo before it trains
    right = True
    try:
        with _served(options, console) as served:
            for name in options.models:
                training, run = train(name, options, fault, console, served)
                right &= _judge(run, name, fault, options, console)
                if fault is None:
                    attack_model(training, options.store, run, console)
            console.print(f"look at it again: mindscope dashboard {options.store}", highlight=False)
            if served and options.keeps_pages:
                served.wait(console)
    except KeyboardInterrupt:
        raise Interrupted(f"stopped; everything recorded so far is in {options.store}") from None
    return 0 if right else 1


def train(
    name: str, options: DemoOptions, fault: Fault | None, console: Console, served: "Pages | None" = None
) -> tuple[Training, str]:
    """Train one model under the monitor; return the training and the id of its run."""
    task = TASKS[name]
    steps = options.steps_of(name)
    training = Training(task, options.seed)
    strikes_at = fault.step_within(steps) if fault else -1
    if fault and strikes_at == 0:
        fault.strike(training, fault.sites[name])
    tags = {"model": name, "fault": fault.name if fault else _NO_FAULT}
    config = options.config or None
    with watch(
        training.model, training.optimizer, config=config, store=options.store, run=task.run, tags=tags
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
    """Return whether a finding names cause, site (or a parameter directly in it) and step of the injected fault."""
    within = finding.site == site or (finding.site.rpartition(".")[0] == site and site != "")
    return finding.cause == fault.cause and within and finding.first_step == step


def _judge(run: str, name: str, fault: Fault | None, options: DemoOptions, console: Console) -> bool:
    with open_store(options.store) as opened:
        found = diagnose(opened, run)
    console.print(render_text(found), markup=False, highlight=False, soft_wrap=True)
    if fault is None:
        return found.verdict != "unhealthy"
    return _compare(found, fault, fault.sites[name], fault.step_within(options.steps_of(name)), console)


def _compare(found: Diagnosis, fault: Fault, site: str, step: int, console: Console) -> bool:
    hit = bool(found.root_causes) and as_injected(found.root_causes[0], fault, site, step)
    expected = f"{fault.cause} at {display_site(site)}, step {step}"
    console.print(f"injected fault: {fault.summary}", style="dim", highlight=False, soft_wrap=True)
    if hit:
        console.print(f"found as injected: {expected}", style="green", highlight=False, soft_wrap=True)
    else:
        console.print(f"not found as injected: {expected}", style="red", highlight=False, soft_wrap=True)
    return hit


def _find_fault(name: str) -> Fault | None:
    if name == _NO_FAULT:
        return None
    if name not in FAULTS:
        known = ", ".join((_NO_FAULT, *FAULTS))
        raise WrongUse(f"no fault {name!r}{nearest(name, FAULTS)}; faults are {known}")
    return FAULTS[name]


@contextmanager
def _served(options: DemoOptions, console: Console) -> Iterator["Pages | None"]:
    if not options.shows_pages:
        yield None
        return
    with pages(options.store, options.port) as served:
        console.print(f"dashboard: {served.home}", highlight=False)
        yield served


class Pages:
    """A served dashboard."""

    def __init__(self, link: Callable[[str], str]) -> None:
        self._link = link
        self.home = link("/")

    def announce(self, run: str, console: Console) -> None:
        """Print the address of the live page of a run."""
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
    """Attack the trained model on held-out images and store the outcomes beside its run; skip tasks without classes."""
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
