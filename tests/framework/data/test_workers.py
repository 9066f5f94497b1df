"""Worker processes: equal results for any number of them, resumption, failures in words, nothing left behind."""

import gc
import importlib.util
import os
import signal
import subprocess
import sys
import textwrap
from itertools import islice
from pathlib import Path

import numpy as np
import pytest
from mindscope.framework.data import ArrayDataset, GeneratorDataset, Loader, WorkerError


def _load_functions():
    """The functions as a module that worker processes can import by its name, wherever they start."""
    path = Path(__file__).with_name("worker_functions.py")
    name = "mindscope_worker_functions"
    spec = importlib.util.spec_from_file_location(name, path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


functions = _load_functions()

# Newer Pythons warn of forks beside threads, which a test process has; the pool leaves that choice to its caller.
# The second is JAX's, which warns of every fork once it has been loaded.
pytestmark = [
    pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning"),
    pytest.mark.filterwarnings("ignore:.*os.fork.*:RuntimeWarning"),
]


def items(count=11):
    generator = np.random.default_rng(0)
    return ArrayDataset(generator.standard_normal((count, 3)), np.arange(count))


def listed(dataset, number=0, start=0):
    return [[column.tolist() for column in item] for item in dataset.epoch(number, start=start)]


@pytest.fixture(params=["fork"])
def start(request):
    if not hasattr(os, "fork"):
        pytest.skip("this system cannot fork")
    return request.param


@pytest.mark.parametrize("workers", [1, 4])
@pytest.mark.parametrize("begin", [0, 4])
def test_any_number_of_workers_gives_the_same_items_in_the_same_order(start, workers, begin):
    alone, together = (items().shuffle(3).map(functions.noisy, seed=7, workers=n, start=start) for n in (0, workers))
    for number in (0, 1):
        assert listed(together, number, begin) == listed(alone, number, begin)
    assert listed(alone, 0) != listed(alone, 1)


def test_processes_stay_for_the_next_epoch_and_end_with_the_dataset(start):
    dataset = items().map(functions.whoami, workers=2, start=start)
    seen = [{int(pid) for _, pid in dataset.epoch(number)} for number in (0, 1)]
    assert seen[0] == seen[1]
    assert len(seen[0]) == 2
    assert os.getpid() not in seen[0]
    del dataset
    gc.collect()
    assert not any(is_alive(pid) for pid in seen[0])


def test_an_epoch_left_early_leaves_no_process_and_the_next_one_is_whole(start):
    dataset = items(40).map(functions.large, workers=2, start=start)
    first = list(islice(dataset.epoch(0), 3))
    assert [float(x[0]) for x, _ in first] == [0.0, 1.0, 2.0]
    gc.collect()
    assert [int(y) for _, y in dataset.epoch(0)] == list(range(40))


def test_a_loader_resumes_in_the_middle_of_an_epoch_with_other_workers(start):
    whole = Loader(items().shuffle(3).map(functions.noisy, seed=7).batch(2))
    stream = whole.forever()
    for _ in islice(stream, 8):
        pass
    resumed = Loader(items().shuffle(3).map(functions.noisy, seed=7, workers=2, start=start).batch(2))
    resumed.load_state_dict(whole.state_dict())
    for (a, b), (c, d) in zip(islice(stream, 7), islice(resumed.forever(), 7), strict=True):
        np.testing.assert_array_equal(a, c)
        np.testing.assert_array_equal(b, d)


def test_an_exception_keeps_its_kind_and_tells_where_in_the_worker_it_was_raised(start):
    dataset = items().map(functions.failing, workers=2, start=start)
    seen = []
    with pytest.raises(KeyError, match="item five") as caught:
        seen.extend(int(y) for _, y in dataset.epoch(0))
    assert "worker_functions.py" in str(caught.value.__cause__)
    assert "in failing" in str(caught.value.__cause__)
    assert "in a worker process" in str(caught.value.__cause__)


def test_an_exception_that_cannot_travel_is_told_in_words(start):
    with pytest.raises(WorkerError, match=r"failed in a worker process: .*Stubborn: this and that"):
        listed(items().map(functions.stubborn, workers=1, start=start))


def test_a_result_that_cannot_travel_is_told_in_words(start):
    with pytest.raises(WorkerError, match="the result cannot be sent back"):
        listed(items().map(functions.unsendable, workers=1, start=start))


def test_a_worker_that_dies_is_noticed_and_named(start):
    with pytest.raises(WorkerError, match=r"data worker 1 died with exit code -9 while it had item 3; was it out of"):
        listed(items().map(functions.dying, workers=2, start=start))


def test_an_exception_of_the_source_reaches_the_consumer(start):
    def make(epoch):
        yield np.zeros(3), np.zeros(())
        raise OSError("the disk is gone")

    with pytest.raises(OSError, match="the disk is gone"):
        listed(GeneratorDataset(make).map(functions.squared, workers=2, start=start))


def test_a_function_that_cannot_be_sent_is_refused_with_the_remedy():
    with pytest.raises(ValueError, match=r"at the top of a module, or pass start='fork'"):
        listed(items().map(lambda x, y: (x, y), workers=1))


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: items().map(functions.squared, workers=-1), "0 workers or more, got -1"),
        (lambda: items().map(functions.squared, seed=-1), "a seed of 0 or more, or None, got -1"),
        (lambda: items().map(functions.squared, start="thread"), "one of spawn, fork, forkserver, got 'thread'"),
    ],
)
def test_arguments_that_make_no_sense_are_refused(make, words):
    with pytest.raises(ValueError, match=words):
        make()


