"""From a config file to a `Config`, or to everything that is wrong with it."""

from __future__ import annotations

import difflib
import logging
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, TypeAlias, TypeVar, get_args

import yaml
from pydantic import TypeAdapter, ValidationError
from pydantic_core import ErrorDetails

from trainfleet_exporter.config.kinds import Surroundings, format_duration
from trainfleet_exporter.config.patterns import ascii_classes
from trainfleet_exporter.config.plain import NOT_SHOWN, show, show_key, word_of
from trainfleet_exporter.config.schema import Config, Global, ProviderConfig, Section, is_secret, meanings
from trainfleet_exporter.config.source import Loc, Source, load_yaml, show_path
from trainfleet_exporter.config.urls import is_loopback
from trainfleet_exporter.errors import ConfigError, Fault
from trainfleet_exporter.process.logs import fields

log = logging.getLogger(__name__)
_REGION_WORD = re.compile("[0-9]+|north|south|east|west|central")
"""The words in names of new regions: `cn-north-12` is not a misspelt `cn-north-1`."""
SectionT = TypeVar("SectionT", bound=Section)
_HUMP = re.compile("(?<=[a-z0-9])(?=[A-Z])")
_HINT = re.compile('did you mean "[^"]*"[?] ')
_REASON = re.compile(r"^(which [^(]*) \(.*\);")
_WORDS = {
    "^(Input should be|String should have) ": "allowed: ",
    ", unable to .*": "",
    "a valid boolean": "true or false",
    "a valid dictionary": "a mapping",
    "a valid string": "a text",
    "a valid tuple": "a list",
}
"""Parts of pydantic's messages, in words for YAML."""
_REMOVED = {
    ("global", "state_file"): "leave the key out; limits.monthly_calls sets a steady pace now and needs no file",
    ("providers", "*", "sharding"): (
        "leave the key out; one shard polls all of a provider, and two providers with disjoint workspaces and the same "
        "account divide a large account"
    ),
    ("providers", "*", "collectors", "usage", "source", "dlc_metrics"): (
        "job_metrics, which makes calls for each job without permissions for CloudMonitor, but has no power; or auto, "
        "or cloudmonitor"
    ),
}
"""By the path from the top of the file, with the value if only that is refused: what follows "allowed: "."""
Platforms: TypeAlias = Mapping[str, type[ProviderConfig]]


def load_config(path: Path, *, environ: Mapping[str, str], platforms: Platforms) -> Config:
    """Read a config file. Relative paths in it start from its folder; `platforms` are the models by platform.

    Raises `ConfigError` with every fault of the file, in file order.
    """
    try:
        text = path.read_bytes()
    except OSError as error:
        message = f"found a file that cannot be read ({error.strerror}); allowed: a readable YAML file"
        raise ConfigError([Fault(str(path), None, "", message)]) from None
    source, surroundings = load_yaml(text, str(path), environ=environ, ignored="x-"), Surroundings(path.parent, environ)
    data = _with_known_keys(Config, source.data, source, ())
    settings = validate(Global, data.get("global"), source, ("global",), surroundings)
    rows = data.get("providers")
    if not isinstance(rows, list) or not rows:
        missing = "required, but missing" if rows is None else f"found {show(rows)}"
        source.fault(("providers",), f"{missing}; allowed: a list of at least one provider")
        rows = []
    providers: dict[int, ProviderConfig] = {}
    for index, row in enumerate(rows):
        loc: Loc = ("providers", index)
        model, judged = _platform(row, source, loc, platforms) if isinstance(row, dict) else (ProviderConfig, row)
        if (provider := validate(model, judged, source, loc, surroundings)) is not None:
            providers[index] = provider
    for loc, message in [*_names(source, providers), *_checks(source, settings, providers)]:
        source.fault(loc, message)
    source.raise_faults()
    _warn_of_ascii_patterns(source, providers)
    assert settings is not None
    return Config.model_validate({"global": settings, "providers": _shared_limits(list(providers.values()))})


