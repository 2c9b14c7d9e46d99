"""From a config file to a `Config`, or to everything that is wrong with it."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any, TypeAlias, TypeVar, get_args

import yaml
from pydantic import TypeAdapter, ValidationError
from pydantic_core import ErrorDetails

from trainfleet_exporter.config.kinds import Surroundings, format_duration, is_link_local, is_loopback
from trainfleet_exporter.config.schema import Config, Global, ProviderConfig, Section, meanings
from trainfleet_exporter.config.secrets import in_snake_case, mean, near, show, show_key
from trainfleet_exporter.config.source import Loc, Source
from trainfleet_exporter.errors import ConfigError, Fault
from trainfleet_exporter.process.files import read_file

SectionT = TypeVar("SectionT", bound=Section)
Platforms: TypeAlias = Mapping[str, type[ProviderConfig]]
Found: TypeAlias = tuple[Loc, str]
_REGION_WORD = re.compile("[0-9]+|north|south|east|west|central")
"""The words in names of new regions: `cn-north-12` is not a misspelt `cn-north-1`."""
_WORDS = {
    "^(Input|String) should (be|have|match) ": "allowed: ",
    ", unable to .*": "",
    "Input is not a valid path .*": "allowed: a path",
    "a valid boolean": "true or false",
    "a valid dictionary": "a mapping",
    "a valid integer": "a whole number",
    "a valid string": "a text",
    "a valid tuple": "a list",
}
"""Parts of pydantic's messages, in words for YAML."""
_REMOVED = {
    "state_file": "leave it out, because limits.monthly_calls sets a steady pace now without a file",
    "sharding": "one shard polls all of a provider; two of disjoint workspaces and one account divide a large account",
}
"""Keys of older versions, and what to do instead."""


def load_config(path: Path, *, environ: Mapping[str, str], platforms: Platforms) -> Config:
    """Read a config file. `platforms` are the models by platform. ConfigError has every fault, in file order."""
    try:
        source = Source(read_file(path), str(path), environ, ignored="x-")
    except OSError as error:
        message = f"found a file that cannot be read ({error.strerror}); allowed: a readable YAML file"
        raise ConfigError([Fault(str(path), None, "", message)]) from None
    context, data = Surroundings(path.parent, environ), source.data
    for key in data.keys() - set(Config.allowed_keys()):
        _report_unknown(Config, data, source, (), (key,))
    settings = validate(Global, data.get("global"), source, ("global",), context)
    rows = data.get("providers")
    if not isinstance(rows, list) or not rows:
        found = "required, but missing" if rows is None else f"found {show(rows)}"
        source.fault(("providers",), f"{found}; allowed: a list of at least one provider")
        rows = []
    providers: dict[int, ProviderConfig] = {}
    for index, row in enumerate(rows):
        loc: Loc = ("providers", index)
        model, judged = _platform(row, source, loc, platforms) if isinstance(row, dict) else (ProviderConfig, row)
        if (provider := validate(model, judged, source, loc, context)) is not None:
            providers[index] = provider
    short = _short_intervals(source, settings, providers) if settings else ()
    for loc, message in (*_faults(source, providers, platforms), *short):
        if source.is_sound(*loc):
            source.fault(loc, message)
    source.raise_faults()
    # One provider of an account may state the limits for all.
    stated = {each.account_key: each.limits for each in providers.values() if "limits" in each.model_fields_set}
    shared = [
        each.model_copy(update={"limits": stated.get(each.account_key, each.limits)}) for each in providers.values()
    ]
    return Config.model_validate({"global": settings, "providers": shared})


def redacted(config: Config) -> str:
    """Return the running config as a config file with its defaults, intervals and endpoints, but without secrets."""
    plain = config.model_dump(mode="json", by_alias=True, exclude_none=True)
    for provider, shown in zip(config.providers, plain["providers"], strict=True):
        for collector in shown.get("collectors", {}).values():
            collector.setdefault("interval", plain["global"]["poll_interval"])
        if endpoints := provider.endpoints_in_use():
            shown["endpoints"] = dict(endpoints)
    text = yaml.safe_dump(plain, sort_keys=False, allow_unicode=True, width=10_000)
    return re.sub(r"[$](?=[${A-Z_])", "$$", text)  # a dollar is doubled where the file would need it


