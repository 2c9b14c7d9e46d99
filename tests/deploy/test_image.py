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


def _pins(name: str) -> dict[str, str]:
    """Return the distributions in a lock file, with their versions."""
    text = (ROOT / "requirements" / f"{name}.txt").read_text(encoding="utf-8")
    found = re.findall(r"^([a-z0-9][^=\n]*)==(\S+)", text, re.MULTILINE)
    return {distribution.partition("[")[0]: version for distribution, version in found}


def test_what_is_installed_together_has_the_same_pins() -> None:
    build, sbom = _pins("build"), _pins("sbom")
    shared = build.keys() & sbom.keys()
    assert "packaging" in shared
    assert {name: sbom[name] for name in shared} == {name: build[name] for name in shared}


def test_the_image_holds_the_list_of_its_packages() -> None:
    last = DOCKERFILE.index("uninstall -q -y setuptools pip")
    (made,) = re.finditer(r"cyclonedx-py environment /opt/trainfleet-exporter/bin/python .* -o (\S+)", DOCKERFILE)
    assert made.start() > last, "of what is left"
    assert made[1].startswith("/opt/trainfleet-exporter/")


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


def test_a_build_sees_only_what_the_image_is_made_of() -> None:
    lines = [line for line in (ROOT / ".dockerignore").read_text(encoding="utf-8").splitlines() if line[:1] != "#"]
    assert lines[0] == "*"
    admitted = {line[1:] for line in lines if line.startswith("!")}
    copied = re.findall(r"^COPY (?!--from)(.*) \S+$", DOCKERFILE, re.MULTILINE)
    assert {name for names in copied for name in names.split()} == admitted
    assert all((ROOT / name).exists() for name in admitted)


def test_hadolint_has_nothing_to_say() -> None:
    beside = Path(sys.executable).parent / "hadolint"
    program = str(beside) if beside.exists() else need("hadolint")
    done = subprocess.run([program, "Dockerfile"], cwd=ROOT, capture_output=True, text=True)
    assert (done.returncode, done.stdout + done.stderr) == (0, "")


def test_the_script_that_builds_and_runs_it_is_sound() -> None:
    script = ROOT / "deploy" / "image" / "check.sh"
    assert subprocess.run([need("bash"), "-n", script], capture_output=True).returncode == 0
    assert script.stat().st_mode & 0o111
