"""Memory, threads, streams, determinism and devices: exact counts, real limits, no surprise on import."""

import platform
import subprocess
import sys
import textwrap

import numpy as np
import pytest
from mindscope.framework import Key, Parameter, Tensor, device_context, nn, runtime
from mindscope.framework.allocator import keep_freed_memory
from mindscope.framework.optim import Adam

needs_pools = pytest.mark.skipif(not runtime.can_be_deterministic(), reason="threadpoolctl is not installed")


def test_what_tensors_hold_is_counted_once_and_forgotten_with_them():
    before = runtime.memory_allocated()
    x = Tensor(np.zeros((1000, 100)))
    view = x[10:20]
    again = x.detach()
    assert runtime.memory_allocated() - before == 800_000
    del x, view
    assert runtime.memory_allocated() - before == 800_000
    del again
    assert runtime.memory_allocated() == before


def test_states_of_an_optimizer_count_too():
    before = runtime.memory_allocated()
    optimizer = Adam([Parameter(np.zeros(64_000, np.float32))])
    held = runtime.memory_allocated() - before
    assert 3 * 256_000 <= held <= 3 * 256_000 + 4096
    del optimizer


def test_saved_results_of_a_recorded_graph_count_until_the_way_back():
    layer = nn.SequentialCell(nn.Dense(100, 100, key=Key(0)), nn.Sigmoid(), nn.Sigmoid())
    x = Tensor(np.zeros((1000, 100), np.float32))
    before = runtime.memory_allocated()
    loss = layer(x).sum()
    recorded = runtime.memory_allocated() - before
    assert recorded >= 2 * 400_000
    loss.backward()
    assert runtime.memory_allocated() - before < recorded


def test_the_most_is_exact_while_allocations_are_traced():
    runtime.start_memory_statistics()
    try:
        base = runtime.memory_stats()["traced_bytes"]
        runtime.start_memory_statistics()  # looking for what is alive takes memory, too
        Tensor(np.zeros(500_000))
        assert 3_900_000 <= runtime.max_memory_allocated() - base <= 4_200_000
        runtime.start_memory_statistics()
        assert runtime.max_memory_allocated() - base < 1_000_000
    finally:
        runtime.stop_memory_statistics()
    stats = runtime.memory_stats()
    assert "traced_bytes" not in stats
    assert stats["process_peak_bytes"] >= stats["process_bytes"] > 0
    assert runtime.max_memory_allocated() > 0


def run(program):
    return subprocess.run(
        [sys.executable, "-W", "error", "-c", textwrap.dedent(program)], capture_output=True, text=True, check=False
    )


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="only Linux has that limit")
def test_a_limit_makes_an_allocation_fail_and_can_be_taken_back():
    done = run("""
        import numpy as np
        from mindscope.framework import Tensor, ops, runtime
        runtime.set_memory("2GB")
        try:
            Tensor(np.empty(3 << 30, np.uint8))
        except MemoryError as error:
            print("refused")
        runtime.set_memory(None)
        Tensor(np.empty(3 << 30, np.uint8))
        print("allowed")
    """)
    assert (done.stdout.split(), done.stderr) == (["refused", "allowed"], "")
    with pytest.raises(ValueError, match="words like '2GB', got '2 furlongs'"):
        runtime.set_memory("2 furlongs")
    with pytest.raises(ValueError, match="that the process has already, got 1"):
        runtime.set_memory(1)


needs_glibc = pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="another C library keeps what it likes")
FAULTS_OF_A_STEP = """
    import resource
    import numpy as np
    from mindscope.framework import runtime

    def step():  # more is freed in it than glibc keeps by itself
        before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
        for block in [np.empty(1 << 20) for _ in range(8)]:
            block[::512] = 1.0
        return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before

    step()
    again = step()
    runtime.empty_cache()
    print(again, step())
"""


@pytest.fixture
def _unset(monkeypatch):
    """The environment says nothing of the allocator, though other libraries of this process may have had it say so."""
    for name in ("MALLOC_TRIM_THRESHOLD_", "MALLOC_MMAP_THRESHOLD_", "GLIBC_TUNABLES"):
        monkeypatch.delenv(name, raising=False)


@needs_glibc
@pytest.mark.usefixtures("_unset")
def test_a_step_finds_the_memory_that_the_one_before_it_has_freed():
    kept, emptied = map(int, run(FAULTS_OF_A_STEP).stdout.split())
    assert kept < 100 < emptied


@needs_glibc
@pytest.mark.usefixtures("_unset")
def test_an_allocator_that_the_environment_has_set_up_is_left_alone(monkeypatch):
    assert keep_freed_memory()
    monkeypatch.setenv("MALLOC_TRIM_THRESHOLD_", "131072")
    assert not keep_freed_memory()
    kept, emptied = map(int, run(FAULTS_OF_A_STEP).stdout.split())
    assert min(kept, emptied) > 100


@needs_pools
def test_threads_are_set_for_a_block_and_for_good():
    with runtime.threads(1):
        pass  # numba opens its pool when it is first told
    before = runtime.get_threads()
    assert before
    with runtime.threads(1):
        assert set(runtime.get_threads().values()) == {1}
    assert runtime.get_threads() == before
    with pytest.raises(ValueError, match="a count of 1 or more, got 0"):
        runtime.set_threads(0)
    done = run("""
        import numpy as np
        from mindscope.framework import runtime
        assert not runtime.is_deterministic()
        runtime.set_deterministic(True)
        print(runtime.is_deterministic(), set(runtime.get_threads().values()))
    """)
    assert (done.stdout, done.stderr) == ("True {1}\n", "")


def test_streams_are_there_and_change_nothing(caplog):
    runtime.Stream._has_told = False
    with caplog.at_level("INFO"), runtime.Stream() as stream:
        x = Tensor(np.ones(2)) + 1.0
    assert "streams do nothing on the CPU" in caplog.text
    stream.wait_stream(runtime.current_stream())
    stream.synchronize()
    runtime.synchronize()
    runtime.launch_blocking()
    assert stream.query()
    assert "done when their calls return" in repr(stream)
    np.testing.assert_array_equal(x.numpy(), [2.0, 2.0])


def test_the_processor_is_there_and_a_missing_gpu_is_explained():
    assert device_context.cpu.is_available()
    assert device_context.cpu.device_count() == 1
    assert device_context.cpu.cores() >= 1
    assert device_context.gpu.is_available() == (device_context.gpu.device_count() > 0)
    assert bool(device_context.gpu.why_not()) != device_context.gpu.is_available()


def test_asking_loads_no_library_that_was_not_there():
    done = run("""
        import sys
        from mindscope.framework import device_context, runtime
        runtime.memory_stats()
        print([name for name in ("numba", "jax", "torch", "threadpoolctl") if name in sys.modules])
    """)
    assert (done.stdout, done.stderr) == ("[]\n", "")
