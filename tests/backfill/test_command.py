"""The command line: what it refuses, in one message that says where and what; what it prints."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from tests.support.configs import loaded, written
from trainfleet_exporter import cli
from trainfleet_exporter.backfill.command import fault_in
from trainfleet_exporter.backfill.work import Flags
from trainfleet_exporter.providers.past import Range
from trainfleet_exporter.providers.registry import Platform, installed_platforms

CONFIG = """\
providers:
  - {name: pai, platform: alibaba_pai, region: cn-hangzhou, credentials: {access_key_id: a, access_key_secret: b}}
"""


def _run(tmp_path: Path, *flags: str, provider: str = "pai") -> int:
    path = tmp_path / "config.yaml"
    path.write_text(CONFIG, encoding="utf-8")
    given = [f"--config.file={path}", f"--provider={provider}", f"--out={tmp_path / 'out'}", *flags]
    try:
        return cli.main(["backfill", *given])
    except SystemExit as error:
        return int(str(error.code))


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (
            ["--from=yesterday", "--to=2026-01-02"],
            "'--from': found \"yesterday\"; allowed: a date such as 2026-11-20, or a time",
        ),
        (
            ["--from=2026-01-02", "--to=2026-01-02T10:00:00"],
            "'--to': found \"2026-01-02T10:00:00\"; allowed: a date such as",
        ),
        (["--from=2026-01-02", "--to=2026-01-02"], "--to: must be later than --from"),
        (["--from=2026-01-02", "--to=2026-01-03", "--label=job_id=x"], "a label that the exporter sets itself"),
        (["--from=2026-01-02", "--to=2026-01-03", "--label=x"], "allowed: name=value"),
        (
            ["--from=0202-11-20", "--to=2026-01-02"],
            "--from: must not be before 2018-01-01T00:00:00Z: no cloud has jobs",
        ),
        (["--from=0001-01-01T00:00+14:00", "--to=2026-01-02"], "--from: must not be before 2018-01-01T00:00:00Z: no"),
        (["--from=2026-01-02"], "Missing option '--to'"),
    ],
)
def test_bad_flags(flags: list[str], words: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert _run(tmp_path, *flags) == 2
    assert words in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_an_unknown_provider_gets_the_names_of_the_others(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert _run(tmp_path, "--from=2026-01-02", "--to=2026-01-03", provider="huawei") == 2
    assert "--provider: 'huawei' is not in the config; it has: pai" in capsys.readouterr().err


def test_the_last_minutes_are_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    soon = (datetime.now(UTC) + timedelta(days=1)).strftime("%Y-%m-%d")
    assert _run(tmp_path, "--from=2026-01-02", f"--to={soon}") == 2
    assert "--to: readings of the last 15 minutes may still change; allowed:" in capsys.readouterr().err


def test_an_unusable_folder_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "out").write_text("a file", encoding="utf-8")
    assert _run(tmp_path, "--from=2026-01-02", "--to=2026-01-03") == 1
    assert f"--out: {tmp_path / 'out'}: " in capsys.readouterr().err


def test_a_platform_without_a_past_is_refused(tmp_path: Path) -> None:
    config, (platform, *_) = loaded(written(tmp_path, CONFIG)), installed_platforms().values()
    without = Platform(name=platform.name, config=platform.config, build=platform.build)
    flags = Flags(provider="pai", wanted=Range(1_600_000_000, 1_600_086_400), out=tmp_path)
    assert fault_in(flags, config, {"alibaba_pai": without}, 2e9) == (
        "--provider: platform alibaba_pai has no past data to backfill"
    )
    assert fault_in(flags, config, installed_platforms(), 2e9) == ""