def _warn_of_ascii_patterns(source: Source, providers: Mapping[int, ProviderConfig]) -> None:
    for index, provider in providers.items():
        for part, filters in (("include", provider.jobs.include), ("exclude", provider.jobs.exclude)):
            for position, pattern in enumerate(filters.name):
                loc: Loc = ("providers", index, "jobs", part, "name", position)
                for ascii_class, wider in ascii_classes(pattern).items():
                    place = f"{source.name}:{source.lines[loc]}"
                    facts = fields(place=place, key=show_path(loc), found=ascii_class, use=wider)
                    log.warning("pattern matches ASCII characters only; job names may have others", extra=facts)


def redacted(config: Config) -> str:
    """The running config as YAML, with the defaults, intervals and endpoints in use.

    Secrets and the user of a proxy show as `<secret>`. A key without a value or default is left out. Apart from the
    secrets, the text is a config file of the same meaning.
    """
    plain = config.model_dump(mode="json", by_alias=True)
    every = plain["global"]["poll_interval"]
    for provider, shown in zip(config.providers, plain["providers"], strict=True):
        for collector in (shown.get("collectors") or {}).values():
            if isinstance(collector, dict) and "interval" in collector:
                collector["interval"] = collector["interval"] or every
        if endpoints := provider.endpoints_in_use():
            shown["endpoints"] = dict(endpoints)
    return yaml.safe_dump(_escaped(plain), sort_keys=False, allow_unicode=True, width=10_000)


def _escaped(value: Any) -> Any:
    """The value without nulls, and with dollars doubled where the file would need it."""
    if isinstance(value, dict):
        return {key: _escaped(item) for key, item in value.items() if item is not None}
    if isinstance(value, list):
        return [_escaped(item) for item in value]
    doubled = isinstance(value, str) and re.search(r"[$][${A-Z_]", value)
    return value.replace("$", "$$") if doubled else value


def _platform(
    row: dict[str, Any], source: Source, at: Loc, platforms: Platforms
) -> tuple[type[ProviderConfig], dict[str, Any]]:
    """The model of a provider, and the keys that it can judge. A platform that is not clear is a fault."""
    models: tuple[type[ProviderConfig], ...] = (ProviderConfig, *platforms.values())
    known = tuple(dict.fromkeys(key for model in models for key in model.allowed_keys()))
    key = next((key for key in row if key not in known and _meant_key(key, known) == "platform"), "platform")
    if "platform" not in row and key in row:
        source.fault((*at, key), unknown_key(key, known))
        source.lines[*at, "platform"] = source.lines[*at, key]
        row = {("platform" if each == key else each): value for each, value in row.items()}
    word, words = row.get("platform"), ", ".join(sorted(platforms))
    if isinstance(word, str) and word in platforms:
        return platforms[word], row
    near = ""
    if isinstance(word, str):
        names = {name: platform for platform, model in platforms.items() for name in model.other_platform_names}
        near = names.get(re.sub("[^a-z]", "", word.lower())) or _near_word(word, platforms)
        hint = _mean("" if (*at, "platform") in source.written else near)
        shown = _found(word, source, (*at, "platform"))
        message = f"found {shown}, which this version does not support; {hint}allowed: {words}"
    else:
        message = f"{'required, but missing' if word is None else f'found {show(word)}'}; allowed: {words}"
    if (*at, "platform") not in source.spoilt:
        source.fault((*at, "platform"), message)
    if near:
        return platforms[near], row | {"platform": near}
    for unknown in row.keys() - set(known):  # the keys that no platform has
        source.fault((*at, unknown), unknown_key(unknown, known))
    return ProviderConfig, {key: row[key] for key in ProviderConfig.allowed_keys() if key in row} | {"platform": "?"}


def _shared_limits(providers: Sequence[ProviderConfig]) -> list[ProviderConfig]:
    """The providers with the limits of their account, which one of them may state for all."""
    stated = {provider.account_key: provider.limits for provider in providers if "limits" in provider.model_fields_set}
    return [
        provider.model_copy(update={"limits": stated.get(provider.account_key, provider.limits)})
        for provider in providers
    ]