SCRIPT = """
    import sys
    import numpy as np
    from mindscope.framework.data import ArrayDataset

    def slow(x):
        return x, np.asarray(__import__("os").getpid())

    if __name__ == "__main__":
        dataset = ArrayDataset(np.arange(10_000)).map(slow, workers=2, start=sys.argv[1])
        pids = set()
        for number, (_, pid) in enumerate(dataset.epoch(0)):
            pids.add(int(pid))
            if number == 20:
                print(*pids, flush=True)
                if sys.argv[2] == "wait":
                    sys.stdin.read()
                break
        print("done", flush=True)
"""


def begin(tmp_path, how, what):
    script = tmp_path / "script.py"
    script.write_text(textwrap.dedent(SCRIPT))
    command = [sys.executable, "-W", "error", str(script), how, what]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    return subprocess.Popen(command, **pipes, start_new_session=True)


def is_alive(pid):
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def gone(pids):
    """Whether the processes end; waits for it by reading what they hold open, for as long as a test may take."""
    return all(wait_for(pid) for pid in pids)


def wait_for(pid, tries=4000):
    for _ in range(tries):
        if not is_alive(pid):
            return True
        os.sched_yield()
        subprocess.run(["true"], check=True)
    return False


@pytest.mark.skipif(not Path("/proc").exists(), reason="looks at processes through /proc")
def test_spawned_workers_serve_a_script_and_end_with_it(tmp_path):
    with begin(tmp_path, "spawn", "go") as process:
        out, err = process.communicate()
    pids = [int(word) for word in out.split("\n")[0].split()]
    assert (process.returncode, err, out.split("\n")[1]) == (0, "", "done")
    assert len(pids) == 2
    assert not any(is_alive(pid) for pid in pids)


@pytest.mark.skipif(not Path("/proc").exists(), reason="looks at processes through /proc")
@pytest.mark.parametrize("kind", ["SIGKILL", "SIGINT"])
def test_workers_end_when_their_parent_is_killed_or_interrupted(tmp_path, kind):
    with begin(tmp_path, "fork", "wait") as process:
        pids = [int(word) for word in process.stdout.readline().split()]
        assert all(is_alive(pid) for pid in pids)
        if kind == "SIGINT":
            os.killpg(process.pid, signal.SIGINT)  # Ctrl-C reaches the whole group
        else:
            process.kill()
        _, err = process.communicate()
    assert gone(pids)
    if kind == "SIGINT":
        assert err.count("Traceback") == 1  # ours; the workers say nothing
        assert err.rstrip().endswith("KeyboardInterrupt")
