"""Planted secrets, and whole processes: whatever a command prints, serves or writes holds none of them.

Three servers stand for the clouds: a simulated one that knows the keys (its jobs hold secrets of their own), and in
its stead one that quotes whatever it is asked, or fails, or redirects.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest

from tests.backfill.rig import MIDNIGHT, simulated
from tests.e2e.processes import COMMAND, eventually, running_cloud
from tests.secrets.kinds import (
    EXTERNAL_ID,
    ID_TOKEN,
    KEY_ID,
    KEY_SECRET,
    KINDS,
    PLANTED,
    PROXY_PASSWORD,
    ROLE_ARN,
    with_issued,
    write,
)
from tests.support.accounts import config_text, provider
from tests.support.configs import written
from tests.support.planted import hits, quoted_proofs
from trainfleet_exporter.backfill.work import Unfinished
from trainfleet_exporter.providers.past import Range
from trainfleet_simulator import Fault, Simulator
from trainfleet_simulator.identity import Key
from trainfleet_simulator.world.nouns import PLANTED_SECRETS

MISPLACED = PLANTED.plant("a secret in a wrong place", special=False)
HARD = PLANTED.plant("a hard one in a wrong place")
for _number, _planted in enumerate(PLANTED_SECRETS):
    PLANTED.secrets[f"a secret of a job, {_number}"] = _planted

PAGES = ("/", "/metrics", "/config", "/-/healthy", "/-/ready", "/-/reload", "/nothing-here", f"/?a={'b' * 8}")
OPENMETRICS = "application/openmetrics-text;version=1.0.0"
DEBUG = "--log.level=debug"
BEGINS = MIDNIGHT


@pytest.fixture(scope="module")
def cloud() -> Iterator[tuple[Simulator, str]]:
    with running_cloud(seed=3, clouds=("pai", "modelarts"), population=8) as (simulator, url):
        simulator.sts.permanent = simulator.agency.permanent = Key(KEY_ID, KEY_SECRET)
        simulator.sts.external_id = EXTERNAL_ID
        simulator.sts.oidc_token = ID_TOKEN
        yield simulator, url


def _environ(more: Mapping[str, str] | None = None) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("ALIBABA_", "HUAWEICLOUD_"))}
    return kept | {"PYTHONWARNINGS": "error", "HOME": "/nowhere", **(more or {})}


def _run(*arguments: str, environ: Mapping[str, str] | None = None) -> tuple[int, dict[str, bytes]]:
    """A command to its end: its exit code, and what it printed."""
    ended = subprocess.run([*COMMAND, *arguments], capture_output=True, timeout=60, env=_environ(environ), check=False)
    return ended.returncode, {"stdout": ended.stdout, "stderr": ended.stderr}


def _config(folder: Path, url: str, *, http: Mapping[str, str] | None = None) -> tuple[Path, dict[str, str]]:
    """Two providers: a role (keys of variables, an external id), and ModelArts by keys of files."""
    _, _ = write(folder, KINDS["modelarts: keys of files"], url)
    limits = {"requests_per_second": 500, "concurrency": 8}
    role = {"access_key_id": "${PAI_ID}", "access_key_secret": "${PAI_SECRET}"}
    role |= {"role_arn": ROLE_ARN, "external_id": "${PAI_EXTERNAL}"}
    keys = {"access_key_file": "id", "secret_key_file": "secret"}
    collectors = {"jobs_v1": {"enabled": True}, "nodes": {"enabled": True}}
    providers = [
        provider("pai", url, credentials=role, limits={**limits, "monthly_calls": {"dlc": 1000000}}),
        provider("modelarts", url, credentials=keys, limits=limits, collectors=collectors, project_id=None, http=http),
    ]
    labels = {"job_labels": ["team"]}
    path = written(folder, config_text(providers, poll_interval="10s", poll_timeout="8s", metrics=labels))
    return path, {"PAI_ID": KEY_ID, "PAI_SECRET": KEY_SECRET, "PAI_EXTERNAL": EXTERNAL_ID}


@contextmanager
def _faults(simulator: Simulator, *faults: Fault) -> Iterator[None]:
    for fault in faults:
        simulator.faults.add(fault)
    try:
        yield
    finally:
        simulator.faults.clear()


_QUOTE = f"{KEY_ID} may not"
QUOTING = {"Code": "Forbidden", "Message": _QUOTE, "error_code": "X.0", "error_msg": _QUOTE}


def _failures() -> list[Fault]:
    """A refusal that quotes the key in each cloud's way, a page of a proxy, a redirect; what lists jobs works."""
    location = {"location": f"https://me:{MISPLACED}@x.test/{MISPLACED}?token={MISPLACED}"}
    return [
        Fault({"operation": "GetJob"}, status=403, body=QUOTING),
        Fault({"operation": "ListPools"}, status=403, body=QUOTING),
        Fault({"operation": "ListQuotas"}, status=502, body=f"<html>{KEY_ID}</html>"),
        Fault({"api": "aom"}, status=307, body="", headers=location),
    ]


