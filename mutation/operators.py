"""The mistakes that are tried: each replaces one expression or statement of a module's syntax tree."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

_COMPARED: dict[type[ast.cmpop], tuple[type[ast.cmpop], ...]] = {
    ast.Lt: (ast.LtE, ast.GtE),
    ast.LtE: (ast.Lt, ast.Gt),
    ast.Gt: (ast.GtE, ast.LtE),
    ast.GtE: (ast.Gt, ast.Lt),
    ast.Eq: (ast.NotEq,),
    ast.NotEq: (ast.Eq,),
    ast.Is: (ast.IsNot,),
    ast.IsNot: (ast.Is,),
    ast.In: (ast.NotIn,),
    ast.NotIn: (ast.In,),
}
"""The bound left out or taken in, and the opposite."""
_COMPUTED: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Div,
    ast.Div: ast.Mult,
    ast.FloorDiv: ast.Mult,
    ast.Mod: ast.FloorDiv,
    ast.BitOr: ast.BitAnd,
    ast.BitAnd: ast.BitOr,
}
_CALLED = {"min": "max", "max": "min", "any": "all", "all": "any", "floor": "ceil", "ceil": "floor"}
_DROPPED = (ast.AugAssign, ast.Delete, ast.Raise, ast.Return, ast.Continue, ast.Break)
_SIMPLE = (ast.Assign, ast.AugAssign, ast.AnnAssign, ast.Return, ast.Expr, ast.Raise, ast.Delete, ast.Pass)
_AROUND = (ast.expr, ast.keyword, ast.comprehension, *_SIMPLE)
_LONGEST = 80
"""Characters of the surrounding code, at most, that name a mutant."""


@dataclass(slots=True)
class Mutant:
    """One mistake. Its name stays the same when lines move: where it is, and the code before and after."""

    name: str
    line: int
    lines: range
    """Those of the function (or statement, where it is in none) of which one at least has to run for a test to notice.
    That very statement need not have been seen: in coroutines that another's error ends, tracing misses lines."""
    _tree: ast.Module
    _slot: tuple[ast.AST, str, int | None]
    _old: ast.AST
    _new: ast.AST

    def compiled(self, file: str) -> Any:
        """The code of the whole module with the mistake in it."""
        with _put(self._slot, self._old, self._new):
            return compile(ast.fix_missing_locations(self._tree), file, "exec", dont_inherit=True)


def mutants(source: str) -> list[Mutant]:
    """All mutants of a module, in the order of its lines."""
    tree = ast.parse(source)
    found = []
    seen: Counter[str] = Counter()
    for path, slot, node in _walk(tree, []):
        for new in _replacements(node):
            ast.copy_location(new, node)
            name = f"{_where(path)}: {_change(path, slot, node, new)}"
            seen[name] += 1
            if seen[name] > 1:
                name += f" ({seen[name]})"
            found.append(Mutant(name, _line([*path, node]), _lines([*path, node]), tree, slot, node, new))
    return found


def _walk(
    node: ast.AST, path: list[ast.AST]
) -> Iterator[tuple[list[ast.AST], tuple[ast.AST, str, int | None], ast.AST]]:
    """Every node with those around it, from the outermost, and its place; without annotations and what is not run."""
    around = [*path, node]
    for field, value in ast.iter_fields(node):
        if field in ("annotation", "returns", "decorator_list", "bases"):
            continue
        for index, child in enumerate(value) if isinstance(value, list) else ((None, value),):
            if not isinstance(child, ast.AST) or _is_no_code(child):
                continue
            yield around, (node, field, index), child
            yield from _walk(child, around)


def _is_no_code(node: ast.AST) -> bool:
    """Docstrings, `...`, assertions for types, and `__all__`."""
    match node:
        case ast.Expr(value=ast.Constant()) | ast.Assert() | ast.Import() | ast.ImportFrom():
            return True
        case ast.Assign(targets=[ast.Name(id="__all__")]):
            return True
        case ast.Call(func=ast.Attribute(value=ast.Name(id="log"))):
            return True  # only its statement is dropped: its words are for people
    return False


def _replacements(node: ast.AST) -> Iterator[ast.AST]:
    if isinstance(node, ast.stmt):
        yield from _statements(node)
    elif isinstance(node, ast.expr):
        yield from _expressions(node)


def _statements(node: ast.stmt) -> Iterator[ast.AST]:
    match node:
        case ast.Expr(value=ast.Call() | ast.Await() | ast.Yield() | ast.YieldFrom()):
            yield ast.Pass()
        case ast.Return(value=value) if value is not None and not _is_none(value):
            yield ast.Return(ast.Constant(None))
        case ast.Assign(targets=[ast.Attribute() | ast.Subscript() | ast.Tuple()]):
            yield ast.Pass()
        case ast.With(items=items, body=body) | ast.AsyncWith(items=items, body=body):
            if all(item.optional_vars is None for item in items):
                yield ast.If(ast.Constant(True), body, [])
        case ast.If(test=test) | ast.While(test=test) if not isinstance(test, ast.Compare | ast.Constant | ast.UnaryOp):
            changed = _copied(node)
            changed.test = ast.UnaryOp(ast.Not(), test)
            yield changed
        case _ if isinstance(node, _DROPPED):
            yield ast.Pass()


