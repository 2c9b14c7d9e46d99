"""A YAML file as plain data, with the line of each place: no key twice, no tags, `${NAME}` filled in.

All scalars are text: the schema decides what `no`, `010` or `5` means. PyYAML only parses; nothing constructs objects.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, TypeAlias

import yaml

from trainfleet_exporter.config.plain import show, show_key
from trainfleet_exporter.errors import ConfigError, Fault

Loc: TypeAlias = tuple[str | int, ...]
"""A place in the file: keys and list positions from the top."""

PLACEHOLDER = re.compile("YOUR_[A-Z][A-Z0-9_]{0,40}|^your-region(-id)?$")
"""A value of an example that only the user knows."""
_REFERENCE = re.compile(r"\$\$|\$\{([A-Za-z_][A-Za-z0-9_]*)\}|\$\{|^\$[A-Z_][A-Z0-9_]*$")
_TAGS = tuple(f"tag:yaml.org,2002:{tag}" for tag in ("str", "int", "float", "bool", "timestamp", "value", "map", "seq"))
_NULL, _MERGE = "tag:yaml.org,2002:null", "tag:yaml.org,2002:merge"
_MOST_NODES = 100_000
"""With aliases, a short file could have any number."""
_FIXES = {
    "while scanning a quoted scalar": "close the quote on its line",
    "while scanning a simple key": "write a key with a colon and a space after it",
    "while parsing a flow mapping": "close the }, and write a comma between two keys",
    "while parsing a flow sequence": "close the ], and write a comma between two items",
    "while parsing a block mapping": "align the keys with each other",
    "while parsing a block collection": "align the items with each other",
    "but found another document": "write one document only",
    "found character '\\t' that cannot start any token": "indent with spaces",
    "expected ',' or '}', but got '{'": "quote a text with ${NAME} between { }",
    "expected ',' or ']', but got '{'": "quote a text with ${NAME} between [ ]",
}
"""By the parser's problem, or by what it was doing."""


class EnvironmentText(str):
    """A text with a value of the environment."""


