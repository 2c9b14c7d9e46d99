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


def test_workflows_fit_the_schema_of_github() -> None:
    command = [sys.executable, "-m", "check_jsonschema", "--builtin-schema", "vendor.github-workflows"]
    done = subprocess.run([*command, *WORKFLOWS.values()], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout
    assert set(WORKFLOWS) == {"ci.yaml", "image.yaml", "release.yaml"}


def test_actions_are_pinned_by_major_version() -> None:
    used = [step["uses"] for step in STEPS if "uses" in step]
    assert used
    assert [name for name in used if not re.fullmatch(r"[\w-]+/[\w-]+@v\d+", name)] == []


def test_scripts_are_valid_shell() -> None:
    for script in [re.sub(r"\$\{\{.*?\}\}", "x", step["run"]) for step in STEPS if "run" in step]:
        done = subprocess.run(["bash", "-n"], input=script, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr


def test_scripts_take_what_others_can_name_from_the_environment() -> None:
    """The shell would run a tag name from `${{ }}`."""
    assert [step["run"] for step in STEPS if "${{ github" in step.get("run", "")] == []


@pytest.mark.parametrize("name", WORKFLOWS)
def test_jobs_have_few_rights_and_an_end(name: str) -> None:
    assert LOADED[name]["permissions"] == {"contents": "read"}
    jobs = LOADED[name]["jobs"].values()
    assert all("timeout-minutes" in job for job in jobs if "steps" in job)
    assert {job for job, each in LOADED[name]["jobs"].items() if "write" in str(each.get("permissions"))} <= {"release"}


def test_no_registry_and_no_index_is_named() -> None:
    text = "".join(path.read_text(encoding="utf-8") for path in WORKFLOWS.values())
    assert re.findall(r"https?://|index-url|registry|\b[\w-]+\.io\b|pypi", text) == []


def test_ci_runs_what_the_makefile_has_on_every_python() -> None:
    jobs = LOADED["ci.yaml"]["jobs"]
    matrix = jobs["test"]["strategy"]["matrix"]
    pyproject = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    assert matrix["python"] == re.findall(r'"Programming Language :: Python :: (3\.\d+)"', pyproject)
    made = {*matrix["target"], *(each["target"] for each in matrix["include"])}
    made.update(re.findall(r"^make ([\w./-]+)", "\n".join(step.get("run", "") for step in STEPS), re.MULTILINE))
    assert made >= {"lint", "test", "test-long"}
    assert {target.replace(".venv", "$(VENV)") for target in made} <= TARGETS


def test_ci_installs_the_programs_of_the_local_run() -> None:
    local = re.search(r"^packages=\((.*)\)$", (ROOT / ".ci" / "run").read_text(encoding="utf-8"), re.MULTILINE)
    (script,) = [step["run"] for step in STEPS if "apt-get" in step.get("run", "")]
    assert local is not None
    wanted = set(local[1].split()) - {"python3-venv"}  # the container has Python with venv
    assert wanted == set(script.partition("--no-install-recommends \\\n")[2].split())


def test_release_has_a_bill_of_materials_and_waits_for_ci() -> None:
    jobs = LOADED["release.yaml"]["jobs"]
    assert jobs["ci"]["uses"] == "./.github/workflows/ci.yaml"
    assert jobs["release"]["needs"] == "ci"
    names = [step.get("uses", "").partition("@")[0] for step in jobs["release"]["steps"]]
    assert names.index("anchore/sbom-action") < names.index("actions/attest-build-provenance")
    assert jobs["release"]["steps"][-1]["run"].startswith("gh release create")


def test_local_ci_runs_all_tests() -> None:
    assert (ROOT / ".ci" / "run").read_text(encoding="utf-8").endswith("\nmake test\nmake test-long\n")