def _names(source: Source, providers: Mapping[int, ProviderConfig]) -> Iterator[tuple[Loc, str]]:
    first: dict[str, Loc] = {}
    for index, provider in providers.items():
        loc: Loc = ("providers", index, "name")
        if source.is_sound(*loc) and first.setdefault(provider.name, loc) != loc:
            line, shown = source.lines[first[provider.name]], _found(provider.name, source, loc)
            yield loc, f"found {shown} again (first on line {line}); allowed: a name of its own"


def _checks(
    source: Source, settings: Global | None, providers: Mapping[int, ProviderConfig]
) -> Iterator[tuple[Loc, str]]:
    """The faults between values that are each valid."""
    if settings is not None:
        yield from _timeouts(source, settings, providers)
    for index, provider in providers.items():
        loc: Loc = ("providers", index)
        region = (*loc, "region")
        if region in source.lines and source.is_sound(*region) and (wrong := _misspelt_region(provider)):
            hint = _mean("" if region in source.written else wrong)
            shown = _found(provider.region, source, region)
            allowed = "a region of this cloud, or endpoints for one that is not public"
            yield region, f"found {shown}, which is not a known region; {hint}allowed: {allowed}"
        for needed, (collector, others) in provider.needed().items():
            waiting = " and ".join(key for key, other in others.items() if other.enabled)
            place: Loc = (*loc, "collectors", needed, "enabled")
            if not collector.enabled and waiting and source.is_sound(*place):
                allowed = f"true, or enabled: false for {waiting} too"
                yield place, f"found false, but it is needed by {waiting}; allowed: {allowed}"
        for key, url in provider.given_endpoints().items():
            if url.startswith("http://") and not is_loopback(url) and not provider.http.allow_plain_http:
                shown = _found(url, source, (*loc, "endpoints", key))
                allowed = "https://, http:// to loopback, or http.allow_plain_http: true"
                yield (*loc, "endpoints", key), f"found {shown}; allowed: {allowed}"
        for api in provider.limits.monthly_calls.keys() - set(provider.apis):
            yield (*loc, "limits", "monthly_calls", api), unknown_key(api, provider.apis)
    yield from _accounts(source, providers)


def _timeouts(source: Source, settings: Global, providers: Mapping[int, ProviderConfig]) -> Iterator[tuple[Loc, str]]:
    """A poll of a bulk collector must have ended before the next one is due."""
    timeout, at = settings.poll_timeout, ("global", "poll_timeout")
    intervals: dict[Loc, float] = {("global", "poll_interval"): settings.poll_interval}
    for index, provider in providers.items():
        for key, collector in provider.bulk_collectors().items():
            if collector.enabled and collector.interval is not None:
                intervals["providers", index, "collectors", key, "interval"] = collector.interval
    for loc, interval in intervals.items():
        if interval <= timeout and source.is_sound(*loc) and source.is_sound(*at):
            shown, limit = format_duration(interval), format_duration(timeout)
            if loc in source.lines:
                default = "" if at in source.lines else " by default"
                yield loc, f"found {shown}; allowed: more than global.poll_timeout, which is {limit}{default}"
            else:
                yield at, f"found {limit}; allowed: less than {show_path(loc)}, which is {shown} by default"


def _accounts(source: Source, providers: Mapping[int, ProviderConfig]) -> Iterator[tuple[Loc, str]]:
    """Providers of one account state equal limits, or none of them but one."""
    for account in {provider.account for provider in providers.values()} - {None}:
        of_account = {index: provider for index, provider in providers.items() if provider.account == account}
        stated = [index for index, provider in of_account.items() if "limits" in provider.model_fields_set]
        for index, provider in of_account.items() if len(stated) > 1 else ():
            loc, first = ("providers", index, "limits"), ("providers", stated[0], "limits")
            differ = index not in stated or provider.limits != providers[stated[0]].limits
            if differ and source.is_sound(*loc) and source.is_sound(*first):
                what = "limits that differ from" if index in stated else "no limits, unlike"
                other = f"{show_path(first)} (line {source.lines[first]}) of the same account {show(account)}"
                yield loc, f"found {what} {other}; allowed: equal limits, or limits in one provider of the account only"