class Source:
    """The parsed text, as `load_yaml` describes it. Faults that leave a mapping are in `faults`."""

    def __init__(self, text: bytes, name: str, environ: Mapping[str, str] | None, ignored: str | None) -> None:
        self.name = name
        self.faults: list[Fault] = []
        self.lines: dict[Loc, int] = {}
        self.written: dict[Loc, str] = {}
        """Texts with values of the environment, as the file has them."""
        self._environ = environ
        self._ignored = ignored
        self._open: list[yaml.Node] = []
        self.spoilt: set[Loc] = set()
        """Places with a fault."""
        try:
            node = yaml.compose(text.decode("utf-8-sig"), yaml.SafeLoader)
            data = None if node is None else self._build(node, ())
        except UnicodeDecodeError as error:
            line = text.count(b"\n", 0, error.start) + 1
            raise self._refused("found a byte that is not UTF-8; allowed: a YAML file in UTF-8", line) from None
        except yaml.MarkedYAMLError as error:
            raise self._unparsed(error) from None
        except yaml.reader.ReaderError as error:
            line = text.decode("utf-8-sig").count("\n", 0, error.position) + 1
            raise self._refused("found a control character; allowed: printable characters", line) from None
        except RecursionError:
            raise self._refused("found lists or mappings nested too deeply; allowed: some hundred levels") from None
        self.raise_faults(unless=isinstance(data, dict))
        if not isinstance(data, dict):
            found = "an empty file" if data is None else show(data, shape_only=True)
            raise self._refused(f"found {found}; allowed: a mapping", self.lines.get(()) if data else None)
        self.data: dict[str, Any] = data

    def fault(self, loc: Loc, message: str, line: int | None = None) -> None:
        """Add a fault of the place `loc`, at `line`, or its own, or that of the place above it."""
        near = loc
        while near and near not in self.lines:
            near = near[:-1]
        self.faults.append(Fault(self.name, line or self.lines.get(near), show_path(loc), message))
        self.spoilt.add(loc)

    def is_sound(self, *loc: str | int) -> bool:
        """Return whether no fault was found at `loc`, in its content or around it."""
        return not any(spoilt[: len(loc)] == loc[: len(spoilt)] for spoilt in self.spoilt)

    def raise_faults(self, *, unless: bool = False) -> None:
        """Raise ConfigError if there are faults."""
        if self.faults and not unless:
            raise ConfigError(sorted(set(self.faults), key=lambda fault: (fault.line or 0, fault.path, fault.message)))

    def _refused(self, message: str, line: int | None = None) -> ConfigError:
        return ConfigError([Fault(self.name, line, "", message)])

    def _unparsed(self, error: yaml.MarkedYAMLError) -> ConfigError:
        context, problem, mark = error.context or "", error.problem or "", error.problem_mark
        if context.startswith(("while scanning", "while parsing a flow")):  # the problem is found on a later line
            mark = error.context_mark or mark
        if problem.endswith("but got '{'"):
            mark = error.problem_mark
        # Aliases and tags are quoted in the problem, and may be parts of a secret.
        words = re.sub("'[^']*'", lambda quoted: quoted[0] if len(quoted[0]) < 5 else "…", problem or context)
        fix = _FIXES.get(problem) or _FIXES.get(
            context, "align the keys, and quote a text that begins with * or !, or has a colon"
        )
        return self._refused(f"invalid YAML: {words}; {fix}", mark.line + 1 if mark else None)

    def _build(self, node: yaml.Node, loc: Loc) -> Any:
        if len(self.lines) > _MOST_NODES:
            raise self._refused(f"found more than {_MOST_NODES} values; allowed: fewer aliases (*)")
        self.lines.setdefault(loc, node.start_mark.line + 1)
        if node.tag == _NULL:
            return None
        if node.tag not in _TAGS:
            return self.fault(loc, "found a YAML tag (!); allowed: quotes around a text that begins with !")
        if node in self._open:
            return self.fault(loc, "found an alias that contains itself; allowed: an alias to something else")
        if isinstance(node, yaml.ScalarNode):
            return self._expanded(node.value, loc)
        self._open.append(node)
        try:
            if isinstance(node, yaml.MappingNode):
                return self._mapping(node, loc)
            return [self._build(item, (*loc, index)) for index, item in enumerate(node.value)]
        finally:
            self._open.pop()

    def _mapping(self, node: yaml.MappingNode, loc: Loc) -> dict[str, Any]:
        first: dict[str, int] = {}
        for key in (key for key, _ in node.value if isinstance(key, yaml.ScalarNode)):
            line = key.start_mark.line + 1
            if first.setdefault(key.value, line) != line:
                self.lines[*loc, key.value] = line
                message = f"duplicate key (first on line {first[key.value]}); allowed: each key once"
                self.fault((*loc, key.value), message)
                self.spoilt.discard((*loc, key.value))  # the later value is judged too
        try:
            yaml.constructor.SafeConstructor().flatten_mapping(node)  # <<: what is written out wins, and comes last
        except yaml.MarkedYAMLError:
            self.lines[*loc, "<<"] = first["<<"]
            self.fault((*loc, "<<"), "found no mapping after <<; allowed: another mapping, or several")
        found: dict[str, Any] = {}
        for key, value in node.value:
            if not isinstance(key, yaml.ScalarNode) or not key.value or not key.value.isprintable():
                self.fault(loc, "found a key that is not a text; allowed: a text", key.start_mark.line + 1)
            elif key.tag != _MERGE and (loc or self._ignored is None or not key.value.startswith(self._ignored)):
                at = (*loc, key.value)
                self.lines[at] = key.start_mark.line + 1
                found[key.value] = self._build(value, at)
        return found

    def _expanded(self, text: str, loc: Loc) -> str:
        environ = self._environ
        if environ is None:
            return text
        unset: list[str] = []

        def fill(found: re.Match[str]) -> str:
            if found[0] == "$$":
                return "$"
            if found[0][1] != "{":
                self.fault(loc, "found a $ and a name without braces; allowed: ${NAME}, or $$NAME for a dollar")
            elif found[1] is None:
                self.fault(loc, "found ${ without a variable name and }; allowed: ${NAME}, or $$ for a dollar")
            elif found[1] not in environ:
                unset.append(f"${{{show_key(found[1])}}}")
            self.written[loc] = text
            return environ.get(found[1] or "", "")

        filled = _REFERENCE.sub(fill, text)
        if unset:
            found = f"found {', '.join(dict.fromkeys(unset))}, which the environment does not set"
            self.fault(loc, f"{found}; allowed: a variable that is set, or $$ for a dollar")
        elif placeholder := PLACEHOLDER.search(filled):
            self.fault(loc, f'found the placeholder "{placeholder[0]}"; allowed: your own value in its place')
        return EnvironmentText(filled) if loc in self.written else filled


def load_yaml(
    text: bytes, name: str, *, environ: Mapping[str, str] | None = None, ignored: str | None = None
) -> Source:
    """Parse a YAML mapping into plain data with its places. Raises ConfigError if the text is no mapping.

    `name` is the file in messages. Top-level keys that begin with `ignored` are not read. Without `environ`, a
    `${NAME}` is a text like any other.
    """
    return Source(text, name, environ, ignored)


def show_path(loc: Loc) -> str:
    """Return `providers[0].collectors.jobs`."""
    steps = (f"[{step}]" if isinstance(step, int) else f".{show_key(step)}" for step in loc)
    return "".join(steps).removeprefix(".")
