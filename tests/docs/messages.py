"""The texts of log messages and errors in the source."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache

from tests.docs.pages import ROOT
from trainfleet_exporter import errors

PACKAGES = ("trainfleet_exporter", "trainfleet_simulator", "trainfleet_conformance")
LEVELS = {
    "debug": "debug",
    "info": "info",
    "warning": "warn",
    "warn": "warn",
    "error": "error",
    "exception": "error",
    "critical": "error",
}
"""Methods that log, and their levels in the log. `warn` is a method of `Poll`."""
_LOGGERS = ("log", "poll")
_UNPACKED = {
    "self._who": ("provider", "collector"),
    "self._whose": ("provider", "credential"),
    "self._lost": ("malformed", "out_of_range"),
    "self._facts()": ("file", "waiting", "lost"),
}
"""The fields that a `**` adds to a log call."""
_ERRORS = {name for name, kind in vars(errors).items() if isinstance(kind, type)} | {"denied"}
"""Calls that create an error from their texts."""
_VALUE = "VALUE"
"""Replaces a value in the text of an error."""


@dataclass(frozen=True, slots=True)
class Message:
    """A log call: its file and line, level, fixed text and fields."""

    place: str
    level: str
    text: str
    fields: frozenset[str]


@dataclass(frozen=True, slots=True)
class ErrorText:
    """The text of an error, with `VALUE` for each value."""

    place: str
    text: str


class NotFixedError(Exception):
    """A log call has no fixed text, or its fields are unknown."""


@cache
def sources() -> dict[str, ast.Module]:
    """Return all modules of the source by path."""
    paths = [path for package in PACKAGES for path in sorted((ROOT / "src" / package).rglob("*.py"))]
    return {path.relative_to(ROOT).as_posix(): ast.parse(path.read_text(encoding="utf-8")) for path in paths}


def log_messages(modules: dict[str, ast.Module]) -> Iterator[Message]:
    """Yield the message of each log call. Raises NotFixedError."""
    for path, module in modules.items():
        constants = _assigned(module.body)
        for function in ast.walk(module):
            # `Poll.warn` logs the message of its caller.
            if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef) and function.name != "warn":
                local = constants + _assigned(ast.walk(function))
                for call in _own_calls(function):
                    if _logs(call):
                        yield from _messages(f"{path}:{call.lineno}", call, local)


def error_texts(modules: dict[str, ast.Module]) -> Iterator[ErrorText]:
    """Yield the texts of all errors that the source creates or raises."""
    for path, module in modules.items():
        nodes = list(ast.walk(module))
        raised = {id(node.exc) for node in nodes if isinstance(node, ast.Raise)}
        for call in nodes:
            if isinstance(call, ast.Call) and (id(call) in raised or _name(call.func) in _ERRORS):
                for argument in (*call.args, *(keyword.value for keyword in call.keywords)):
                    for text in _texts(argument):
                        if " " in text.strip():
                            yield ErrorText(f"{path}:{call.lineno}", text)


def _own_calls(function: ast.AST) -> Iterator[ast.Call]:
    """Yield the calls in a function, without those in nested functions."""
    for child in ast.iter_child_nodes(function):
        if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        if isinstance(child, ast.Call):
            yield child
        yield from _own_calls(child)


def _logs(call: ast.Call) -> bool:
    function = call.func
    return (
        isinstance(function, ast.Attribute)
        and function.attr in LEVELS
        and (_name(function.value) in _LOGGERS or _name(getattr(function.value, "func", None)) == "getLogger")
    )


def _messages(place: str, call: ast.Call, local: list[ast.Assign]) -> Iterator[Message]:
    assert isinstance(call.func, ast.Attribute)
    method = call.func.attr
    if len(call.args) != 1:
        raise NotFixedError(f"{place}: values belong into fields")
    given = {keyword.arg: keyword.value for keyword in call.keywords}
    is_of_poll = method == "warn"
    made = call if is_of_poll else _resolved(given.get("extra"), local)
    names = {"provider", "collector"} if is_of_poll else set[str]()
    if made is not None:
        if not isinstance(made, ast.Call) or not (is_of_poll or _name(made.func) == "fields"):
            raise NotFixedError(f"{place}: extra is not fields(...)")
        names |= {name for keyword in made.keywords for name in _field_names(place, keyword, LEVELS[method])}
    if method == "exception" or "exc_info" in given:
        names.add("trace")
    texts = _fixed(call.args[0], local)
    if not texts:
        raise NotFixedError(f"{place}: the message is not a fixed text")
    for text in texts:
        yield Message(place, LEVELS[method], text, frozenset(names))


def _field_names(place: str, keyword: ast.keyword, level: str) -> Iterable[str]:
    if keyword.arg is not None:
        return (keyword.arg,)
    unpacked = ast.unparse(keyword.value)
    if unpacked not in _UNPACKED and level in ("warn", "error"):
        raise NotFixedError(f"{place}: **{unpacked} has unknown fields")
    return _UNPACKED.get(unpacked, ())


def _resolved(node: ast.expr | None, local: list[ast.Assign]) -> ast.expr | None:
    """Return the last expression that was assigned to a name. Other expressions stay."""
    if not isinstance(node, ast.Name):
        return node
    found = [each for each in local if _name(each.targets[0]) == node.id and each.lineno < node.lineno]
    return max(found, key=lambda each: each.lineno).value if found else None


def _fixed(node: ast.expr | None, local: list[ast.Assign]) -> list[str]:
    """Return the possible texts of a message. Empty if it is not fixed."""
    node = _resolved(node, local)
    if isinstance(node, ast.IfExp):
        first, second = _fixed(node.body, local), _fixed(node.orelse, local)
        return [*first, *second] if first and second else []
    return [node.value] if isinstance(node, ast.Constant) and isinstance(node.value, str) else []


def _texts(node: ast.expr) -> Iterator[str]:
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        yield node.value
    elif isinstance(node, ast.JoinedStr):
        yield "".join(str(part.value) if isinstance(part, ast.Constant) else _VALUE for part in node.values)
    elif isinstance(node, ast.IfExp):
        yield from _texts(node.body)
        yield from _texts(node.orelse)


def _assigned(nodes: Iterable[ast.AST]) -> list[ast.Assign]:
    return [node for node in nodes if isinstance(node, ast.Assign)]


def _name(node: ast.AST | None) -> str:
    """Return `b` of `a.b`. Empty for other expressions."""
    if isinstance(node, ast.Name):
        return node.id
    return node.attr if isinstance(node, ast.Attribute) else ""
