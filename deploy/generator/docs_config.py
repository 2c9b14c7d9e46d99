"""The reference of the config file: keys, kinds and defaults from the models, and the docstring of each field."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Literal, get_args, get_origin, get_type_hints

from pydantic.fields import FieldInfo

from deploy.generator.docs_tables import code, table
from trainfleet_exporter.config import (
    Collector,
    Global,
    Http,
    JobFilter,
    JobsScope,
    Limits,
    Metrics,
    ProviderConfig,
)
from trainfleet_exporter.config import kinds as kind
from trainfleet_exporter.config.kinds import format_duration
from trainfleet_exporter.config.schema import Section, is_secret, meanings
from trainfleet_exporter.families.usage import QUANTITIES
from trainfleet_exporter.providers.alibaba_pai import config as pai
from trainfleet_exporter.providers.alibaba_pai import credentials as pai_keys
from trainfleet_exporter.providers.alibaba_pai import metrics as cloudmonitor
from trainfleet_exporter.providers.aws_sagemaker import config as sagemaker
from trainfleet_exporter.providers.aws_sagemaker import credentials as sagemaker_keys
from trainfleet_exporter.providers.huawei_modelarts import config as modelarts
from trainfleet_exporter.providers.huawei_modelarts import credentials as modelarts_keys
from trainfleet_exporter.providers.registry import installed_platforms

_KINDS: tuple[tuple[Any, str], ...] = (
    (kind.Duration, "duration"),
    (kind.LongDuration, "duration"),
    (kind.DurationOrZero, "duration or `0s`"),
    (kind.Flag, "`true` or `false`"),
    (kind.CountFrom0, "number from 0"),
    (kind.CountFrom1, "number from 1"),
    (kind.Rate, "number above 0"),
    (kind.Name, "text"),
    (kind.Region, "region id"),
    (modelarts.ProjectId, "project id"),
    (kind.Text, "text"),
    (kind.SecretText, "secret"),
    (kind.Endpoint, "`scheme://host[:port]`"),
    (kind.Proxy, "`http://` or `https://` with `[user:password@]host[:port]`"),
    (kind.CaFile, "path"),
    (kind.WritableFile, "path"),
    (dict[str, kind.CountFrom1], "calls by API"),
    (kind.AllOrList, "`all`, or list of ids"),
    (kind.Glob, "pattern"),
    (kind.Regex, "regular expression"),
    (pai_keys.RoleArn, "ARN"),
    (sagemaker_keys.RoleArn, "ARN"),
    (pai_keys.ProviderArn, "ARN"),
    (pai_keys.RamRole, "`true`, or a role's name"),
)
_LISTS = {"text": "texts", "pattern": "patterns", "regular expression": "regular expressions"}
_CLOUDMONITOR = """\
### `collectors.usage.metrics` (alibaba_pai)

