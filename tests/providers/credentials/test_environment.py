"""Environment variables and files of profiles, as the links of any chain read them."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.providers.credentials.third_cloud import FORMAT
from trainfleet_exporter.config import Secret
from trainfleet_exporter.errors import AccessDenied
from trainfleet_exporter.providers.credentials import Environment, FirstOf, GivenKeys, MachineRole, ProfileFile


def test_all_variables_of_a_link_or_none() -> None:
    environ = Environment({"A": "1", "B": "2", "EMPTY": ""})
    assert environ.has_all("A", "B")
    assert not environ.has_all("C", "D", "EMPTY")
    assert environ.passed == ["the environment sets no C"]
    with pytest.raises(ValueError, match="credentials") as caught:
        environ.has_all("A", "EMPTY", "C", "B")
    assert "(it sets A and B without EMPTY and C)" in str(caught.value)


def test_keys_of_variables_may_have_a_token() -> None:
    variables = {"ID": "id", "SECRET": "planted"}
    given = GivenKeys(Secret("id"), Secret("planted"))
    assert Environment(variables).keys("ID", "SECRET", "TOKEN") == given
    with_token = Environment({**variables, "TOKEN": "token"}).keys("ID", "SECRET", "TOKEN")
    assert with_token == GivenKeys(Secret("id"), Secret("planted"), Secret("token"))
    with pytest.raises(ValueError, match="credentials") as caught:
        Environment({**variables, "SECRET": "planted\n"}).keys("ID", "SECRET", "TOKEN")
    assert "(SECRET cannot be used: it contains a line break" in str(caught.value)
    assert "planted" not in str(caught.value)


@pytest.mark.parametrize(
    ("uri", "reported"),
    [
        ("http://127.0.0.1:7/a?b=planted", ""),
        ("https://keys.test", ""),
        ("http://169.254.170.2/planted", ""),
        ("http://keys.test/planted", "uses plain http to another machine"),
        ("ftp://127.0.0.1/planted", "is not an http or https address"),
        ("http://127.0.0.1:7/planted ä", "is not an http or https address"),
    ],
)
def test_address_with_secrets_needs_https_or_loopback(uri: str, reported: str) -> None:
    environ = Environment({"URI": uri})

    def near(base_url: str) -> bool:
        return base_url in {"http://127.0.0.1:7", "http://169.254.170.2"}

    if reported:
        with pytest.raises(ValueError, match="credentials") as caught:
            environ.keys_uri("URI", plain_http=near)
        assert f"URI {reported}" in str(caught.value)
        assert "planted" not in str(caught.value)
    else:
        found = environ.keys_uri("URI", plain_http=near)
        assert found is not None
        assert f"{found.base_url}{found.target.reveal()}".startswith(uri)
        assert "planted" not in repr(found)


def test_a_chain_needs_a_link_to_ask() -> None:
    environ = Environment({})
    assert environ.keys("ID", "SECRET", "TOKEN") is None
    assert environ.keys_uri("URI") is None
    passed = ("the environment sets no ID", "the environment sets no URI")
    assert environ.first_of(MachineRole()) == FirstOf((MachineRole(),), passed)
    with pytest.raises(ValueError, match="credentials") as caught:
        environ.first_of()
    assert f"({'; '.join(passed)})" in str(caught.value)


@pytest.mark.parametrize(
    ("content", "reported"),
    [
        (None, "~/profiles: No such file or directory"),
        (b"#" * 65537, "~/profiles: it is longer than 65536 bytes"),
        (b"planted", "~/profiles: it is not an INI file"),
        (b"[a]\nb = \xff", "~/profiles: it is not an INI file"),
    ],
)
def test_a_file_of_profiles_that_cannot_be_used_is_not_quoted(
    tmp_path: Path, content: bytes | None, reported: str
) -> None:
    path = tmp_path / "profiles"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(AccessDenied) as caught:
        ProfileFile(path, "~/profiles", FORMAT).read()
    assert str(caught.value) == reported


def test_a_file_of_profiles_has_sections_and_no_defaults(tmp_path: Path) -> None:
    path = tmp_path / "profiles"
    path.write_bytes(b"\xef\xbb\xbf[DEFAULT]\na = 1\n[team]\nB = 100% # two\n")
    assert ProfileFile(path, "~/profiles", FORMAT).read() == {"DEFAULT": {"a": "1"}, "team": {"b": "100% # two"}}