def _platform(
    row: dict[str, Any], source: Source, at: Loc, platforms: Platforms
) -> tuple[type[ProviderConfig], dict[str, Any]]:
    """The model of a provider, and the keys that it can judge. A platform that is not clear is a fault."""
    word = next((row[key] for key in row if ProviderConfig.meant_key(key) == "platform"), None)
    if isinstance(word, str) and word in platforms:
        return platforms[word], row
    names = {name: platform for platform, model in platforms.items() for name in model.other_platform_names}
    meant = names.get(re.sub("[^a-z]", "", str(word).lower())) or near(in_snake_case(str(word)), platforms)
    found = "required, but missing" if word is None else f"found {show(word)}"
    if source.is_sound(*at, "platform"):
        source.fault((*at, "platform"), f"{found}; {mean(meant)}allowed: {', '.join(sorted(platforms))}")
    if meant:
        return platforms[meant], row | {"platform": meant}
    theirs = {key for each in platforms.values() for key in {"endpoints", "collectors", *each.allowed_keys()}}
    return ProviderConfig, {key: row[key] for key in row if key not in theirs} | {"platform": "?"}


def _faults(source: Source, providers: Mapping[int, ProviderConfig], platforms: Platforms) -> Iterator[Found]:
    """The faults between values that are each valid."""
    names: dict[str, Loc] = {}
    for index, provider in providers.items():
        at: Loc = ("providers", index)
        if source.is_sound(*at, "name") and (first := names.setdefault(provider.name, (*at, "name"))) != (*at, "name"):
            message = f"found {show(provider.name)} again (first on line {source.lines[first]})"
            yield (*at, "name"), f"{message}; allowed: a name of its own"
        if source.is_sound(*at, "region") and (wrong := _wrong_region(provider, platforms)):
            yield (*at, "region"), f"found {show(provider.region)}, {wrong}"
        chosen = dict(provider.collectors)
        for needed, others in provider.dependents.items():
            waiting = " and ".join(key for key in others if chosen[key].enabled)
            if waiting and not chosen[needed].enabled:
                message = f"found false, but needed by {waiting}; allowed: true, or enabled: false for {waiting} too"
                yield (*at, "collectors", needed, "enabled"), message
        for key, url in provider.given_endpoints().items():
            is_near = is_loopback(url) or is_link_local(url)  # as metadata services are, with plain http by nature
            if url.startswith("http://") and not is_near and not provider.http.allow_plain_http:
                allowed = "https://, http:// to loopback, or http.allow_plain_http: true"
                yield (*at, "endpoints", key), f"found {show(url)}; allowed: {allowed}"
        for api in provider.limits.monthly_calls.keys() - set(provider.apis):
            yield (*at, "limits", "monthly_calls", api), unknown_key(api, provider.apis, near(api, provider.apis))
    for account in {provider.account for provider in providers.values()} - {None}:
        of_account = {index: provider for index, provider in providers.items() if provider.account == account}
        given = [each.limits if "limits" in each.model_fields_set else None for each in of_account.values()]
        stated = [limits for limits in given if limits is not None]
        differ = len(stated) > 1 and any(limits != stated[0] for limits in given)
        places: list[Loc] = [("providers", index, "limits") for index in of_account]
        for place in places if differ and all(source.is_sound(*place) for place in places) else ():
            allowed = "equal limits in all of them, or limits in one of them only"
            yield place, f"found other limits in providers of the same account; allowed: {allowed}"


def _short_intervals(source: Source, settings: Global, providers: Mapping[int, ProviderConfig]) -> Iterator[Found]:
    """A poll of a bulk collector must have ended before the next one is due."""
    intervals: dict[Loc, float | None] = {("global", "poll_interval"): settings.poll_interval}
    for index, provider in providers.items():
        for key, collector in provider.bulk_collectors().items():
            intervals["providers", index, "collectors", key, "interval"] = collector.enabled and collector.interval
    for loc, interval in intervals.items():
        if interval and interval <= settings.poll_timeout and source.is_sound("global", "poll_timeout"):
            default = "" if loc in source.lines else " by default"
            allowed = f"more than global.poll_timeout, which is {format_duration(settings.poll_timeout)}"
            yield loc, f"found {format_duration(interval)}{default}; allowed: {allowed}"


def _wrong_region(provider: ProviderConfig, platforms: Platforms) -> str:
    """What is wrong with a region that is of another cloud, or misspelt. Others may be new, or private."""
    known, region = provider.known_regions, provider.region
    is_like_known = _REGION_WORD.sub("*", region) in {_REGION_WORD.sub("*", word) for word in known}
    clouds = " and ".join(name for name, model in platforms.items() if region in model.known_regions)
    # A new region may have a name of another cloud, but not in China.
    if region in known or provider.given_endpoints() or (is_like_known and not (clouds and region.startswith("cn-"))):
        return ""
    if known and clouds:
        return f"which is a region of {clouds}; allowed: a region of this cloud, such as {known[0]}"
    meant = next((word for word in known if word.partition("-")[2] == region), "") or near(region, known, 0.9)
    allowed = "allowed: a region of this cloud, or endpoints for one that is not public"
    return f"which is not a known region; {mean(meant)}{allowed}" if meant else ""


