"""Addresses."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trainfleet_exporter.config.kinds import is_loopback, parse_endpoint, parse_proxy
from trainfleet_exporter.config.secrets import hide_userinfo

PASSWORDS = st.text(st.characters(codec="ascii"), min_size=1).map(lambda text: f"hunter2{text}")


_BAD = (
    "pai pai:80 //pai ftp://pai https:///x https:// https://:80 https://pai: https://pai:x https://pai:0 "
    "https://pai:65536 https://pai/x https://pai? https://pai# https://pai/?x=y https://pä.example https://[::1 "
    "https://[zz] https://pai\\x https://-pai https://pai%2f https://[v1.x]"
)


@pytest.mark.parametrize(
    "text",
    ["", "https://p ai", "https://pai\n", "https://pa\ti", "https://pai\0", "https://" + "a" * 300, *_BAD.split()],
)
def test_anything_else_is_no_address(text: str) -> None:
    for parse in (parse_endpoint, parse_proxy):
        with pytest.raises(ValueError):  # noqa: PT011 -- the rule names the reason, not this error
            parse(text)


@pytest.mark.parametrize("url", ["http://localhost", "http://127.0.0.1:1", "http://127.9.9.9", "https://[::1]:1"])
def test_loopback(url: str) -> None:
    assert is_loopback(url)


@pytest.mark.parametrize(
    "url", ["http://localhost.example", "http://10.0.0.1", "http://0.0.0.0", "http://128.0.0.1", "http://[::2]"]
)
def test_not_loopback(url: str) -> None:
    assert not is_loopback(url)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("http://proxy:1", "http://proxy:1"),
        ("http://user:hunter2@proxy:1", "http://<secret>@proxy:1"),
        ("http://user:hunter2//a@b@proxy:1", "http://<secret>@proxy:1"),
        ("user:hunter2@proxy", "<secret>@proxy"),
        ("//user:hunter2@proxy", "//<secret>@proxy"),
        ("http:/user:hunter2@proxy", "<secret>@proxy"),
    ],
)
def test_the_user_is_hidden(text: str, shown: str) -> None:
    assert hide_userinfo(text) == shown


@given(st.sampled_from(["", "//", "http://", "htp:/"]), PASSWORDS)
def test_no_password_shows(scheme: str, password: str) -> None:
    assert "hunter2" not in hide_userinfo(f"{scheme}user:{password}@proxy")
