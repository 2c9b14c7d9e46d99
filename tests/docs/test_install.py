"""Install commands that tests cannot run name existing files, and match the image, the chart and one another."""

from __future__ import annotations

import re
from itertools import pairwise
from pathlib import Path

import pytest

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


def test_secrets_have_the_files_that_configs_name() -> None:
    made: dict[str, set[str]] = {}
    for command in _of("kubectl"):
        if "secret" in command.words:
            name = command.words[command.words.index("generic") + 1]
            made[name] = set(re.findall(r"--from-file=([\w.-]+)=", command.text))
    named: dict[str, set[str]] = {}
    texts = [(ROOT / "deploy" / "kubernetes" / "manifests" / "exporter.yaml").read_text(encoding="utf-8")]
    texts += [block.text for block in blocks(ROOT / "docs" / "install.md", "yaml")]
    for text in texts:
        for name, file in re.findall(r"_file: /etc/trainfleet-secrets/([\w-]+)/(\S+)", text):
            named.setdefault(name, set()).add(file)
    assert named
    assert named == made


@pytest.mark.parametrize("page", ["README.md", "docs/install.md"])
def test_what_the_unit_starts_is_what_is_installed(page: str) -> None:
    unit = (ROOT / "deploy" / "systemd" / "trainfleet-exporter.service").read_text(encoding="utf-8")
    (program, config) = re.findall(r"^ExecStart=(\S+)/bin/\S+ --config.file=(\S+)/config.yaml$", unit, re.MULTILINE)[0]
    text = "\n".join(command.text for command in commands(ROOT / page))
    assert f"python3 -m venv {program}\n" in text
    assert f"sudo install -D -m 0644 -t {config} deploy/systemd/config.yaml" in text
    assert name_of(ROOT / page) == page
