"""From a YAML file to its tree: one document, no key twice, no tags, anchors and merges resolved.

PyYAML only parses; nothing here constructs objects.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path

import yaml

from trainfleet_exporter.config.environment import Expansion, expand
from trainfleet_exporter.config.tree import Document, Loc, Node, Row, Scalar, Table, shape, show_path
from trainfleet_exporter.config.wording import Rule
from trainfleet_exporter.errors import ConfigError, Fault

_STANDARD = "tag:yaml.org,2002:"
_SCALAR_TAGS = frozenset(_STANDARD + tag for tag in ("str", "int", "float", "bool", "null", "timestamp", "value"))
_MERGE_TAG = _STANDARD + "merge"
_SURROGATE = re.compile("[\ud800-\udfff]")

_ANY_FIX = "YAML 1.1"
_FIXES = {
    "while scanning a quoted scalar": (True, "a text whose quote is closed on its line"),
    "while scanning a simple key": (True, "a key with a colon and a space after it"),
    "while parsing a flow mapping": (True, "a closing }, and a comma between two keys"),
    "while parsing a flow sequence": (True, "a closing ], and a comma between two items"),
    "while parsing a block mapping": (False, "keys that are aligned with each other"),
    "while parsing a block collection": (False, "items that are aligned with each other"),
    "mapping values are not allowed here": (False, "aligned keys, and quotes around a text that holds a colon"),
}
"""By what the parser did, or by its problem: whether the line to fix is where that began, and what is allowed."""


class _Builder:
    """Turns PyYAML's nodes into ours. A node that several aliases name is built once."""

    def __init__(self, file: str, environ: Mapping[str, str] | None) -> None:
        self.file = file
        self.environ = environ
        self.faults: list[Fault] = []
        self.broken: set[Loc] = set()
        self._built: dict[int, Node] = {}
        self._open: set[int] = set()

    def build(self, node: yaml.Node, loc: Loc) -> Node:
        key = id(node)
        if key in self._open:
            self.broken.add(loc)
            self._fault(node, loc, Rule.SELF_REFERENCE)
            return None
        if key not in self._built:
            self._open.add(key)
            self._built[key] = self._build(node, loc)
            self._open.remove(key)
        return self._built[key]

    def _build(self, node: yaml.Node, loc: Loc) -> Node:
        if isinstance(node, yaml.MappingNode) and node.tag == _STANDARD + "map":
            return self._table(node, loc)
        if isinstance(node, yaml.SequenceNode) and node.tag == _STANDARD + "seq":
            row = Row()
            for index, item in enumerate(node.value):
                row.append(self.build(item, (*loc, index)))
                row.item_lines.append(_line(item))
            return row
        if isinstance(node, yaml.ScalarNode) and node.tag in _SCALAR_TAGS:
            if node.tag == _STANDARD + "null":
                return None
            text = Expansion(node.value) if self.environ is None else expand(node.value, self.environ)
            return Scalar(_line(node), text)
        self.broken.add(loc)
        self._fault(node, loc, Rule.TAG)
        return None

    def _table(self, node: yaml.MappingNode, loc: Loc) -> Table:
        table = Table(_line(node))
        merged: list[Table] = []
        first: dict[str, int] = {}
        for key, value in node.value:
            if not isinstance(key, yaml.ScalarNode):
                found = "a mapping" if isinstance(key, yaml.MappingNode) else "a list"
                self._fault(key, loc, Rule.KEY_NOT_TEXT, found=found)
                continue
            name = key.value
            if _SURROGATE.search(name):  # as "\ud800" gives it: no text that could be looked up, or printed
                self._fault(key, loc, Rule.CONTROL_CHARACTER)
                continue
            line = _line(key)
            if name in first:
                self._fault(key, (*loc, name), Rule.REPEATED_KEY, has_value=bool(value.value), first=first[name])
                continue
            first[name] = line
            if key.tag == _MERGE_TAG:
                merged += self._merged(value, (*loc, name))
            else:
                table[name] = self.build(value, (*loc, name))
                table.key_lines[name] = line
        for other in merged:  # what is written out wins over what is merged, an earlier merge over a later one
            for name in other.keys() - table.keys():
                table[name] = other[name]
                table.key_lines[name] = other.key_lines[name]
        return table

    def _merged(self, node: yaml.Node, loc: Loc) -> Iterator[Table]:
        for item in node.value if isinstance(node, yaml.SequenceNode) else [node]:
            built = self.build(item, loc)
            if isinstance(built, Table):
                yield built
            elif id(item) not in self._open:  # an alias to itself has its own fault
                self._fault(item, loc, Rule.MERGE, found=shape(built))

    def _fault(self, node: yaml.Node, loc: Loc, rule: Rule, *, has_value: bool = True, **facts: object) -> None:
        self.faults.append(Fault(self.file, _line(node), show_path(loc, has_value=has_value), rule.format(**facts)))


