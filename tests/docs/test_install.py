"""Install commands that tests cannot run name existing files, and match the image, the chart and one another."""

from __future__ import annotations

import re
import shlex
from itertools import pairwise
from pathlib import Path

import pytest
import yaml

import trainfleet_exporter
from tests.deploy.test_chart import CHART, VALUES
from tests.docs.commands import Command, commands
from tests.docs.pages import PAGES, ROOT, blocks, name_of
from tests.docs.test_names import FLAGS

_ALL = [command for page in PAGES for command in commands(page)]
_IMAGE = "trainfleet-exporter"
_WITH_VALUE = frozenset({"-p", "-v", "--name"})
_DOCKERFILE = (ROOT / "Dockerfile").read_text(encoding="utf-8")


def _of(*words: str) -> list[Command]:
    return [command for command in _ALL if tuple(command.words[: len(words)]) == words]


def _text(command: Command) -> str:
    return f"{command.block}: {command.text}"


def _run(command: Command) -> tuple[list[str], list[str]]:
    """Return the options of a `docker run` and the arguments for the image."""
    options: list[str] = []
    rest = command.words[2:]
    while rest[0] != _IMAGE:
        taken = 1 + (rest[0] in _WITH_VALUE)
        options += rest[:taken]
        del rest[:taken]
    return options, rest[1:]


@pytest.mark.parametrize("command", _of("docker", "run"), ids=_text)
def test_docker_run_fits_the_image(command: Command) -> None:
    options, arguments = _run(command)
    mounts = [value for option, value in pairwise(options) if option == "-v"]
    targets = [Path(mount.split(":")[1]) for mount in mounts]
    assert {str(target) for target in targets} <= {
        "/etc/trainfleet-exporter",
        "/etc/trainfleet-exporter/config.yaml",
        "/var/lib/trainfleet-exporter",
    }
    assert {word.partition("=")[0] for word in arguments if word.startswith("--")} <= FLAGS
    if "demo" in arguments:
        assert "--web.listen-address=:10075" in arguments  # the default is loopback of the container
        return
    default = re.findall(r'^CMD \["(--config.file=\S+)"\]', _DOCKERFILE, re.MULTILINE)
    (config,) = re.findall(r"--config.file=(\S+)", " ".join(arguments)) or [default[0].partition("=")[2]]
    assert any(Path(config).is_relative_to(target) for target in targets), config


@pytest.mark.parametrize("command", _of("docker", "build"), ids=_text)
def test_docker_build_fits_the_dockerfile(command: Command) -> None:
    for argument in re.findall(r"--build-arg (\w+)=", command.text):
        assert f"ARG {argument}=" in _DOCKERFILE
    for secret in re.findall(r"--secret id=([\w.]+)", command.text):
        assert f"type=secret,id={secret}," in _DOCKERFILE


@pytest.mark.parametrize("command", _of("docker", "compose"), ids=_text)
def test_compose_files_are_there(command: Command) -> None:
    shown = {"my-compose.yaml"} if "my-compose.yaml" in command.block.page.read_text(encoding="utf-8") else set()
    given = re.findall(r"-f (\S+\.yaml)", command.text)
    assert given[0] == "deploy/compose/compose.yaml"
    assert {name for name in given if not (ROOT / name).is_file()} <= shown
    services = yaml.safe_load((ROOT / given[0]).read_text(encoding="utf-8"))["services"]
    named = re.findall(r"(?:logs(?: -f)?|kill -s HUP) (\w+)", command.text)
    assert set(named) <= services.keys()


def test_the_service_of_an_override_is_one_of_the_compose_file() -> None:
    (override,) = blocks(ROOT / "docs" / "install-compose.md", "yaml")
    ours = yaml.safe_load((ROOT / "deploy" / "compose" / "compose.yaml").read_text(encoding="utf-8"))
    assert yaml.safe_load(override.text)["services"].keys() <= ours["services"].keys()


@pytest.mark.parametrize("command", _of("helm", "install"), ids=_text)
def test_helm_install_fits_the_chart(command: Command) -> None:
    assert command.words[3] == "deploy/kubernetes/chart"
    assert (ROOT / command.words[3]) == CHART
    for key in re.findall(r"--set(?:-file)? ([\w.]+)=", command.text):
        values = VALUES
        for part in key.split("."):
            assert part in values, key
            values = values[part]
    page = command.block.page.read_text(encoding="utf-8")
    # The default repository has no image, so the page must set another one.
    assert "image.repository=YOUR_REGISTRY/" in command.text or "image: {repository: YOUR_REGISTRY/" in page


def test_the_image_that_is_pushed_is_the_chart_s() -> None:
    pushes = _of("docker", "push")
    assert len(pushes) >= 2
    for command in pushes:
        repository, _, tag = command.words[2].rpartition(":")
        assert tag == trainfleet_exporter.__version__
        assert _of("docker", "build", "-t", command.words[2])
        assert repository in command.block.page.read_text(encoding="utf-8").replace(command.text, "")


@pytest.mark.parametrize("command", [each for each in _of("kubectl") if "apply" in each.words], ids=_text)
def test_manifests_that_are_applied_are_there(command: Command) -> None:
    for path in re.findall(r"-f (\S+)", command.text):
        assert (ROOT / path).is_file()


def test_secrets_have_the_files_that_configs_name() -> None:
    made: dict[str, set[str]] = {}
    for command in _of("kubectl"):
        if "secret" in command.words:
            name = command.words[command.words.index("generic") + 1]
            made[name] = set(re.findall(r"--from-file=([\w.-]+)=", command.text))
    named: dict[str, set[str]] = {}
    texts = [(ROOT / "deploy" / "kubernetes" / "manifests" / "exporter.yaml").read_text(encoding="utf-8")]
    texts += [block.text for block in blocks(ROOT / "docs" / "install-kubernetes.md", "yaml")]
    for text in texts:
        for name, file in re.findall(r"_file: /etc/trainfleet-secrets/([\w-]+)/(\S+)", text):
            named.setdefault(name, set()).add(file)
    assert named
    assert named == made


def test_the_keys_of_the_unit_are_all_stored() -> None:
    unit = (ROOT / "deploy" / "systemd" / "trainfleet-exporter.service").read_text(encoding="utf-8")
    wanted = {path for _, path in re.findall(r"^LoadCredential=(\S+?):(\S+)$", unit, re.MULTILINE)}
    page = commands(ROOT / "docs" / "install-systemd.md")
    stored = {shlex.split(command.text)[-1] for command in page if "/dev/stdin" in command.text}
    assert stored == wanted


@pytest.mark.parametrize("page", ["README.md", "docs/install-systemd.md"])
def test_what_the_unit_starts_is_what_is_installed(page: str) -> None:
    unit = (ROOT / "deploy" / "systemd" / "trainfleet-exporter.service").read_text(encoding="utf-8")
    (program, config) = re.findall(r"^ExecStart=(\S+)/bin/\S+ --config.file=(\S+)/config.yaml$", unit, re.MULTILINE)[0]
    text = "\n".join(command.text for command in commands(ROOT / page))
    assert f"python3 -m venv {program}\n" in text
    assert f"sudo install -D -m 0644 -t {config} deploy/systemd/config.yaml" in text
    assert name_of(ROOT / page) == page
