"""The Dockerfile, checked without building it; deploy/image/check.sh builds and runs the image."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

from tests.support.programs import need

ROOT = Path(__file__).parents[2]
DOCKERFILE = (ROOT / "Dockerfile").read_text(encoding="utf-8").replace("\\\n", " ")


def _last(instruction: str) -> str:
    """Return the arguments of the last such instruction, which is in the final stage."""
    *_, last = re.finditer(rf"^{instruction} +(.*)$", DOCKERFILE, re.MULTILINE)
    return last[1]


def test_the_base_is_pinned_by_its_digest() -> None:
    (base,) = re.findall(r"^ARG BASE=(.*)$", DOCKERFILE, re.MULTILINE)
    assert re.fullmatch(r"docker\.io/library/python:3\.13-slim-bookworm@sha256:[0-9a-f]{64}", base)
    name, _, _ = base.partition("@")
    assert f"docker buildx imagetools inspect {name} " in DOCKERFILE


def test_hashes_are_required_and_nothing_else_is_fetched() -> None:
    installs = re.findall(
        r"\bpip\S* (?:--\S+ )*(?:install|wheel) (.*?)(?:&&|$)", DOCKERFILE.replace("${pip}", "pip"), re.MULTILINE
    )
    assert len(installs) == 4
    assert all("--require-hashes -r requirements/" in each or "--no-index" in each for each in installs)
    assert not re.search(r"\b(apt-get|curl|wget|ADD)\b", DOCKERFILE)


def test_image_runs_unprivileged_with_our_health_check() -> None:
    assert _last("USER") == "65532:65532"
    health = _last("HEALTHCHECK")
    assert json.loads(health[health.index("[") :]) == ["trainfleet-exporter", "healthcheck"]
    assert json.loads(_last("ENTRYPOINT")) == ["trainfleet-exporter"]
    assert _last("EXPOSE") == "10075"


def test_the_revision_is_stamped_where_the_exporter_looks_for_it(tmp_path: Path) -> None:
    script = re.search(r"sed -i (\"s\|.*?\|\") (src/\S+)", DOCKERFILE)
    assert script
    copy = tmp_path / "__init__.py"
    copy.write_text((ROOT / script[2]).read_text(encoding="utf-8"), encoding="utf-8")
    subprocess.run(
        ["sh", "-c", f"sed -i {script[1]} {copy}"], env={"REVISION": "abc123", "PATH": "/usr/bin:/bin"}, check=True
    )
    found: dict[str, object] = {}
    exec(copy.read_text(encoding="utf-8"), found)
    assert found["__revision__"] == "abc123"


def test_hadolint_has_nothing_to_say() -> None:
    beside = Path(sys.executable).parent / "hadolint"
    program = str(beside) if beside.exists() else need("hadolint")
    done = subprocess.run([program, "Dockerfile"], cwd=ROOT, capture_output=True, text=True)
    assert (done.returncode, done.stdout + done.stderr) == (0, "")
