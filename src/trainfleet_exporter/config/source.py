"""A YAML file as plain data, with the line of each place: no key twice, no tags, `${NAME}` filled in.

All scalars are text: the schema decides what `no`, `010` or `5` means. PyYAML only parses; nothing constructs objects.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, TypeAlias

import yaml

from trainfleet_exporter.config.secrets import EnvironmentText, show_key
from trainfleet_exporter.errors import ConfigError, Fault

Loc: TypeAlias = tuple[str | int, ...]
"""A place in the file: keys and list positions from the top."""

PLACEHOLDER = re.compile("YOUR_[A-Z][A-Z0-9_]{0,40}|^your-region(-id)?$")
"""A value of an example that only the user knows."""
_REFERENCE = re.compile(r"\$\$|\$\{([A-Za-z_][A-Za-z0-9_]*)\}|\$\{|^\$[A-Z_][A-Z0-9_]*$")
_TAGS = tuple(f"tag:yaml.org,2002:{tag}" for tag in ("str", "int", "float", "bool", "timestamp", "value", "map", "seq"))
_UNPRINTABLE = re.compile(f"\ufffd|{yaml.reader.Reader.NON_PRINTABLE.pattern}")
_NULL, _MERGE = "tag:yaml.org,2002:null", "tag:yaml.org,2002:merge"
_IN_YAML = "indent with spaces, close quotes and brackets, and quote a text with * or ! first or ${NAME} in brackets"


class Source:
    """The parsed text of the file `name`. ConfigError if it is no YAML mapping; smaller faults are in `faults`.

    Top-level keys that begin with `ignored` are not read. Without `environ`, a `${NAME}` is a text like any other.
    """

    def __init__(
        self, text: bytes, name: str, environ: Mapping[str, str] | None = None, ignored: str | None = None
    ) -> None:
        self.name = name
        self.faults: list[Fault] = []
        self.lines: dict[Loc, int] = {}
        self.spoilt: set[Loc] = set()
        """Places with a fault."""
        self._environ = environ
        self._ignored = ignored
        try:
            decoded = text.decode("utf-8-sig", errors="replace")
            if bad := _UNPRINTABLE.search(decoded):
                line = decoded.count("\n", 0, bad.start()) + 1
                raise self._refused("found a byte or character that no text has; allowed: printable UTF-8", line)
            node = yaml.compose(decoded, yaml.SafeLoader)
            if not isinstance(node, yaml.MappingNode):
                top = node.start_mark.line + 1 if node else None
                raise self._refused("found no mapping; allowed: keys with values", top)
            self.data: dict[str, Any] = self._build(node, ()) or {}
        except yaml.MarkedYAMLError as error:
            raise self._unparsed(error) from None
        except RecursionError:
            # Where it was built, the deepest place is that of an alias that contains itself.
            deepest = self.lines[max(self.lines, key=len)] if self.lines else None
            raise self._refused("found too deep or endless nesting; allowed: some hundred levels", deepest) from None

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

    def raise_faults(self) -> None:
        """Raise ConfigError if there are faults."""
        if self.faults:
            raise ConfigError(sorted(set(self.faults), key=lambda fault: (fault.line or 0, fault.path, fault.message)))

    def _refused(self, message: str, line: int | None) -> ConfigError:
        return ConfigError([Fault(self.name, line, "", message)])

    def _unparsed(self, error: yaml.MarkedYAMLError) -> ConfigError:
        context, problem, mark = error.context or "", error.problem or "", error.problem_mark
        if context.startswith(("while scanning", "while parsing a flow")) and not problem.endswith("but got '{'"):
            mark = error.context_mark or mark  # the problem is found on a later line
        # Aliases and tags are quoted in the problem, and may be parts of a secret.
        words = ", ".join(filter(None, (context, problem)))
        words = re.sub("'[^']*'", lambda quoted: quoted[0] if len(quoted[0]) < 5 else "…", words)
        return self._refused(f"invalid YAML: {words}; {_IN_YAML}", mark.line + 1 if mark else None)

    def _build(self, node: yaml.Node, loc: Loc) -> Any:
        self.lines.setdefault(loc, node.start_mark.line + 1)
        if node.tag == _NULL:
            return None
        if node.tag not in _TAGS:
            return self.fault(loc, "found a YAML tag (!); allowed: quotes around a text that begins with !")
        if isinstance(node, yaml.MappingNode):
            return self._mapping(node, loc)
        if isinstance(node, yaml.ScalarNode):
            return self._expanded(node.value, loc)
        return [self._build(item, (*loc, index)) for index, item in enumerate(node.value)]

    def _mapping(self, node: yaml.MappingNode, loc: Loc) -> dict[str, Any]:
        found, first = dict[str, Any](), dict[str, yaml.ScalarNode]()
        for key, value in sorted(node.value, key=lambda pair: pair[0].tag != _MERGE):
            line = key.start_mark.line + 1
            if not isinstance(key, yaml.ScalarNode) or not key.value or not key.value.isprintable():
                self.fault(loc, "found a key that is not a text; allowed: a text", line)
                continue
            at = (*loc, key.value)
            if (before := first.setdefault(key.value, key)) is not key:
                known = before.start_mark.line + 1
                self.fault(at, f"duplicate key (first on line {known}); allowed: each key once", line)
                self.spoilt.discard(at)  # the later value is judged too
            if key.tag == _MERGE:
                for each in value.value[::-1] if isinstance(value, yaml.SequenceNode) else [value]:
                    if isinstance(each, yaml.MappingNode):
                        found |= self._mapping(each, loc)  # what is written out wins, and the earlier of several
                    else:
                        self.fault(at, "found no mapping after <<; allowed: another mapping, or several", line)
            elif loc or self._ignored is None or not key.value.startswith(self._ignored):
                self.lines[at] = line
                found[key.value] = self._build(value, at)
        return found

    def _expanded(self, text: str, loc: Loc) -> str:
        environ = self._environ
        if environ is None:
            return text

        def fill(found: re.Match[str]) -> str:
            if found[0] == "$$":
                return "$"
            name = found[1] or ""
            if name not in environ:
                what = f"${{{show_key(name)}}}, which the environment does not set" if name else "a bare $"
                self.fault(loc, f"found {what}; allowed: ${{NAME}} of a variable that is set, or $$ for a dollar")
            return environ.get(name, "")

        filled = _REFERENCE.sub(fill, text)
        if loc not in self.spoilt and (placeholder := PLACEHOLDER.search(filled)):
            self.fault(loc, f'found the placeholder "{placeholder[0]}"; allowed: your own value in its place')
        return EnvironmentText(filled) if any(_REFERENCE.findall(text)) else filled


def show_path(loc: Loc) -> str:
    """Return `providers[0].collectors.jobs`."""
    return "".join([f"[{step}]" if isinstance(step, int) else f".{show_key(step)}" for step in loc]).removeprefix(".")