def validate(
    model: type[SectionT], data: object, source: Source, at: Loc = (), context: Surroundings | None = None
) -> SectionT | None:
    """Validate the part of a file at `at`. What is wrong goes to `source`; then the section has valid values only."""
    try:
        return model.model_validate(data, context=context)
    except ValidationError as error:
        details = error.errors(include_url=False)
    if unknown := [detail["loc"] for detail in details if detail["type"] == "extra_forbidden"]:
        for place in unknown:
            _report_unknown(model, data, source, at, place)
        return validate(model, data, source, at, context)
    for detail in details:
        loc: Loc = (*at, *detail["loc"])
        if loc and loc not in source.lines and (*loc[:-1], f"{loc[-1]}_file") in source.lines:
            loc = (*loc[:-1], f"{loc[-1]}_file")
        if loc not in source.spoilt:
            source.fault(loc, _message(model, detail))
    return _valid_part(model, data, context) if isinstance(data, dict) else None


def _valid_part(model: type[SectionT], data: dict[str, Any], context: Surroundings | None) -> SectionT:
    values = dict[str, Any]()
    for name, field in model.model_fields.items():
        kind: Any = Annotated[field.annotation, *field.metadata, name]
        try:
            if name in data:
                values[name] = TypeAdapter(kind).validate_python(data[name], context=context)
        except ValidationError:
            inner = _model_at(model, (name,))
            if inner is not model and isinstance(data[name], dict):
                values[name] = _valid_part(inner, data[name], context)
    return model.model_construct(**values)


def _report_unknown(model: type[Section], data: Any, source: Source, at: Loc, loc: Loc) -> None:
    """Report a key that the section does not have, and take its value for that of the key that was meant."""
    *above, key = loc
    section = _model_at(model, above)
    advice = _REMOVED.get(str(key)) or section.foreign_keys.get(str(key), "")
    for name in ("credentials", "endpoints", "collectors"):
        inner = _model_at(section, (name,))
        if inner is not section and (key in inner.allowed_keys() or key in inner.other_names):
            advice = f"put {inner.other_names.get(str(key), key)} under {name}"
    meant = "" if advice else section.meant_key(str(key))
    source.fault(at + loc, unknown_key(str(key), section.allowed_keys(), meant, advice))
    for step in above:
        data = data[step]
    value = data.pop(key)
    if meant and value is not None:
        data.setdefault(meant, value)
        for place in [place for place in source.lines if place[: len(at + loc)] == at + loc]:
            source.lines.setdefault((*at, *above, meant, *place[len(at + loc) :]), source.lines[place])


def unknown_key(key: str, allowed: Collection[str], meant: str = "", advice: str = "") -> str:
    """The message for a key that is not allowed."""
    hint = f"{advice}; " if advice else mean(meant)
    return f'unknown key "{show_key(key)}"; {hint}allowed: {", ".join(allowed)}'


def _model_at(model: type[Section], loc: Collection[str | int]) -> type[Section]:
    """The model of the section at `loc`."""
    for step in loc:
        field = model.model_fields.get(str(step))
        for kind in (field.annotation, *get_args(field.annotation)) if field else ():
            if isinstance(kind, type) and issubclass(kind, Section):
                model = kind
    return model


def _message(model: type[Section], detail: ErrorDetails) -> str:
    """Pydantic's message, with what was found and what the key means."""
    *place, key = detail["loc"] or ("",)
    section, inner = _model_at(model, place), _model_at(model, detail["loc"])
    kind, message, value = detail["type"], detail["msg"].removeprefix("Value error, "), detail["input"]
    if message.startswith(("found ", "required")):
        return message
    found = "required, but missing" if kind == "missing" else f"found {show(value)}"
    if kind.startswith("model_") or (kind == "missing" and inner is not section):
        found = "found a single value" if isinstance(value, str) else found
        return f"{found}; allowed: a mapping with {', '.join(inner.allowed_keys())}"
    meaning = meanings(section).get(str(key), "").partition(". ")[0].rstrip(".")
    meaning = f". {key}: {meaning}" if meaning and kind not in ("value_error", "literal_error") else ""
    if kind == "missing":
        return found + meaning
    for theirs, ours in _WORDS.items():
        message = re.sub(theirs, ours, message)
    return f"{found}{', ' if message.startswith('which ') else '; '}{message}{meaning}"