def _misspelt_region(provider: ProviderConfig) -> str:
    """The known region of which the provider's is a misspelling; empty for others, which may be new or private."""
    known, region = provider.known_regions, provider.region
    if provider.given_endpoints() or _REGION_WORD.sub("*", region) in {_REGION_WORD.sub("*", word) for word in known}:
        return ""
    near = [word for word in known if word.partition("-")[2] == region]
    return next(iter(near or difflib.get_close_matches(region, known, n=1, cutoff=0.9)), "")


def validate(
    model: type[SectionT], data: object, source: Source, at: Loc = (), context: Surroundings | None = None
) -> SectionT | None:
    """Validate the part of a file at `at`, and add what is wrong with it to the faults of `source`.

    With faults, the section has its valid values only, for checks of values against each other; None if it has none.
    """
    if isinstance(data, dict):
        data = _with_known_keys(model, data, source, at)
    try:
        return model.model_validate(data, context=context)
    except ValidationError as error:
        for detail in error.errors(include_url=False):
            loc: Loc = (*at, *detail["loc"])
            if loc and loc not in source.lines and (*loc[:-1], f"{loc[-1]}_file") in source.lines:
                loc = (*loc[:-1], f"{loc[-1]}_file")
            if loc not in source.spoilt:
                source.fault(loc, _message(model, detail, source, loc))
    return _valid_part(model, data, context) if isinstance(data, dict) else None


def _with_known_keys(model: type[Section], data: Mapping[str, Any], source: Source, at: Loc) -> dict[str, Any]:
    """Report the unknown keys of a section. The value of a misspelt key is judged as that of the key that was meant."""
    known, judged = model.allowed_keys(), dict[str, Any]()
    for key, value in data.items():
        loc, name = (*at, key), key
        if key not in known:
            advice = _advice(key, model)
            name = "" if advice or _instead_of(loc) else _meant_key(key, known, model.other_names)
            if instead := _instead_of(loc):
                source.fault(loc, f'found "{key}", which this version does not have; allowed: {instead}')
            elif advice:
                source.fault(loc, f'unknown key "{key}" here; {advice}; allowed: {", ".join(known)}')
            else:
                source.fault(loc, unknown_key(key, known, name))
            if value is None:
                source.spoilt.add((*at, name))  # a misspelt key is one fault, not two
            if not name or name in data or name in judged or value is None:
                continue
            source.lines |= {(*at, name): source.lines[loc]} if loc in source.lines else {}
        inner = _model_at(model, (name,))
        is_section = inner is not model and isinstance(value, dict)
        judged[name] = _with_known_keys(inner, value, source, (*at, name)) if is_section else value
    return judged


def _valid_part(model: type[SectionT], data: dict[str, Any], context: Surroundings | None) -> SectionT:
    values: dict[str, Any] = {}
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


def unknown_key(key: str, allowed: Collection[str], meant: str = "") -> str:
    """The message for a key that is not allowed. `meant` is the key that was meant, if that is not the nearest one."""
    return f'unknown key "{show_key(key)}"; {_mean(meant or _meant_key(key, allowed))}allowed: {", ".join(allowed)}'


def _meant_key(key: str, allowed: Collection[str], other_names: Mapping[str, str] | None = None) -> str:
    """The allowed key that an unknown one probably means; empty if none is near.

    `other_names` are those that other clouds and tools give to allowed keys.
    """
    word = _HUMP.sub("_", word_of(key)).lower().replace("-", "_")
    name = word.removesuffix("_file")
    if other_names and name in other_names:
        return other_names[name] + word[len(name) :]
    return next(iter(difflib.get_close_matches(word, allowed, n=1)), "")