A key is the name of a family of [usage](metrics.md#usage) without `trainfleet_`. Its value replaces the defaults:
`name` is the metric in CloudMonitor, with its `unit` and `statistic`, and required without a default. A `unit` without
`name` also counts for GetJobMetrics.
The families of [profiling](collectors.md#profiling) also need their name in `usage.profiling`."""
_AOM = """\
### `collectors.usage.metrics` (huawei_modelarts)

A key names a family of jobs, pods or devices that AOM feeds, without `trainfleet_`. Its value needs `unit` and
`promql`, a query with the labels `service_id`, `pod_name`, `npu_id` or `gpu_index`. A unit with `bit/s` is an error."""
_HEADS = ("key", "kind", "default", "meaning")


def reference() -> str:
    """Return all tables of the page."""
    return "\n\n".join(
        (
            "## `global`\n\n" + _table(Global, without=("metrics",)),
            "### `global.metrics`\n\n" + _table(Metrics),
            "## `providers[]`\n\nFor every platform:\n\n"
            + _table(ProviderConfig, without=("http", "jobs", "limits", "endpoints", "collectors")),
            "### `providers[].http`\n\n" + _table(Http),
            "### `providers[].jobs`\n\n"
            + _table(JobsScope)
            + "\n\nBoth have these keys. `user_id`, `job_type` and `pool_id` are labels of `trainfleet_job_info`:\n\n"
            + _table(JobFilter),
            "### `providers[].limits`\n\n" + _table(Limits),
            *_platform("alibaba_pai", pai.AlibabaPaiConfig, pai_keys.Credentials, "oidc"),
            _CLOUDMONITOR,
            *_platform("aws_sagemaker", sagemaker.AwsSageMakerConfig, sagemaker_keys.Credentials, "web_identity"),
            *_platform("huawei_modelarts", modelarts.HuaweiModelArtsConfig, modelarts_keys.Credentials, "oidc"),
            _AOM,
            _units(),
        )
    )


def _section_of(hint: Any) -> type[Section] | None:
    for part in (hint, *get_args(hint)):
        if isinstance(part, type) and issubclass(part, Section):
            return part
    return None


def _platform(name: str, config: type[ProviderConfig], credentials: type[Section], nested: str) -> Iterator[str]:
    own = set(config.model_fields) - set(ProviderConfig.model_fields) - {"credentials", "endpoints", "collectors"}
    yield f"## Platform `{name}`\n\nThe APIs in `limits.monthly_calls` are {', '.join(map(code, config.apis))}."
    if own:
        yield _table(config, without=tuple(set(config.model_fields) - own))
    yield f"### `credentials` ({name})\n\n" + _credentials(credentials, nested)
    endpoints = config.model_fields["endpoints"].default
    yield f"### `endpoints` ({name})\n\n" + _endpoints(config, type(endpoints))
    yield f"### `collectors` ({name})\n\n" + _collectors(type(config.model_fields["collectors"].default))


def _endpoints(config: type[ProviderConfig], endpoints: type[Section]) -> str:
    """Return the table of endpoints. Their defaults contain the region."""
    example: Any = config.model_construct(region="REGION", endpoints=endpoints())
    said = meanings(endpoints)
    return table(
        ("key", "default", "meaning"),
        ((code(key), code(example.endpoint(key)), said[key]) for key in endpoints.model_fields),
    )


def _collectors(collectors: type[Section]) -> str:
    known = {name: type(field.default) for name, field in collectors.model_fields.items()}
    names = ", ".join(map(code, known))
    text = f"{names} have `enabled` and `interval`: see their [defaults](collectors.md)."
    rows = [
        row
        for name, kind in known.items()
        for row in _rows(kind, prefix=f"{name}.", without=tuple(Collector.model_fields))
    ]
    return f"{text}\n\n{table(_HEADS, rows)}" if rows else text


def _table(section: type[Section], *, without: tuple[str, ...] = ()) -> str:
    return table(_HEADS, _rows(section, without=without))


def _credentials(section: type[Section], nested: str) -> str:
    """Return the table of credentials and of their section `nested`. No key has a default."""
    inner = _section_of(get_type_hints(section)[nested])
    assert inner is not None
    rows = (*_rows(section), *_rows(inner, prefix=f"{nested}."))
    return table(("key", "meaning"), ((key, said) for key, _, _, said in rows))


def _rows(
    section: type[Section], *, prefix: str = "", without: tuple[str, ...] = ()
) -> Iterator[tuple[str, str, str, str]]:
    hints = get_type_hints(section, include_extras=True)
    said = meanings(section)
    for name, field in section.model_fields.items():
        if name not in without:
            key = code(prefix + (field.alias or name))
            if is_secret(field):
                key += f" or {code(f'{prefix}{name}_file')}"
            words = ", ".join(map(code, sorted(installed_platforms()))) if key == "`platform`" else _kind(hints[name])
            yield key, words, _default(field), said.get(name, "")


def _kind(hint: Any) -> str:
    """Return the kind of a value in words."""
    for known, words in _KINDS:
        if hint == known:
            return words
    if _section_of(hint) is not None:
        return "section"
    parts = [part for part in get_args(hint) if part is not type(None)]
    if get_origin(hint) is tuple:
        words = _kind(parts[0])
        return f"list of {_LISTS.get(words, words)}"
    if get_origin(hint) is Literal:
        return ", ".join(map(code, parts))
    return _kind(parts[0])  # `X | None` or `Annotated`


def _default(field: FieldInfo) -> str:
    if field.is_required():
        return "required"
    if field.default is None or isinstance(field.default, Section):
        return ""
    duration = any(getattr(item, "func", None) is format_duration for item in field.metadata)
    return code(format_duration(field.default) if duration else _shown(field.default))


def _shown(value: Any) -> str:
    """Return a default as a user writes it in the config file."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, tuple):
        return "[]" if not value else str(list(value))
    if isinstance(value, str) and value.isdigit():
        return f'"{value}"'
    return f"{value:g}" if isinstance(value, float) else str(value)


def _units() -> str:
    """Return the units that `usage.metrics` allows. Those of PAI are all units."""
    units = ((code(end), ", ".join(map(code, cloudmonitor.UNITS[of]))) for end, of in QUANTITIES.items())
    return "## Units in `collectors.usage.metrics`\n\n" + table(("end of the family's name", "units"), units)
