"""docs/log-messages.md lists every message that the exporter logs as a warning or an error, and no other."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

import pytest

from tests.docs.pages import ROOT

_LEVELS = frozenset({"warning", "warn", "error", "exception", "critical"})
_LOGGERS = frozenset({"log", "poll"})


def logged(module: ast.Module) -> Iterator[str]:
    """Yield the messages of a module. Raises ValueError for a message that is not a fixed text."""
    assigned = {
        node.targets[0].id: node.value
        for node in ast.walk(module)
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name)
    }
    # `Poll.warn` logs the message of its caller.
    passed_on = {id(node) for way in ast.walk(module) if getattr(way, "name", "") == "warn" for node in ast.walk(way)}
    for call in ast.walk(module):
        if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Attribute) or id(call) in passed_on:
            continue
        logger = call.func.value
        if call.func.attr in _LEVELS and (getattr(logger, "id", "") in _LOGGERS or "getLogger" in ast.unparse(logger)):
            (message,) = call.args
            text = assigned.get(message.id, message) if isinstance(message, ast.Name) else message
            for part in (text.body, text.orelse) if isinstance(text, ast.IfExp) else (text,):
                each = assigned.get(part.id, part) if isinstance(part, ast.Name) else part
                if not isinstance(each, ast.Constant):
                    raise ValueError(f"line {call.lineno}: not a fixed text")
                yield str(each.value)


def test_the_page_lists_exactly_the_messages() -> None:
    paths = [path for package in (ROOT / "src").glob("trainfleet_*") for path in package.rglob("*.py")]
    messages = {text for path in paths for text in logged(ast.parse(path.read_text(encoding="utf-8")))}
    assert len(messages) > 40
    page = (ROOT / "docs" / "log-messages.md").read_text(encoding="utf-8").partition("\n## Polls")[2]
    assert set(re.findall(r"^(?:\||-) `([^`]+)`", page, re.MULTILINE)) == messages


@pytest.mark.parametrize("call", ['log.warning(f"no {file}")', 'log.warning("no %s", file)', "log.error(text)"])
def test_a_message_that_is_not_fixed_is_found(call: str) -> None:
    with pytest.raises(ValueError, match=r"fixed text|too many"):
        list(logged(ast.parse(call)))
