"""Wrong command lines and configs: each message names what is wrong and what to write instead.

`wrong_inputs.txt` holds all of them with their exact output. After a change of wording:
`UPDATE_GOLDEN=1 pytest tests/cli/test_wrong_inputs.py`, and read the difference.
"""

from __future__ import annotations

import os
import shlex
import signal
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.support.golden import check_golden
from trainfleet_exporter.cli import main

TABLE = Path(__file__).parent / "wrong_inputs.txt"
PAI = """\
providers:
  - name: pai
    platform: alibaba_pai
    region: cn-hangzhou
    credentials: {access_key_id: id, access_key_secret: hunter2}
"""
MODELARTS = """\
providers:
  - name: modelarts
    platform: huawei_modelarts
    region: cn-north-4
    credentials: {access_key: id, secret_key: hunter2}
"""


@dataclass(frozen=True, slots=True)
class Wrong:
    """What a user types or writes, and the two halves of the answer: the culprit and the fix."""

    culprit: str
    fix: str
    command: str = "--config.file=config.yaml --config.check"
    config: str = ""


def _config(culprit: str, fix: str, right: str, wrong: str, config: str = PAI) -> Wrong:
    """A config with one text of a good one replaced."""
    assert right in config
    return Wrong(culprit, fix, config=config.replace(right, wrong))


WRONG = (
    Wrong('unknown command "dmeo"', 'did you mean "demo"?', "dmeo"),
    Wrong('unknown command "diagnos"', 'did you mean "diagnose"?', "--log.level=debug diagnos"),
    Wrong('unknown command "help"', 'did you mean "--help"?', "help"),
    Wrong('unknown command "config.yaml"', 'did you mean "--config.file=config.yaml"?', "config.yaml"),
    Wrong('unexpected argument "demo"', "one command at a time", "once demo"),
    Wrong('"file:/mnt/lease"', "use --lease=kubernetes", "--config.file=config.yaml --lease=file:/mnt/lease"),
    Wrong('"etcd"', "allowed: kubernetes", "--config.file=config.yaml --lease=etcd"),
    Wrong('unknown flag "--confg.file"', 'did you mean "--config.file"?', "--confg.file=config.yaml"),
    Wrong('unknown flag "-config.file"', 'did you mean "--config.file"?', "-config.file config.yaml"),
    Wrong(
        'unknown flag "--web.listen-address", which is a flag of',
        "the exporter, demo",
        "once --web.listen-address=:10075",
    ),
    Wrong('unknown flag "--json", which is a flag of diagnose', "--help", "--json"),
    Wrong('unknown flag "--config.file", which is a flag of the exporter', "--help", "demo --config.file=x"),
    Wrong('unknown flag "-v"', "--help", "-v"),
    Wrong('unknown command "DEMO"', 'did you mean "demo"?', "DEMO"),
    Wrong("Missing option '--config.file'", "trainfleet-exporter demo", "--log.level=info"),
    Wrong("Missing option '--config.file'", "trainfleet-exporter demo", "once"),
    Wrong("'--config.file'", "a value is required, but missing", "--config.file --config.check"),
    Wrong("'--log.level': 'loud'", "not one of 'debug', 'info', 'warn', 'error'", "demo --log.level loud"),
    Wrong("--web.enable-lifecycle", "does not take a value", "--config.file=config.yaml --web.enable-lifecycle=true"),
    Wrong("'--web.listen-address': found \"10075\"", 'did you mean ":10075"?', "demo --web.listen-address=10075"),
    Wrong('found "localhost"', 'did you mean "localhost:10075"?', "demo --web.listen-address=localhost"),
    Wrong('found "70000"', "allowed: HOST:PORT", "demo --web.listen-address=70000"),
    Wrong("'--log.level': 'DEBUG'", "not one of 'debug'", "demo --log.level=DEBUG"),
    Wrong("'--listen': found \"abc\"", "allowed: a loopback address and a port", "simulate --listen=abc"),
    Wrong(
        "--total-shards=2",
        "--shard=N is required, but missing; allowed: 0 to 1",
        "once --config.file=x --total-shards=2",
    ),
    Wrong("'--days': 0", "1<=x<=9999", "report --ledger=x --days=0"),
    Wrong("'--format': 'json'", "not one of 'text', 'csv'", "report --ledger=x --format=json"),
    Wrong("Missing option '--ledger'", "--help", "report --days=7"),
    Wrong("config.yml: found a file that cannot be read", "allowed: a readable YAML file", "--config.file=config.yml"),
    _config('unknown key "platfrom"', 'did you mean "platform"?', "platform:", "platfrom:"),
    _config('unknown key "regoin"', 'did you mean "region"?', "region: cn-hangzhou", "regoin: cn-hangzhou-b"),
    _config('found "alibaba"', 'did you mean "alibaba_pai"?', "alibaba_pai", "alibaba"),
    _config('found "aliyun"', 'did you mean "alibaba_pai"?', "alibaba_pai", "aliyun"),
    _config('unknown key "accessKeyId"', 'did you mean "access_key_id"?', "access_key_id", "accessKeyId"),
    _config('unknown key "secret_key"', 'did you mean "access_key_secret"?', "access_key_secret", "secret_key"),
    _config('unknown key "access_key_id"', 'did you mean "access_key"?', "access_key:", "access_key_id:", MODELARTS),
    _config('the placeholder "YOUR_ACCESS_KEY_ID"', "allowed: your own value", "id: id", "id: YOUR_ACCESS_KEY_ID"),
    _config('"cn-north-4", which is a region of huawei_modelarts', "such as cn-hangzhou", "cn-hangzhou", "cn-north-4"),
    _config(
        '"cn-hangzhou-b", which is not a known region', 'did you mean "cn-hangzhou"?', "cn-hangzhou", "cn-hangzhou-b"
    ),
    _config(
        '"cn-shanghai", which is a region of alibaba_pai', "such as cn-north", "cn-north-4", "cn-shanghai", MODELARTS
    ),
    _config(
        '"cn-north-4a", which is not a known region',
        'did you mean "cn-north-4"?',
        "cn-north-4",
        "cn-north-4a",
        MODELARTS,
    ),
    _config('"cn-hangzou", which is not a known region', 'did you mean "cn-hangzhou"?', "cn-hangzhou", "cn-hangzou"),
    _config('found "cn-north4"', 'did you mean "cn-north-4"?', "cn-north-4", "cn-north4", MODELARTS),
    _config('"us-west-1", which is a region of alibaba_pai', "such as cn-north", "cn-north-4", "us-west-1", MODELARTS),
    _config('placeholder "your-region"', "allowed: your own value", "cn-hangzhou", "your-region"),
    _config(
        'project_id: found "cn-north-4"',
        "allowed: a project ID",
        "    cred",
        "    project_id: cn-north-4\n    cred",
        MODELARTS,
    ),
    _config('poll_interval: found "60"', 'did you mean "1m"?', "providers", "global: {poll_interval: 60}\nproviders"),
    _config('job_window: found "30"', 'did you mean "30d"?', "    cred", "    job_window: 30\n    cred"),
    _config(
        'poll_interval: found "1.5 min"',
        'did you mean "1m30s"?',
        "providers",
        "global: {poll_interval: 1.5 min}\nproviders",
    ),
    _config("region: required, but missing", "such as cn-hangzhou", "    region: cn-hangzhou\n", ""),
    _config(
        'found "https://pai.example/v1"',
        "without user, path",
        "    cred",
        "    endpoints: {dlc: https://pai.example/v1}\n    cred",
    ),
    _config(
        "found a bare $",
        "allowed: ${NAME}",
        "access_key_secret: hunter2",
        "access_key_secret: $KEY",
    ),
    _config("config.yaml:4: invalid YAML", "could not find expected ':'", "region: cn", "region:cn"),
    _config("config.yaml:5: invalid YAML", "while scanning a quoted scalar", "hunter2}", '"hunter2}'),
    _config("config.yaml:4: invalid YAML", "character '\\t'", "region: cn", "region: \tcn"),
    _config('unknown key "ak"', "put access_key_id under credentials", "    cred", "    ak: hunter2\n    cred"),
    _config('unknown key "jobs_v1"', "leave it out", "    cred", "    collectors: {jobs_v1: {}}\n    cred"),
    _config(
        "collectors.nodes: found",
        "a mapping with enabled, interval",
        "    cred",
        "    collectors: {nodes: true}\n    cred",
    ),
    _config("duplicate key", "each key once", "    cred", "    region: cn-beijing\n    cred"),
    Wrong("credentials: found no credentials here", "allowed: credentials here", config=PAI[: PAI.index("    cred")]),
)