def _near_word(word: str, words: Collection[str]) -> str:
    """The word that was probably meant; empty if none is near."""
    given = word.casefold()
    by_case = {each.casefold(): each for each in words}
    containing = [each for each in by_case if len(given) >= 3 and given in each]
    near = containing if len(containing) == 1 else difflib.get_close_matches(given, by_case, n=1)
    return by_case[near[0]] if near else ""


def _found(value: object, source: Source, loc: Loc, *, quantity: bool = False) -> str:
    """What was found at `loc`, as `show`. A text of the environment shows as the file has it."""
    if loc in source.written:
        return f"{show(source.written[loc])} (from the environment)"
    return show(value, quantity=quantity)


def _mean(hint: str) -> str:
    """Return a question about what was meant; empty without a hint."""
    return f'did you mean "{hint}"? ' if hint else ""


def _model_at(model: type[Section], loc: Collection[str | int]) -> type[Section]:
    """The model of the section at `loc`."""
    for step in loc:
        field = model.model_fields.get(str(step))
        for kind in (field.annotation, *get_args(field.annotation)) if field else ():
            if isinstance(kind, type) and issubclass(kind, Section):
                model = kind
    return model


def _message(model: type[Section], detail: ErrorDetails, source: Source, loc: Loc) -> str:
    kind, message, value = detail["type"], detail["msg"].removeprefix("Value error, "), detail["input"]
    *place, last = detail["loc"] or ("",)
    section, key = _model_at(model, place), str(last)
    if instead := _instead_of(loc, str(value)):
        return f'found "{value}", which this version does not have; allowed: {instead}'
    meaning = meanings(section).get(key, "").partition(". ")[0].rstrip(".")
    meaning = f". {key}: {meaning}" if meaning else ""
    if kind == "missing":
        inner = _model_at(section, (key,))
        allowed = f"; allowed: a mapping with {', '.join(inner.allowed_keys())}"
        return f"required, but missing{meaning if inner is section else allowed}"
    if message.startswith(("found ", "required")):
        return message
    if kind.startswith("model_"):
        keys, flag = _model_at(model, detail["loc"]).allowed_keys(), str(value).lower()
        hint = f"{{enabled: {flag}}}" if flag in ("true", "false") and "enabled" in keys else ""
        return f"found {show(value, shape_only=True)}; {_mean(hint)}allowed: a mapping with {', '.join(keys)}"
    if kind == "literal_error":
        words = re.findall("'([^']*)'", detail["ctx"]["expected"])
        message = _mean(_near_word(value, words) if isinstance(value, str) else "") + f"allowed: {', '.join(words)}"
    for theirs, ours in _WORDS.items():
        message = re.sub(theirs, ours, message)
    field = section.model_fields.get(key) or section.model_fields.get(str(place[-1]) if place else "")
    kinds = (field.annotation, *get_args(field.annotation)) if field else (int,)
    quantity = not {float, int, bool, dict[str, int]}.isdisjoint(kinds)
    shown = "<secret>" if field and is_secret(field) else _found(value, source, loc, quantity=quantity)
    if NOT_SHOWN in shown or loc in source.written:  # what is not shown must not show in a hint or reason either
        message = _REASON.sub(r"\1;", _HINT.sub("", message))
    meaning = "" if kind in ("value_error", "literal_error") else meaning
    return f"found {shown}{', ' if message.startswith('which ') else '; '}{message}{meaning}"


def _advice(key: str, section: type[Section]) -> str:
    """Return advice about a key of another section or of another cloud; empty for other keys."""
    if key in section.foreign_keys:
        return section.foreign_keys[key]
    for name in ("credentials", "endpoints", "collectors"):
        inner = _model_at(section, (name,)) if name in section.model_fields else Section
        if key in inner.allowed_keys() or key in inner.other_names:
            return f"put {inner.other_names.get(key, key)} under {name}"
    return ""


def _instead_of(path: Sequence[str | int], value: str | None = None) -> str:
    """Return what to do instead of a key at `path`, or of its `value`. Empty if nothing there was removed."""
    words = tuple("*" if isinstance(step, int) else step for step in path)
    return _REMOVED.get(words) or _REMOVED.get((*words, value or ""), "")