def _line(node: yaml.Node) -> int:
    return int(node.start_mark.line) + 1


def read_document(path: Path, environ: Mapping[str, str] | None, *, keys: str) -> Document:
    """Parse a file. What is not one YAML mapping raises `ConfigError` at once; lesser faults are in the document.

    `environ` fills in `${NAME}`; without it that is a text like any other. `keys` names the top-level keys, for the
    message about a file without them.
    """
    file = str(path)

    def refuse(rule: Rule, line: int | None = None, **facts: object) -> ConfigError:
        return ConfigError([Fault(file, line, "", rule.format(**facts))])

    try:
        raw = path.read_bytes()
    except OSError as error:
        raise refuse(Rule.UNREADABLE_FILE, reason=error.strerror or type(error).__name__) from None
    try:
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise refuse(Rule.NOT_UTF8, raw.count(b"\n", 0, error.start) + 1) from None
    builder = _Builder(file, environ)
    try:
        node = _parse(text)
        root = None if node is None else builder.build(node, ())
    except yaml.MarkedYAMLError as error:
        rule = _syntax_rule(error, text)
        begins, fix = _FIXES.get(error.context or error.problem or "", (False, _ANY_FIX))
        # The problem of what has no end is found at the end of the file, or on the line below.
        first, last = error.context_mark, error.problem_mark
        mark = first if first and (last is None or (begins and rule is Rule.SYNTAX)) else last
        problem = error.problem or error.context
        raise refuse(rule, mark.line + 1 if mark else None, problem=problem, fix=fix) from None
    except yaml.reader.ReaderError as error:
        raise refuse(Rule.CONTROL_CHARACTER, text.count("\n", 0, error.position) + 1) from None
    except RecursionError:
        raise refuse(Rule.TOO_DEEP) from None
    if node is None or (root is None and not builder.faults):
        raise refuse(Rule.EMPTY_FILE, keys=keys)
    if not isinstance(root, Table):
        raise (
            ConfigError(builder.faults)
            if builder.faults
            else refuse(Rule.SECTION, _line(node), found=shape(root), keys=keys)
        )
    return Document(file, root, builder.faults, frozenset(builder.broken))


def _parse(text: str) -> yaml.Node | None:
    loader = yaml.SafeLoader(text)
    try:
        return loader.get_single_node()
    finally:
        loader.dispose()


def _syntax_rule(error: yaml.MarkedYAMLError, text: str) -> Rule:
    """PyYAML names aliases and tags in its messages; where those may be part of a secret we say it ourselves."""
    problem, mark = error.problem or "", error.problem_mark
    if problem.startswith("found undefined alias"):
        return Rule.UNDEFINED_ALIAS
    if problem.startswith("found undefined tag handle"):
        return Rule.TAG
    if problem == "but found another document":
        return Rule.SECOND_DOCUMENT
    if mark is not None and problem.endswith("but got '{'") and text[mark.index - 1 : mark.index] == "$":
        return Rule.BARE_VARIABLE
    return Rule.TAB if r"\t" in problem else Rule.SYNTAX
