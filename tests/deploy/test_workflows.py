"""The GitHub workflows are valid and match the Makefile and the local CI script."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).parent.parent.parent
WORKFLOWS = {path.name: path for path in sorted((ROOT / ".github" / "workflows").iterdir())}
LOADED: dict[str, dict[str, Any]] = {
    name: yaml.safe_load(path.read_text(encoding="utf-8")) for name, path in WORKFLOWS.items()
}
STEPS = [step for each in LOADED.values() for job in each["jobs"].values() for step in job.get("steps", [])]
TARGETS = set(re.findall(r"^([a-z.$()A-Z/-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))


@pytest.mark.parametrize(
    ("schema", "files"),
    [("github-workflows", [*WORKFLOWS.values()]), ("dependabot", [ROOT / ".github" / "dependabot.yml"])],
)
def test_workflows_fit_the_schemas_of_github(schema: str, files: list[Path]) -> None:
    command = [sys.executable, "-m", "check_jsonschema", "--builtin-schema", f"vendor.{schema}"]
    done = subprocess.run([*command, *files], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout


def test_actions_and_containers_are_pinned_by_content() -> None:
    """Each action by commit, with its release as a comment that Dependabot updates."""
    text = "".join(path.read_text(encoding="utf-8") for path in WORKFLOWS.values())
    used = re.findall(r"uses: (?!\./)(.*)", text)
    assert len(used) >= 10
    assert [name for name in used if not re.fullmatch(r"[\w-]+/[\w-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+", name)] == []
    assert len(set(used)) == len({name.partition("@")[0] for name in used}), "one action, two commits"
    job = LOADED["ci.yaml"]["jobs"]["test"]
    assert job["container"].endswith("@${{ matrix.digest }}")
    assert all(re.fullmatch("sha256:[0-9a-f]{64}", each["digest"]) for each in job["strategy"]["matrix"]["include"])


def test_scripts_are_valid_shell() -> None:
    for script in [re.sub(r"\$\{\{.*?\}\}", "x", step["run"]) for step in STEPS if "run" in step]:
        done = subprocess.run(["bash", "-n"], input=script, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr


def test_scripts_take_what_others_can_name_from_the_environment() -> None:
    """The shell would run a tag name from `${{ }}`."""
    assert [step["run"] for step in STEPS if "${{ github" in step.get("run", "")] == []


@pytest.mark.parametrize("name", WORKFLOWS)
def test_jobs_have_few_rights_and_an_end(name: str) -> None:
    """Only the job that runs no code of packages may write, and no job keeps its token in the checkout."""
    assert LOADED[name]["permissions"] == {}
    jobs = LOADED[name]["jobs"].values()
    assert all("timeout-minutes" in job for job in jobs if "steps" in job)
    for job in jobs:
        steps = job.get("steps", [])
        writes = "write" in str(job["permissions"])
        assert writes or job["permissions"] == {"contents": "read"}
        checkouts = [step for step in steps if step.get("uses", "").startswith("actions/checkout@")]
        assert all(step["with"]["persist-credentials"] is False for step in checkouts)
        assert not writes or not (checkouts or re.search("pip|make|docker", str([step.get("run") for step in steps])))


def test_ci_runs_what_the_makefile_has_on_every_python() -> None:
    jobs = LOADED["ci.yaml"]["jobs"]
    matrix = jobs["test"]["strategy"]["matrix"]
    pyproject = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    assert matrix["python"] == re.findall(r'"Programming Language :: Python :: (3\.\d+)"', pyproject)
    assert {each["python"] for each in matrix["include"]} == set(matrix["python"])
    made = {*matrix["target"], *(each["target"] for each in matrix["include"] if "target" in each)}
    made.update(re.findall(r"^make ([\w./-]+)", "\n".join(step.get("run", "") for step in STEPS), re.MULTILINE))
    assert made >= {"audit", "lint", "test", "test-long"}
    assert {target.replace(".venv", "$(VENV)") for target in made} <= TARGETS