def _serve(folder: Path, config: Path, environ: Mapping[str, str], *flags: str) -> dict[str, bytes]:
    """The daemon until it has polled: what it logged, printed, and served in every format."""
    log, outputs = folder / "log", dict[str, bytes]()
    with log.open("wb") as stream:
        process = subprocess.Popen(
            [*COMMAND, f"--config.file={config}", "--web.listen-address=127.0.0.1:0", *flags],
            stdout=subprocess.PIPE,
            stderr=stream,
            env=_environ(environ),
        )
    try:

        def address() -> str:
            assert process.poll() is None, log.read_text()
            started = re.search(r'address"?[=:] ?"?127\.0\.0\.1:(\d+)', log.read_text())
            return "" if started is None else started[1]

        with httpx.Client(base_url=f"http://127.0.0.1:{eventually(address, what='the port')}", trust_env=False) as http:
            eventually(lambda: http.get("/-/ready").status_code == 200, what="the first polls")
            for page in PAGES:
                for accept in ("*/*", OPENMETRICS):
                    answer = http.get(page, headers={"accept": accept, "authorization": f"Bearer {MISPLACED}"})
                    outputs[f"{page} as {accept}"] = answer.content + str(answer.headers).encode()
            config.write_text(BAD_FILES["where a number belongs"], encoding="utf-8")
            outputs["a reload of a bad file"] = http.post("/-/reload").content
        process.send_signal(signal.SIGTERM)
        stdout, _ = process.communicate(timeout=10)
    finally:
        if process.poll() is None:
            process.kill()
            process.wait()
    assert process.returncode == 0
    return outputs | {"stdout": stdout, "log": log.read_bytes()}


@pytest.mark.long
@pytest.mark.parametrize("form", ["logfmt", "json"])
def test_the_daemon(form: str, cloud: tuple[Simulator, str], tmp_path: Path) -> None:
    simulator, url = cloud
    config, environ = _config(tmp_path, url)
    with _faults(simulator, *_failures()):
        outputs = _serve(tmp_path, config, environ, DEBUG, "--web.enable-lifecycle", f"--log.format={form}")
    assert b"<secret> may not" in outputs["log"]
    assert b"not shown, for it may be a secret" in outputs["a reload of a bad file"]
    assert b"redirected to x.test" in outputs["log"]
    assert b"trainfleet_job_info{" in outputs["/metrics as */*"]
    assert b"external_id: <secret>" in outputs["/config as */*"]
    assert with_issued(simulator).hits(outputs) == []


@pytest.mark.long
@pytest.mark.parametrize("arguments", [("once",), ("diagnose",), ("diagnose", "--json")], ids=" ".join)
@pytest.mark.parametrize("failing", [False, True], ids=["well", "failing"])
def test_commands(arguments: tuple[str, ...], failing: bool, cloud: tuple[Simulator, str], tmp_path: Path) -> None:
    simulator, url = cloud
    config, environ = _config(tmp_path, url)
    with _faults(simulator, *(_failures() if failing else ())):
        status, outputs = _run(*arguments, f"--config.file={config}", DEBUG, environ=environ)
    assert status == int(failing), outputs["stderr"]
    assert len(outputs["stdout"]) > 1000
    if failing:
        assert b"<secret> may not" in outputs["stdout"] + outputs["stderr"]
    assert with_issued(simulator).hits(outputs) == []


QUOTED = {
    "apis": {"dlc": "quoted", "paistudio": "quoted_at_length", "modelarts": "quoted_at_length", "aom": "quoted"},
    "others": {"sts": "quoted_at_length", "aiworkspace": "quoted", "modelarts": "quoted"},
}


