"""AWS' own models of its requests and answers, as botocore has them: a judge that nobody here wrote."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from typing import Any

from botocore.loaders import Loader
from botocore.model import ServiceModel
from botocore.validate import ParamValidator


@cache
def service(name: str) -> ServiceModel:
    """The model of a service, such as `sagemaker`."""
    return ServiceModel(Loader().load_service_model(name, "service-2"), name)


def enumeration(name: str, of: str = "sagemaker") -> tuple[str, ...]:
    """The words of an enumeration."""
    return tuple(service(of).shape_for(name).enum)


def request_faults(of: str, operation: str, given: Any) -> list[str]:
    """What is wrong with the parameters of a request."""
    return list(_faults(service(of).operation_model(operation).input_shape, given))


def answer_faults(of: str, operation: str, given: Any) -> list[str]:
    """What is wrong with the fields of an answer."""
    return list(_faults(service(of).operation_model(operation).output_shape, given))


def _faults(shape: Any, given: Any) -> Iterator[str]:
    report = ParamValidator().validate(given, shape)
    if report.has_errors():
        yield report.generate_report()
    else:
        yield from _beyond(shape, given, shape.name)


def _beyond(shape: Any, given: Any, path: str) -> Iterator[str]:
    """What ParamValidator does not look at: enumerations, the longest, and patterns."""
    facts = shape.metadata
    if shape.type_name == "structure":
        for key, value in given.items():
            yield from _beyond(shape.members[key], value, f"{path}.{key}")
    elif shape.type_name == "list":
        if len(given) > facts.get("max", len(given)):
            yield f"{path} has {len(given)} items"
        for item in given:
            yield from _beyond(shape.member, item, f"{path}[]")
    elif shape.type_name == "string":
        if facts.get("enum") and given not in facts["enum"]:
            yield f"{path} is {given!r}"
        if len(given) > facts.get("max", len(given)):
            yield f"{path} has {len(given)} characters"
        if "pattern" in facts and not re.search(f"^(?:{facts['pattern']})", given):
            yield f"{path} is {given!r}, which does not match {facts['pattern']}"
    elif shape.type_name in ("integer", "long") and given > facts.get("max", given):
        yield f"{path} is {given}"
