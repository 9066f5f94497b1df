"""The ring keeps the newest collectives, and those that a thread is still inside of."""

from mindscope.probe.recording.collective_ring import CollectiveRing


def test_a_call_has_its_line_its_number_and_its_state() -> None:
    ring = CollectiveRing()
    ring.step = lambda: 7
    slot = ring.begin("all_reduce", "world", [(2, 3)], "torch.float32", [("op", "max")])
    (call,) = ring.calls()
    assert (call.operation, call.group, call.number, call.sizes) == ("all_reduce", "world", 0, ((2, 3),))
    assert (call.dtype, call.detail, call.step, call.state) == ("float32", "op=max", 7, "called")
    assert call.file == __file__
    assert call.line == test_a_call_has_its_line_its_number_and_its_state.__code__.co_firstlineno + 3
    assert ring.is_open
    ring.end(slot, "enqueued")
    assert not ring.is_open
    ring.wait(slot)
    assert ring.calls()[0].state == "waiting"
    ring.end(slot)
    assert ring.calls()[0].state == "completed"
    assert ring.calls()[0].ended_at >= call.began_at
    ring.wait(slot)  # a second wait for what has ended
    assert ring.calls()[0].state == "completed"


def test_numbers_count_in_each_group() -> None:
    ring = CollectiveRing()
    for group in ("a", "b", "a"):
        ring.end(ring.begin("barrier", group))
    assert [(call.group, call.number) for call in ring.calls()] == [("a", 0), ("b", 0), ("a", 1)]
    ring.learn_group("a", (0, 1))
    assert ring.groups() == {"a": (0, 1)}
    assert ring.knows("a")


def test_an_old_call_that_lasts_stays_visible_among_the_newest() -> None:
    ring = CollectiveRing()
    stuck = ring.begin("recv", "world:0->1")
    for _ in range(50):
        ring.end(ring.begin("all_reduce", "world"))
    calls = ring.calls(4)
    assert [call.operation for call in calls] == ["recv", *["all_reduce"] * 4]
    assert calls[0].is_open
    ring.end(stuck)
    for _ in range(300):
        ring.end(ring.begin("all_reduce", "world"))
    assert len(ring.calls()) == 256
    assert (ring.begun, ring.ended) == (351, 351)


def test_lines_are_counted() -> None:
    ring = CollectiveRing()
    for _ in range(3):
        ring.begin("barrier", "world")
    assert [(use.operation, use.calls) for use in ring.sites()] == [("barrier", 3)]


def test_the_ring_is_on_while_somebody_listens_and_keeps_no_listener_alive() -> None:
    ring = CollectiveRing()
    first, second = (lambda: 1), (lambda: 2)
    ring.switch_on(first)
    ring.switch_on(second)
    assert ring.step() == 2
    ring.switch_off(second)
    assert ring.is_on
    assert ring.step() == 1
    ring.switch_off(first)
    ring.switch_off(first)
    assert not ring.is_on
    assert ring.step() == 0


def test_tags_that_are_new_in_every_step_leave_room_for_other_lines() -> None:
    ring = CollectiveRing()
    ring.end(ring.begin("all_reduce", "world"))
    for tag in range(2000):
        ring.end(ring.begin("send", f"0->1 tag {tag}"))
    ring.end(ring.begin("barrier", "world"))
    sites = ring.sites()
    assert len(sites) <= 512
    assert {site.operation: site.calls for site in sites if site.group == "world"} == {"all_reduce": 1, "barrier": 1}
    assert max(int(site.group.rpartition(" ")[2]) for site in sites if site.operation == "send") == 1999
