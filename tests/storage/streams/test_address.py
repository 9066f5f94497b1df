"""The URL of a broker: what it names, and what of it is never shown."""

import pytest
from mindscope.storage import InvalidName, open_store
from mindscope.storage.errors import without_passwords
from mindscope.storage.streams.stream_url import open_transport
from mindscope.storage.streams.transport import parse_address, partition_of


def test_an_address_has_hosts_a_user_and_options() -> None:
    url = "nats://me:s%40crt@a:4223,b,[::1]:9/my-project?partitions=8&replicas=3"
    found = parse_address(url, ("partitions", "replicas"))
    assert found.hosts == (("a", 4223), ("b", 4222), ("[::1]", 9))
    assert (found.user, found.password, found.project) == ("me", "s@crt", "my-project")
    assert found.partitions() == 8
    assert str(found) == "nats://me:***@a:4223,b:4222,[::1]:9/my-project"
    assert "s@crt" not in repr(found)


def test_a_token_is_shown_nowhere() -> None:
    url = "nats://t0ken@host/p"
    assert parse_address(url, ()).user == "t0ken"
    assert "t0ken" not in str(parse_address(url, ())) + without_passwords(f"store '{url}' is wrong")


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("nats://host:4222", "must name a project"),
        ("nats://host:4222/a/b", "must name a project"),
        ("nats://host:4222/my.project", "must name a project"),
        ("nats:///project", "has no host"),
        ("nats://host:99999/project", "has no host"),
        ("nats://host/project?partition=3", "did you mean 'partitions'"),
        ("kafka://token@host/project", "expects user:password"),
    ],
)
def test_a_wrong_url_says_what_is_expected(url: str, words: str) -> None:
    with pytest.raises(InvalidName, match=words):
        open_transport(url)


def test_a_misspelt_scheme_names_the_nearest() -> None:
    with pytest.raises(InvalidName, match="did you mean 'nats'"):
        open_store("natss://host/project")
    with pytest.raises(InvalidName, match="is no stream"):
        open_transport("runs/")


@pytest.mark.parametrize("text", ["0", "x", "2000", "-1"])
def test_a_number_of_partitions_has_bounds(text: str) -> None:
    address = parse_address(f"nats://host/project?partitions={text}", ("partitions",))
    with pytest.raises(InvalidName, match="from 1 to 1024"):
        address.partitions()


def test_recordings_spread_over_the_partitions_and_stay_there() -> None:
    found = [partition_of(f"run.rank{rank}", 32) for rank in range(1000)]
    assert set(found) == set(range(32))
    assert max(map(found.count, range(32))) < 60
    assert partition_of("20261121-digits.rank7", 32) == 17
