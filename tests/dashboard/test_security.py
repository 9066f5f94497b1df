"""Closed by default: hosts, origins, tokens, headers."""

import pytest
from mindscope.dashboard import Settings, SettingsError, create_app, new_token
from mindscope.dashboard.settings import is_loopback

TOKEN = "correct-horse-battery-staple"


@pytest.fixture(scope="module")
def local(recorded_store):
    return create_app(recorded_store).server


@pytest.fixture(scope="module")
def public(recorded_store):
    return create_app(recorded_store, Settings(host="0.0.0.0", token=TOKEN)).server


def test_on_this_machine_no_token_is_asked(local):
    assert local.test_client().get("/").status_code == 200


@pytest.mark.parametrize(
    "host", ["evil.example", "evil.example:8050", "127.0.0.1.evil.example", "10.0.0.7", "[::2]", ""]
)
def test_another_host_name_is_refused(local, host):
    assert local.test_client().get("/", headers={"Host": host}).status_code in (400, 403)


@pytest.mark.parametrize("host", ["127.0.0.1:8050", "localhost", "[::1]:8050"])
def test_this_machine_has_three_names(local, host):
    assert local.test_client().get("/healthz", headers={"Host": host}).status_code == 200


def test_a_callback_from_a_foreign_page_is_refused(local):
    answer = local.test_client().post("/_dash-update-component", json={}, headers={"Origin": "http://evil.example"})
    assert answer.status_code == 403


@pytest.mark.parametrize("path", ["/", "/run", "/_dash-layout", "/_dash-dependencies", "/assets/app.css", "/healthz"])
def test_without_the_token_nothing_is_served(public, path):
    answer = public.test_client().get(path, headers={"Host": "10.0.0.7"})
    assert answer.status_code == 401
    assert "token" in answer.get_data(as_text=True)
    assert public.test_client().post("/_dash-update-component", json={}).status_code == 401


def test_the_token_is_asked_once_and_leaves_the_address(public):
    client = public.test_client()
    answer = client.get(f"/run?token={TOKEN}&run=a%26b")
    assert answer.status_code == 303
    assert answer.headers["Location"] == "/run?run=a%26b"
    cookie = answer.headers["Set-Cookie"]
    assert "HttpOnly" in cookie
    assert "SameSite=Strict" in cookie
    assert TOKEN not in cookie
    assert client.get("/").status_code == 200


def test_a_wrong_token_and_a_forged_cookie_are_refused(public):
    client = public.test_client()
    assert client.get("/?token=wrong").status_code == 401
    client.set_cookie("mindscope_8050", TOKEN)
    assert client.get("/").status_code == 401


def test_programs_may_bring_the_token_in_a_header(public):
    client = public.test_client()
    assert client.get("/", headers={"Authorization": f"Bearer {TOKEN}"}).status_code == 200
    assert client.get("/", headers={"Authorization": "Bearer wrong"}).status_code == 401


def test_redirects_never_leave_the_server(public):
    answer = public.test_client().get(f"/?token={TOKEN}", environ_overrides={"PATH_INFO": "//evil.example/"})
    assert answer.headers["Location"].startswith("/evil.example")


def test_rebinding_needs_a_name_and_names_are_refused_on_every_address(public):
    assert public.test_client().get("/", headers={"Host": "evil.example"}).status_code == 403


def test_an_address_that_others_reach_demands_a_token():
    with pytest.raises(SettingsError, match="needs a token"):
        Settings(host="0.0.0.0")
    assert len(new_token()) >= 40
    assert new_token() != new_token()


@pytest.mark.parametrize(
    ("wrong", "words"),
    [({"port": 70000}, "0 to 65535"), ({"token": "short"}, "at least 16"), ({"refresh_s": 0}, "above 0")],
)
def test_settings_say_what_they_expect(wrong, words):
    with pytest.raises(SettingsError, match=words):
        Settings(**wrong)


@pytest.mark.parametrize(
    ("host", "is_own"),
    [("127.0.0.1", True), ("localhost", True), ("::1", True), ("0.0.0.0", False), ("example.org", False)],
)
def test_only_loopback_addresses_are_closed(host, is_own):
    assert is_loopback(host) is is_own


def test_the_policy_names_no_other_host_and_no_eval(local):
    policy = local.test_client().get("/").headers["Content-Security-Policy"]
    assert "http" not in policy
    assert "eval" not in policy
    assert "unsafe-inline" not in policy.split("script-src")[1].split(";")[0]
