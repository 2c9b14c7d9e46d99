"""From a config file to a `Config`, or to everything that is wrong with it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import yaml

from trainfleet_exporter.config.checks import Draft, check, placeholders, shared_limits
from trainfleet_exporter.config.environment import BARE_VARIABLE
from trainfleet_exporter.config.parse import read_document
from trainfleet_exporter.config.removed import instead_of
from trainfleet_exporter.config.scalars import Surroundings, broken_reference, may_hint, near_word, show
from trainfleet_exporter.config.schema import Config, Global, ProviderConfig
from trainfleet_exporter.config.translate import Problem, meant_key, model_at, unknown_key, validate
from trainfleet_exporter.config.tree import Loc, Node, Row, Scalar, Table, shape, show_path
from trainfleet_exporter.config.wording import Rule
from trainfleet_exporter.errors import ConfigError, Fault

_ROOT_KEYS = Config.allowed_keys()
_WITHOUT_WHICH = ("platform", "region", "name")


def load_config(path: Path, *, environ: Mapping[str, str], platforms: Mapping[str, type[ProviderConfig]]) -> Config:
    """Read a config file. Relative paths in it start from its folder; `platforms` are the models by platform.

    Raises `ConfigError` with every fault of the file, in file order.
    """
    document = read_document(path, environ, keys=", ".join(_ROOT_KEYS))
    surroundings = Surroundings(path.parent, environ)
    problems = list(_unknown_keys(document.root))
    misspelt: list[Fault] = []

    settings = validate(Global, document.root.get("global"), ("global",), surroundings)
    problems += settings.problems
    providers: dict[int, ProviderConfig] = {}
    given = document.root.get("providers")
    if not isinstance(given, Row) or not given:
        found = "an empty list" if isinstance(given, Row) else shape(given)
        message = Rule.PROVIDERS.missing() if given is None else Rule.PROVIDERS.format(found=found)
        problems.append(Problem(("providers",), message))
    else:
        for index, node in enumerate(given):
            at: Loc = ("providers", index)
            keys = _keys_of(platforms.values())
            corrected = _correct(node, keys)
            model, platform_problems = _platform(node, at, platforms)
            problems += platform_problems
            if model is None:
                problems += _unknown_anywhere(node, at, keys)
            else:
                keys = model.allowed_keys()
            for wanted, key in corrected.items():
                fault = document.fault((*at, wanted), unknown_key(key, keys))
                misspelt.append(replace(fault, path=show_path((*at, key))))
            provider = validate(model or ProviderConfig, _common(node) if model is None else node, at, surroundings)
            problems += [
                problem for problem in provider.problems if not platform_problems or problem.loc != (*at, "platform")
            ]
            if provider.section is not None:
                providers[index] = provider.section

    problems = [_with_advice(problem, document.find(problem.loc)) for problem in problems]
    untouched = list(placeholders(document))
    problems = [*untouched, *_elsewhere(problems, untouched)]
    draft = Draft(document, settings.section, providers, frozenset(problem.loc for problem in problems))
    problems += check(draft)
    problems = [problem for problem in problems if problem.loc not in document.broken]
    faults = {document.fault(problem.loc, problem.message) for problem in problems}
    faults |= {*document.faults, *misspelt}
    if faults or settings.section is None:
        raise ConfigError(sorted(faults, key=lambda fault: (fault.line or 0, fault.path, fault.message)))
    return Config.model_validate({"global": settings.section, "providers": shared_limits(list(providers.values()))})


def redacted(config: Config) -> str:
    """The running config as YAML, with the defaults, intervals and endpoints in use.

    Secrets and the user of a proxy show as `<secret>`. A key without a value or default is left out. Apart from the
    secrets, the text is a config file of the same meaning.
    """
    plain = _escaped(_without_nulls(_in_use(config)))
    return yaml.safe_dump(plain, sort_keys=False, allow_unicode=True, width=10_000)


def _in_use(config: Config) -> Any:
    """The config as plain values, with those that it makes of others."""
    plain = config.model_dump(mode="json", by_alias=True)
    every = plain["global"]["poll_interval"]
    for provider, shown in zip(config.providers, plain["providers"], strict=True):
        for collector in (shown.get("collectors") or {}).values():
            if isinstance(collector, dict) and "interval" in collector:
                collector["interval"] = collector["interval"] or every
        if endpoints := provider.endpoints_in_use():
            shown["endpoints"] = dict(endpoints)
    return plain


def _without_nulls(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without_nulls(item) for key, item in value.items() if item is not None}
    return [_without_nulls(item) for item in value] if isinstance(value, list) else value


def _escaped(value: Any) -> Any:
    """The value with dollars doubled where a reader of the file would take them for a reference."""
    if isinstance(value, dict):
        return {key: _escaped(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_escaped(item) for item in value]
    doubled = isinstance(value, str) and ("${" in value or "$$" in value or BARE_VARIABLE.fullmatch(value))
    return value.replace("$", "$$") if doubled else value


def _unknown_keys(root: Table) -> Iterator[Problem]:
    for key in root:
        if key not in _ROOT_KEYS and not key.startswith("x-"):
            yield Problem((key,), unknown_key(key, _ROOT_KEYS, has_value=root[key] is not None))


def _with_advice(problem: Problem, node: Node) -> Problem:
    """The problem of a node, or if an earlier version had the key or value: what to do instead."""
    value = node.expansion.text if isinstance(node, Scalar) else None
    if not (instead := instead_of(problem.loc, value)):
        return problem
    return Problem(problem.loc, Rule.REMOVED.format(found=problem.loc[-1], instead=instead))


def _keys_of(models: Iterable[type[ProviderConfig]]) -> tuple[str, ...]:
    """The keys that a provider of some platform has."""
    keys = [*ProviderConfig.allowed_keys(), *(key for model in models for key in model.allowed_keys())]
    return tuple(dict.fromkeys(keys))


def _correct(node: Node, known: Sequence[str]) -> dict[str, str]:
    """Spell the keys right without which little else can be checked. The misspelt keys, by the right one."""
    misspelt: dict[str, str] = {}
    if not isinstance(node, Table):
        return misspelt
    for wanted in _WITHOUT_WHICH:
        unknown = [key for key in node if key not in known and meant_key(key, known) == wanted]
        if wanted not in node and unknown and node[unknown[0]] is not None:
            misspelt[wanted] = key = unknown[0]
            node[wanted] = node.pop(key)
            node.key_lines[wanted] = node.key_lines.pop(key)
    return misspelt


def _unknown_anywhere(node: Node, at: Loc, known: Sequence[str]) -> Iterator[Problem]:
    """The keys that no platform has."""
    if isinstance(node, Table):
        for key in node.keys() - set(known):
            yield Problem((*at, key), unknown_key(key, known, has_value=node[key] is not None))


def _elsewhere(problems: Sequence[Problem], untouched: Sequence[Problem]) -> list[Problem]:
    """The problems that are not those of a placeholder, which is no value at all."""
    places = {problem.loc for problem in untouched}
    return [problem for problem in problems if problem.loc not in places]


def _platform(
    node: Node, at: Loc, platforms: Mapping[str, type[ProviderConfig]]
) -> tuple[type[ProviderConfig] | None, list[Problem]]:
    """The model of a provider, and what is wrong with its platform; None if that cannot even be guessed."""
    if not isinstance(node, Table | None):
        return ProviderConfig, []  # validation says what a provider must be
    value = node.get("platform") if node else None
    if isinstance(value, Scalar) and not broken_reference(value):
        if value.expansion.text in platforms:
            return platforms[value.expansion.text], []
    elif isinstance(value, Scalar):
        return None, [Problem((*at, "platform"), broken_reference(value))]
    words = ", ".join(sorted(platforms))
    guessed = _guess(node, platforms)
    if value is None:
        return platforms.get(guessed), [Problem((*at, "platform"), Rule.CHOICE.missing(choices=words))]
    rule = Rule.PLATFORM if isinstance(value, Scalar) else Rule.CHOICE
    names = {name: platform for platform, model in platforms.items() for name in model.other_platform_names}
    called = re.sub("[^a-z]", "", value.expansion.text.lower()) if isinstance(value, Scalar) and may_hint(value) else ""
    near = names.get(called) or near_word(value, platforms)
    message = rule.hinted(near, found=show(value), platforms=words, choices=words)
    return platforms.get(near or guessed), [Problem((*at, "platform"), message)]


def _guess(node: Node, platforms: Mapping[str, type[ProviderConfig]]) -> str:
    """The only platform that has this region, or most of these keys of credentials; empty if none or several do."""
    region = node.get("region") if isinstance(node, Table) else None
    credentials = node.get("credentials") if isinstance(node, Table) else None
    given = set(credentials) if isinstance(credentials, Table) else set()
    points: dict[str, int] = {}
    for platform, model in platforms.items():
        keys = model_at(model, ("credentials",)).allowed_keys() if "credentials" in model.model_fields else ()
        in_region = isinstance(region, Scalar) and region.expansion.text in model.known_regions
        points[platform] = 2 * len(given.intersection(keys)) + in_region
    best = max(points.values(), default=0)
    found = [platform for platform in points if points[platform] == best]
    return found[0] if best and len(found) == 1 else ""


def _common(node: Node) -> Node:
    """A provider of an unknown platform without the keys that only its platform could judge."""
    if not isinstance(node, Table):
        return node
    common = Table(node.line)
    common.key_lines = node.key_lines
    common.update({key: value for key, value in node.items() if key in ProviderConfig.allowed_keys()})
    return common