@pytest.fixture(autouse=True)
def _alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """No credentials but those of the config, a working folder of its own, and signals as they were."""
    before = signal.getsignal(signal.SIGHUP)
    monkeypatch.chdir(tmp_path)
    for name in [name for name in os.environ if name.startswith(("ALIBABA_", "HUAWEI"))]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("ALIBABA_CLOUD_ECS_METADATA_DISABLED", "true")
    yield
    signal.signal(signal.SIGHUP, before)


def _answer(wrong: Wrong, capsys: pytest.CaptureFixture[str]) -> str:
    path = Path("config.yaml")
    path.unlink(missing_ok=True)
    if wrong.config:
        path.write_text(wrong.config, encoding="utf-8")
    code = main(shlex.split(wrong.command))
    printed = capsys.readouterr()
    assert (code, printed.out) == (2, "")
    return printed.err


@pytest.mark.parametrize("wrong", WRONG, ids=lambda wrong: wrong.culprit)
def test_the_answer_names_the_culprit_and_the_fix(wrong: Wrong, capsys: pytest.CaptureFixture[str]) -> None:
    said = _answer(wrong, capsys)
    assert wrong.culprit in said
    assert wrong.fix in said[said.index(wrong.culprit) :]
    assert "hunter2" not in said


def test_every_answer_is_exactly_this(capsys: pytest.CaptureFixture[str]) -> None:
    blocks = []
    for wrong in WRONG:
        config = "".join(f"    {line}\n" for line in wrong.config.splitlines())
        blocks.append(f"{config}$ trainfleet-exporter {wrong.command}\n{_answer(wrong, capsys)}")
    check_golden(TABLE, "\n".join(blocks))


def test_a_misspelt_key_hides_no_other_fault(capsys: pytest.CaptureFixture[str]) -> None:
    config = PAI.replace("platform:", "platfrom:").replace("region: cn-hangzhou", "regoin: cn-north-4")
    said = _answer(Wrong("", "", config=f"{config}    collectors: {{jobs_v1: {{}}}}\n"), capsys)
    lines = [line.split(": ")[1] for line in said.splitlines()]
    assert lines == [
        "providers[0].platfrom",
        "providers[0].region",
        "providers[0].regoin",
        "providers[0].collectors.jobs_v1",
    ]


def test_no_suggestion_is_made_from_a_hidden_value(capsys: pytest.CaptureFixture[str]) -> None:
    said = _answer(Wrong("", "", config=PAI.replace("cn-hangzhou", "LTAI5tQnKxYz1234567890ab")), capsys)
    assert "a text that is not shown" in said
    assert "1234567890" not in said
    assert "did you mean" not in said
