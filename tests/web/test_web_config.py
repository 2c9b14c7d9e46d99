"""The web config file as it is read: each fault with its exact message, in file order, and never a secret in it."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest
from cryptography.hazmat.primitives import serialization

from tests.support.certificates import Authority
from tests.web.secured import ANNA
from trainfleet_exporter.cli import main
from trainfleet_exporter.errors import ConfigError
from trainfleet_exporter.web.access import Access
from trainfleet_exporter.web.web_config import WebConfig, read_web_config

OWN = "cert_file: good.pem, key_file: good-key.pem"
HASH = (
    "found <secret>; allowed: a bcrypt hash ($2a$, $2b$ or $2y$) with a cost of 4 to 18, "
    "as htpasswd -nBC 10 USER prints it after the colon"
)
FAULTS = Path(__file__).parent / "web_config_faults.txt"
"""Files, each with its faults after arrows; UPDATE_GOLDEN=1 rewrites these."""
CASES = FAULTS.read_text(encoding="utf-8").rstrip("\n").split("\n\n")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with a certificate `good`, its authority, and things that are none of these."""
    authority = Authority(tmp_path)
    for name in ("good", "other"):
        chain, key = authority.issue(name)
        chain.rename(tmp_path / f"{name}.pem")
        key.rename(tmp_path / f"{name}-key.pem")
    (tmp_path / "empty.pem").write_text("", encoding="utf-8")
    (tmp_path / "garbage.pem").write_text("hunter2 hunter2\n", encoding="utf-8")
    (tmp_path / "long.pem").write_bytes(b"x" * 1_000_001)
    loaded = serialization.load_pem_private_key((tmp_path / "good-key.pem").read_bytes(), password=None)
    locked = loaded.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.BestAvailableEncryption(b"hunter2"),
    )
    (tmp_path / "locked-key.pem").write_bytes(locked)
    return tmp_path


def _write(folder: Path, text: str) -> Path:
    path = folder / "web.yaml"
    path.write_text(text, encoding="utf-8")
    return path


def _faults(folder: Path, text: str) -> list[str]:
    path = _write(folder, text)
    with pytest.raises(ConfigError) as caught:
        Access(path)
    return [str(fault).replace(str(path), "web.yaml") for fault in caught.value.faults]


def _check_case(case: str, found: str) -> None:
    if os.environ.get("UPDATE_GOLDEN"):
        FAULTS.write_text(FAULTS.read_text(encoding="utf-8").replace(case, found), encoding="utf-8")
    else:
        assert found == case


def _good(folder: Path, text: str) -> WebConfig:
    path = _write(folder, text)
    Access(path)
    return read_web_config(path)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.partition("\n")[0].removeprefix("# "))
def test_the_faults_are_exactly_these(folder: Path, case: str) -> None:
    text = "".join(f"{line}\n" for line in case.splitlines() if not line.startswith("=> "))
    reported = _faults(folder, text.replace("ANNA", ANNA))
    assert all(word not in "".join(reported) for word in (ANNA, ANNA[-20:], "hunter2"))
    _check_case(case, f"{text}{''.join(f'=> {fault}' + chr(10) for fault in reported)}".rstrip("\n"))


@pytest.mark.parametrize("text", ["{}\n", "tls_server_config:\nbasic_auth_users:\nhttp_server_config: {headers: }\n"])
def test_a_file_that_says_nothing_is_good(folder: Path, text: str) -> None:
    config = _good(folder, text)
    assert (config.context, config.file.basic_auth_users, config.headers) == (None, {}, {})
    assert config.file.rate_limit.interval == 0


def test_what_a_good_file_means(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for text in ("'$$ ${HOME}'", "$HOME"):  # a dollar stands for itself
        config = _good(folder, f"http_server_config: {{headers: {{Content-Security-Policy: {text}}}}}\n")
        assert config.headers == {"Content-Security-Policy": text.strip("'")}
    for text, seconds in (("100ms", 0.1), ("1m30s", 90.0), ("1.5s", 1.5), ("1h", 3600)):
        config = _good(folder, f"rate_limit: {{interval: {text}, burst: 3}}\n")
        assert config.file.rate_limit.interval == pytest.approx(seconds)
    monkeypatch.chdir("/")  # paths start from the folder of the file
    config = _good(folder, f"tls_server_config: {{{OWN}}}\n")
    assert config.files == (folder / "web.yaml", folder / "good.pem", folder / "good-key.pem")


def test_the_command_checks_both_files(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    example = folder / "config.yaml"
    text = (Path(__file__).parents[2] / "config.example.yaml").read_text(encoding="utf-8")
    example.write_text(re.sub(r"YOUR_\w+", "0123456789abcdef" * 2, text), encoding="utf-8")
    flags = [f"--config.file={example}", "--config.check"]
    good = _write(folder, f"tls_server_config: {{{OWN}}}\n")
    assert main([*flags, f"--web.config.file={good}"]) == 0
    assert f"{good}: the web config is good\n" in capsys.readouterr().out
    assert main([*flags, "--web.config.file="]) == 0
    assert "web config" not in capsys.readouterr().out
    bad = _write(folder, "basic_auth_users: {anna: hunter2}\n")
    assert main([*flags, f"--web.config.file={bad}"]) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err == f"{bad}:1: basic_auth_users.anna: {HASH}\n"