def _expressions(node: ast.expr) -> Iterator[ast.AST]:
    match node:
        case ast.IfExp(test, body, orelse):
            yield ast.IfExp(test, orelse, body)
        case ast.Constant(value):
            yield from (ast.Constant(other) for other in _constants(value))
        case ast.Call():
            yield from _calls(node)
        case ast.ListComp() | ast.SetComp() | ast.GeneratorExp() | ast.DictComp():
            for index, loop in enumerate(node.generators):
                if loop.ifs:
                    bare = ast.comprehension(loop.target, loop.iter, [], loop.is_async)
                    changed = _copied(node)
                    changed.generators = [*node.generators[:index], bare, *node.generators[index + 1 :]]
                    yield changed
        case _:
            yield from _operations(node)


def _operations(node: ast.expr) -> Iterator[ast.AST]:
    match node:
        case ast.Compare(left, ops, comparators):
            for index, op in enumerate(ops):
                for other in _COMPARED[type(op)]:
                    yield ast.Compare(left, [*ops[:index], other(), *ops[index + 1 :]], comparators)
        case ast.BoolOp(op, values):
            yield ast.BoolOp(ast.Or() if isinstance(op, ast.And) else ast.And(), values)
            for index in range(len(values)):
                rest = values[:index] + values[index + 1 :]
                yield ast.BoolOp(op, rest) if len(rest) > 1 else rest[0]
        case ast.BinOp(left, op, right) if type(op) in _COMPUTED:
            yield ast.BinOp(left, _COMPUTED[type(op)](), right)
        case ast.UnaryOp(op=ast.Not() | ast.USub(), operand=operand):
            yield operand


def _calls(node: ast.Call) -> Iterator[ast.AST]:
    match node:
        case ast.Call(func=ast.Name(id="abs"), args=[inner]):
            yield inner
        case ast.Call(func=ast.Name(id=name), args=args, keywords=keywords) if name in _CALLED:
            yield ast.Call(ast.Name(_CALLED[name], ast.Load()), args, keywords)
        case ast.Call(func=ast.Attribute(value=ast.Name(id="math") as module, attr=name), args=args) if name in _CALLED:
            yield ast.Call(ast.Attribute(module, _CALLED[name], ast.Load()), args, [])


def _constants(value: object) -> Iterator[Any]:
    match value:
        case bool():
            yield not value
        case int() | float():
            yield value + 1
        case str():
            yield "" if value else "mutated"
        case bytes():
            yield b"" if value else b"mutated"


def _is_none(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value is None


def _copied(node: Any) -> Any:
    return type(node)(**dict(ast.iter_fields(node)))


@contextmanager
def _put(slot: tuple[ast.AST, str, int | None], old: ast.AST, new: ast.AST) -> Iterator[None]:
    def put(node: ast.AST) -> None:
        holder, field, index = slot
        if index is None:
            setattr(holder, field, node)
        else:
            getattr(holder, field)[index] = node

    put(new)
    try:
        yield
    finally:
        put(old)


def _where(path: list[ast.AST]) -> str:
    scopes = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
    return ".".join(node.name for node in path if isinstance(node, scopes)) or "module"


def _change(path: list[ast.AST], slot: tuple[ast.AST, str, int | None], old: ast.AST, new: ast.AST) -> str:
    """The largest piece of code around the change that is short enough to be read at a glance, before and after."""
    if isinstance(new, ast.Pass):
        return f"without {_shortened(ast.unparse(old))}"
    if isinstance(old, ast.With | ast.AsyncWith):
        return f"without {_head(old)}"
    if isinstance(old, ast.If | ast.While):
        return f"{_head(old)} → {_head(new)}"
    widest = old
    for node in reversed(path):
        if not isinstance(node, _AROUND) or len(ast.unparse(node)) > _LONGEST:
            break
        widest = node
    before = ast.unparse(widest)
    with _put(slot, old, new):
        after = ast.unparse(new if widest is old else widest)
    return f"{_shortened(before)} → {_shortened(after)}"


def _head(node: ast.AST) -> str:
    return _shortened(ast.unparse(node).partition("\n")[0].rstrip(":"))


def _shortened(text: str) -> str:
    text = " ".join(text.split())
    return text if len(text) <= 2 * _LONGEST else f"{text[: 2 * _LONGEST]}…"


def _line(path: list[ast.AST]) -> int:
    return next(node.lineno for node in reversed(path) if isinstance(node, ast.stmt | ast.expr))


def _lines(path: list[ast.AST]) -> range:
    around = [node for node in path if isinstance(node, ast.stmt)]
    for node in around:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            return range(node.body[0].lineno, (node.end_lineno or node.lineno) + 1)
    return range(around[-1].lineno, (around[-1].end_lineno or around[-1].lineno) + 1)