@pytest.mark.long
@pytest.mark.parametrize("apis", QUOTED)
@pytest.mark.parametrize("arguments", [("once",), ("diagnose",), ("diagnose", "--json")], ids=" ".join)
def test_commands_that_are_refused_with_quotes(
    arguments: tuple[str, ...], apis: str, cloud: tuple[Simulator, str], tmp_path: Path
) -> None:
    simulator, url = cloud
    config, environ = _config(tmp_path, url)
    simulator.take_quoted()
    with _faults(simulator, *(Fault({"api": api}, kind=kind) for api, kind in QUOTED[apis].items())):
        status, outputs = _run(*arguments, f"--config.file={config}", DEBUG, environ=environ)
    assert status == 1, outputs["stderr"]
    assert b"<secret>" in outputs["stdout"] + outputs["stderr"]
    secrets = with_issued(simulator).secrets | quoted_proofs(simulator)
    assert len(secrets) > len(with_issued(simulator).secrets)
    assert hits(outputs, secrets) == []


@pytest.mark.parametrize("api", ["dlc", "cloudmonitor", "modelarts", "aom"])
@pytest.mark.parametrize("kind", ["quoted", "quoted_at_length"])
async def test_a_backfill_that_is_refused_with_quotes(
    kind: str, api: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("DEBUG")
    outputs: dict[str, str] = {}
    secrets: dict[str, str] = {}
    async with simulated("modelarts" if api in ("modelarts", "aom") else "pai", tmp_path) as rig:
        rig.simulator.faults.add(Fault({"api": api}, kind=kind))
        try:
            _, words = await rig.backfill(tmp_path / "out", Range(MIDNIGHT + 3600, MIDNIGHT + 7200))
        except Unfinished as error:
            words = str(error)
        outputs.update(words=words, reported="\n".join(rig.printed), log=caplog.text)
        secrets.update(quoted_proofs(rig.simulator))
    shown = "".join(outputs.values())
    assert "<secret>" in shown if kind == "quoted" else "yyyyyyyy" in shown
    assert hits(outputs, secrets) == []


@pytest.mark.long
def test_the_daemon_when_clouds_quote(cloud: tuple[Simulator, str], tmp_path: Path) -> None:
    simulator, url = cloud
    config, environ = _config(tmp_path, url)
    simulator.take_quoted()
    with _faults(simulator, *(Fault({"api": api}, kind=kind) for api, kind in QUOTED["apis"].items())):
        outputs = _serve(tmp_path, config, environ, DEBUG, "--web.enable-lifecycle")
    assert b"<secret>" in outputs["log"]
    assert b"&lt;secret&gt;" in outputs["/ as */*"]
    assert hits(outputs, with_issued(simulator).secrets | quoted_proofs(simulator)) == []


def test_a_wrong_key_and_a_proxy_that_is_not_there(cloud: tuple[Simulator, str], tmp_path: Path) -> None:
    simulator, url = cloud
    config, environ = _config(tmp_path, url, http={"proxy_url": f"http://me:{PROXY_PASSWORD}@127.0.0.1:9"})
    wrong = environ | {"PAI_SECRET": HARD}
    status, outputs = _run("diagnose", f"--config.file={config}", DEBUG, environ=wrong)
    assert status == 1
    assert b"the signature was refused" in outputs["stdout"] + outputs["stderr"]
    assert b"proxy: connection refused" in outputs["stdout"] + outputs["stderr"]
    assert with_issued(simulator).hits(outputs) == []


GOOD = """
providers:
  - name: p
    platform: alibaba_pai
    region: cn-hangzhou
    credentials: {access_key_id: some-id, access_key_secret: some-secret}
"""
_PROVIDER = "    credentials: {access_key_id: some-id, access_key_secret: some-secret}\n"
_S, _H = MISPLACED, json.dumps(HARD)
_NAMED = GOOD.replace("name: p", f"name: {_S}")
_HUAWEI = GOOD.replace(_PROVIDER, "    credentials: {access_key: some-id, secret_key: some-secret}\n").replace(
    "alibaba_pai", "huawei_modelarts"
)


def _with(line: str) -> str:
    return f"{GOOD}    {line}\n"


def _credentials(text: str) -> str:
    return GOOD.replace(_PROVIDER, f"    credentials: {text}\n")


BAD_FILES = {
    "where a number belongs": _with(f"limits: {{requests_per_second: {_S}, concurrency: {_H}}}"),
    "where a duration belongs": f"global: {{poll_interval: {_S}, poll_timeout: {_H}}}\n" + GOOD,
    "where a flag belongs": _with(f"collectors: {{pods: {{enabled: {_S}}}, nodes: {{enabled: {_H}}}}}"),
    "where a choice belongs": _with(f"collectors: {{usage: {{source: {_S}}}}}"),
    "as a region": GOOD.replace("cn-hangzhou", _S),
    "as a hard region": GOOD.replace("cn-hangzhou", _H),
    "as a platform": GOOD.replace("alibaba_pai", _S),
    "as a hard platform": GOOD.replace("alibaba_pai", _H),
    "as a name twice": _NAMED + _NAMED.split("\n", 2)[2],
    "as workspaces": _with(f"workspaces: {_S}"),
    "as a regular expression": _with(f"jobs: {{include: {{name: ['({_S}', '(?P={_S})']}}}}"),
    "as a glob": f"global: {{metrics: {{deny: [{_H}, '{_S} ']}}}}\n" + GOOD,
    "as a file of certificates": _with(f"http: {{ca_file: {_S}}}"),
    "as a ledger file": f"global: {{ledger_file: {_S}/x}}\n" + GOOD,
    "in an endpoint's user": _with(f"endpoints: {{dlc: 'https://me:{_S}@pai.test', sts: 'https://{_S}@pai.test'}}"),
    "in an endpoint's path": _with(f"endpoints: {{dlc: 'https://pai.test/{_S}', sts: 'https://x.test?token={_S}'}}"),
    "as an endpoint": _with(f"endpoints: {{dlc: {_S}, sts: {_H}}}"),
    "in a proxy's user": _with(f"http: {{proxy_url: 'socks5://me:{_S}@proxy.test:1080'}}"),
    "in a hard proxy": _with(f"http: {{proxy_url: {json.dumps(f'http://me:{HARD}@proxy.test:port')}}}"),
    "beside a key that is wrong": _credentials(f"{{access_key_id: x, acess_key_secret: {_S}, secret: {_H}}}"),
    "as a key": _with(f"{_S}: 1") + f"    limits: {{{_S}: 1, monthly_calls: {{{_S}: 1}}}}\n",
    "as a key with its value": _credentials(f"{{access_key_secret:{_S}}}"),
    "in place of the section": _credentials(_S),
    "as a list": _credentials(f"[{_S}, {_H}]"),
    "as a path of a secret": _credentials(f"{{access_key_id: x, access_key_secret_file: {_S}}}"),
    "as a path of another": _credentials(f"{{access_key_id_file: {_H}, access_key_secret_file: {_S}/{_S}}}"),
    "twice": _credentials(f"{{access_key_id: x, access_key_secret: {_S}, access_key_secret_file: {_S}}}"),
    "as a profile": _credentials(f"{{profile: {_S}}}"),
    "as a hard profile": _credentials(f"{{profile: {_H}}}"),
    "as a role": _credentials(f"{{role_arn: {_S}, access_key_id: {_H}, access_key_secret: {_H}}}"),
    "as a machine's role": _credentials(f"{{ecs_ram_role: '{_S} !'}}"),
    "as a reference": _credentials(f"{{access_key_id: x, access_key_secret: '${{{_S}}}'}}"),
    "as a broken reference": _credentials(f"{{access_key_id: x, access_key_secret: '${{{_S} }}'}}"),
    "as a variable where a number belongs": _with(
        "limits: {requests_per_second: '${PLANTED}', concurrency: '${HARD}'}"
    ),
    "as a variable in a name": GOOD.replace("cn-hangzhou", "'${PLANTED}'").replace("name: p", "name: '${HARD}\n'"),
    "as a tag": _credentials(f"{{access_key_id: !{_S} x, access_key_secret: x}}"),
    "as an alias": _credentials(f"{{access_key_id: *{_S}, access_key_secret: x}}"),
    "as an anchor twice": _credentials(f"{{access_key_id: &{_S} x, access_key_secret: &{_S} x, y: 1}}"),
    "not closed": _credentials(f'{{access_key_id: x, access_key_secret: "{_S}}}'),
    "with a wrong escape": _credentials(f'{{access_key_id: x, access_key_secret: "{_S}\\q"}}'),
    "with two lines": _credentials(f'{{access_key_id: "{_S}\\n{_S}", access_key_secret: x}}'),
    "before the file": f"{_S}\n{GOOD}",
    "as the whole file": _S,
    "as a second document": f"{GOOD}\n---\n{_S}\n",
    "as a project": _HUAWEI + f"    project_id: '{_S}!'\n",
}
BAD_ENVIRONMENTS: dict[str, tuple[str, dict[str, str]]] = {
    "half a key": ("", {"ALIBABA_CLOUD_ACCESS_KEY_SECRET": _S}),
    "a key of two lines": ("", {"ALIBABA_CLOUD_ACCESS_KEY_ID": f"{_S}\n{_S}", "ALIBABA_CLOUD_ACCESS_KEY_SECRET": HARD}),
    "a token for its file": (
        "",
        {
            "ALIBABA_CLOUD_OIDC_PROVIDER_ARN": "acs:ram::1:oidc-provider/x",
            "ALIBABA_CLOUD_ROLE_ARN": "acs:ram::1:role/x",
            "ALIBABA_CLOUD_OIDC_TOKEN_FILE": _S,
        },
    ),
    "a URI with a user": ("", {"ALIBABA_CLOUD_CREDENTIALS_URI": f"http://me:{_S}@127.0.0.1/{_S}"}),
    "a secret for the file of profiles": (
        "    credentials: {profile: nobody}\n",
        {"ALIBABA_CLOUD_CREDENTIALS_FILE": _S, "ALIBABA_CLOUD_PROFILE": HARD},
    ),
    "half a key of the other cloud": ("huawei", {"HUAWEICLOUD_SDK_SK": _S}),
    "a token for its file, of the other cloud": (
        "huawei",
        {
            "HUAWEICLOUD_OIDC_PROVIDER_URN": "x",
            "HUAWEICLOUD_OIDC_AGENCY_URN": "x",
            "HUAWEICLOUD_OIDC_TOKEN_FILE": _S,
            "HUAWEICLOUD_OIDC_DURATION_SECONDS": _S,
        },
    ),
    "a secret for a duration": (
        "huawei",
        {
            "HUAWEICLOUD_OIDC_PROVIDER_URN": "x",
            "HUAWEICLOUD_OIDC_AGENCY_URN": "x",
            "HUAWEICLOUD_OIDC_ID_TOKEN": HARD,
            "HUAWEICLOUD_OIDC_DURATION_SECONDS": _S,
        },
    ),
}
BAD_ENVIRONMENTS = {
    name: (
        GOOD.replace(_PROVIDER, given)
        if given != "huawei"
        else GOOD.replace(_PROVIDER, "").replace("alibaba_pai", "huawei_modelarts"),
        environ | {"ALIBABA_CLOUD_ECS_METADATA_DISABLED": "true"},
    )
    for name, (given, environ) in BAD_ENVIRONMENTS.items()
}
CASES = {name: (text, {"PLANTED": _S, "HARD": HARD}) for name, text in BAD_FILES.items()} | BAD_ENVIRONMENTS


@pytest.mark.parametrize("name", CASES)
def test_secret_in_a_wrong_place_is_not_quoted(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """In this process, as the command runs it: some fifty processes would take most of a minute."""
    text, environ = CASES[name]
    monkeypatch.chdir(tmp_path)
    for variable, value in (environ | {"HOME": "/nowhere"}).items():
        monkeypatch.setenv(variable, value)
    status = _check_here(tmp_path, text)
    shown = capfd.readouterr()
    assert status == 2, shown
    assert shown.err.startswith(str(tmp_path / "config.yaml"))
    assert PLANTED.hits({"stdout": shown.out, "stderr": shown.err}) == []


def _check_here(folder: Path, text: str) -> int:
    from trainfleet_exporter.cli import main  # noqa: PLC0415 - it sets up the log of the process that runs it

    path = folder / "config.yaml"
    path.write_text(text, encoding="utf-8")
    return main([f"--config.file={path}", "--config.check", DEBUG])
