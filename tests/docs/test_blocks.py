"""Blocks without commands: configs, policies, queries and code are valid."""

from __future__ import annotations

import ast
import json
import re
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml
from deploy.generator import docs_metrics

from tests.deploy import test_chart as chart
from tests.docs.pages import PAGES, ROOT, Block, all_blocks, blocks, name_of, spans
from tests.support.programs import need
from trainfleet_exporter.config import ProviderConfig, load_config
from trainfleet_exporter.config.schema import Config
from trainfleet_exporter.errors import ConfigError
from trainfleet_exporter.families import FAMILIES, KEYS
from trainfleet_exporter.providers.registry import installed_platforms

_EVERY_PROVIDER = set(ProviderConfig.model_fields) | {"credentials", "endpoints", "collectors"}
_MINIMAL = {
    "alibaba_pai": {"region": "cn-hangzhou", "credentials": {"access_key_id": "x", "access_key_secret": "x"}},
    "aws_sagemaker": {"region": "us-east-1", "credentials": {"access_key_id": "x", "secret_access_key": "x"}},
    "huawei_modelarts": {"region": "cn-north-4", "credentials": {"access_key": "x", "secret_key": "x"}},
}


@pytest.mark.parametrize("block", all_blocks("yaml"), ids=str)
def test_yaml(block: Block, tmp_path: Path) -> None:
    found = yaml.safe_load(block.text)
    keys = set(found)
    if keys <= set(Config.allowed_keys()) | {"x-defaults"}:
        _check_config(block.text if "providers" in keys else f"{block.text}\n{_providers('alibaba_pai', {})}", tmp_path)
    elif keys <= _EVERY_PROVIDER:
        # The part must be valid for at least one platform.
        faults = [_faults(_providers(platform, found), tmp_path) for platform in _MINIMAL]
        assert "" in faults, faults
    elif keys & {"scrape_configs", "rule_files"}:
        _check_with("promtool", ["check", "config"], block.text, tmp_path)
    elif keys & {"route", "receivers", "inhibit_rules"}:
        _check_with("amtool", ["check-config"], block.text, tmp_path)
    elif "services" in keys:
        schema = ["-m", "check_jsonschema", "--builtin-schema", "vendor.compose-spec"]
        _check_with(sys.executable, schema, block.text, tmp_path)
    elif keys <= set(chart.VALUES):
        assert chart.refused(tmp_path, chart.merged(chart.VALUES, found)) == {}
        if "config" in found:
            _check_config(found["config"]["inline"], tmp_path)
    else:
        raise AssertionError(f"{block}: what is this file?")


def _providers(platform: str, more: dict[str, Any]) -> str:
    provider = {"name": "p", "platform": platform, **_MINIMAL[platform], **more}
    return yaml.safe_dump({"providers": [provider]})


def _faults(text: str, folder: Path) -> str:
    try:
        _check_config(text, folder)
    except ConfigError as error:
        return str(error)
    return ""


def _check_config(text: str, folder: Path) -> None:
    """Load a config as `--config.check` does, with values for its variables and secret files."""
    for path in set(re.findall(r"_file: (\S+)", text)):
        place = folder / path.lstrip("/")
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text("secret\n")
    text = re.sub(r"(_file: )(\S+)", lambda found: f"{found[1]}{folder}/{found[2].lstrip('/')}", text)
    config = folder / "config.yaml"
    config.write_text(text, encoding="utf-8")
    environ = dict.fromkeys(re.findall(r"\$\{(\w+)\}", text), "x")
    load_config(config, environ=environ, platforms={n: found.config for n, found in installed_platforms().items()})


def _check_with(program: str, arguments: list[str], text: str, folder: Path) -> None:
    """Check a file with a program, in a folder with deploy/ and its rules."""
    (folder / "deploy").symlink_to(ROOT / "deploy")
    (folder / "config.yaml").write_text(text, encoding="utf-8")
    command = [need(program), *arguments, str(folder / "config.yaml")]
    answer = subprocess.run(command, capture_output=True, text=True)
    assert answer.returncode == 0, answer.stdout + answer.stderr


@pytest.mark.parametrize("block", all_blocks("json"), ids=str)
def test_json(block: Block) -> None:
    json.loads(block.text)


@pytest.mark.parametrize(
    ("page", "platform", "version"),
    [
        ("quickstart-alibaba.md", "alibaba_pai", "1"),
        ("quickstart-aws.md", "aws_sagemaker", "2012-10-17"),
        ("quickstart-huawei.md", "huawei_modelarts", "1.1"),
    ],
)
def test_quick_start_policies_grant_exactly_the_permissions(page: str, platform: str, version: str) -> None:
    policies = [json.loads(block.text) for block in blocks(ROOT / "docs" / page, "json")]
    assert {policy["Version"] for policy in policies} == {version}
    statements = [statement for policy in policies for statement in policy["Statement"]]
    assert {statement["Effect"] for statement in statements} == {"Allow"}
    granted = [action for statement in statements for action in statement["Action"]]
    assert len(granted) == len(set(granted))
    rights = installed_platforms()[platform].permissions.values()
    needed = {right for text in rights for right in text.split(" and ")}
    assert set(granted) == needed


def _queries() -> list[str]:
    """Return the queries in blocks, and those in sentences that contain more than a metric name."""
    inline = [span for page in PAGES for span in spans(page) if re.search(r"trainfleet_\w+(?:\{|.*\))", span)]
    return [block.text for block in all_blocks("promql")] + [query for query in inline if "..." not in query]


def test_queries_ask_for_labels_that_are_there() -> None:
    labels = {family.name: {"provider", *KEYS[family.of][0], *(family.labels or ())} for family in FAMILIES}
    for metric in docs_metrics.own_metrics():
        known = set(docs_metrics.labels_of(metric))
        labels |= {metric.name: known, f"{metric.name}_total": known}
    asked = 0
    for query in _queries():
        for name, matchers in re.findall(r"\b(trainfleet_\w+)\{([^}]*)\}", query):
            if name in labels:
                asked += 1
                wanted = set(re.findall(r"(\w+)\s*(?:=|!=|=~|!~)", re.sub(r'"[^"]*"', "", matchers)))
                assert wanted <= labels[name] | {"job", "instance"}, query
    assert asked > 20


def test_queries_are_promql(tmp_path: Path) -> None:
    """promtool checks queries only in a file of rules."""
    found = _queries()
    assert len(found) > 30
    rules = [{"record": f"q:{number}", "expr": query} for number, query in enumerate(found)]
    path = tmp_path / "rules.yaml"
    path.write_text(yaml.safe_dump({"groups": [{"name": "queries", "rules": rules}]}), encoding="utf-8")
    answer = subprocess.run([need("promtool"), "check", "rules", str(path)], capture_output=True, text=True)
    assert answer.returncode == 0, answer.stderr
    assert f"{len(found)} rules found" in answer.stdout


@pytest.mark.parametrize("block", all_blocks("python"), ids=str)
def test_python_can_be_read_and_what_it_imports_is_there(block: Block) -> None:
    tree = ast.parse(block.text)
    imports: list[ast.stmt] = [line for line in tree.body if isinstance(line, ast.ImportFrom | ast.Import)]
    exec(compile(ast.Module(imports, []), str(block), "exec"), {})


@pytest.mark.parametrize("block", all_blocks("toml"), ids=str)
def test_toml(block: Block) -> None:
    tomllib.loads(block.text)


def test_shown_entry_point_has_the_group_of_the_registry() -> None:
    (block,) = blocks(ROOT / "docs" / "adding-a-provider.md", "toml")
    ours = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    shown = tomllib.loads(block.text)
    assert shown["project"]["entry-points"].keys() == ours["project"]["entry-points"].keys(), name_of(block.page)
