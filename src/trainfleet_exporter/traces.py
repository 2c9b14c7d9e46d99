"""Traces of exceptions that hold no secret: what was raised and where, never what it says.

The text of an exception quotes whatever the code that raised it had in hand: `invalid literal for int(): '...'`, a
KeyError's key, the input of a validation, a line of a file. That may be a key, a token or a line of somebody's job. So
a trace names types, and frames by their source lines, which are the program's own text; it shows no values, no notes
and no arguments. Two kinds of text are shown, because they cannot quote anything:

* errors of this program (TrainfleetError), whose texts are written to hold no secret;
* the system's word for an errno (`No such file or directory`), taken from the number and not from the exception, whose
  own text would add a path.
"""

from __future__ import annotations

import errno
import linecache
import os
import sysconfig
from collections.abc import Iterator
from pathlib import Path
from types import CodeType, TracebackType

from trainfleet_exporter.errors import TrainfleetError

_ROOTS = tuple(
    # The longest first: site-packages lies within the standard library's folder.
    sorted(
        {
            f"{Path(__file__).resolve().parent.parent}{os.sep}",
            *(f"{sysconfig.get_path(name)}{os.sep}" for name in ("purelib", "platlib", "stdlib", "platstdlib")),
        },
        key=len,
        reverse=True,
    )
)
_FIRST, _LAST = 5, 25
"""How many frames of one exception are shown: an endless recursion has a thousand."""
_MOST = 20
"""How many exceptions of one chain or group are shown."""
_CAUSE = "which was the direct cause of:"
_CONTEXT = "during the handling of which came:"


def describe(error: BaseException) -> str:
    """An exception in one line, without anything that it quotes."""
    name = _name(type(error))
    if isinstance(error, TrainfleetError):
        return f"{name}: {error}"
    if isinstance(error, OSError) and _is_of_the_system(error):
        assert error.errno is not None
        return f"{name}: {os.strerror(error.errno)}"
    return name


def format_trace(error: BaseException, traceback: TracebackType | None = None) -> str:
    """The exception with its frames, its causes first, as Python does; several lines."""
    return "\n".join(_lines(error, error.__traceback__ if traceback is None else traceback, set()))


def place(code: CodeType, line: int) -> str:
    """A place in the source, its file relative to the package or the library that it belongs to."""
    return f'File "{_shown(code.co_filename)}", line {line}, in {code.co_name}'


def _lines(error: BaseException, traceback: TracebackType | None, seen: set[int]) -> Iterator[str]:
    if id(error) in seen or len(seen) >= _MOST:
        return
    seen.add(id(error))
    cause, context = error.__cause__, error.__context__
    if cause is not None:
        yield from _lines(cause, cause.__traceback__, seen)
        yield _CAUSE
    elif context is not None and not error.__suppress_context__:
        yield from _lines(context, context.__traceback__, seen)
        yield _CONTEXT
    yield "Traceback (most recent call last):"
    yield from _frames(traceback)
    yield describe(error)
    if isinstance(error, BaseExceptionGroup):
        for number, inner in enumerate(error.exceptions, start=1):
            yield f"  of which {number}:"
            yield from (f"    {line}" for line in _lines(inner, inner.__traceback__, seen))


def _frames(traceback: TracebackType | None) -> Iterator[str]:
    found: list[tuple[CodeType, int]] = []
    while traceback is not None:
        found.append((traceback.tb_frame.f_code, traceback.tb_lineno or 0))
        traceback = traceback.tb_next
    left_out = len(found) - _FIRST - _LAST
    for number, (code, line) in enumerate(found):
        if left_out > 0 and _FIRST <= number < _FIRST + left_out:
            if number == _FIRST:
                yield f"  ... {left_out} frames more ..."
            continue
        yield f"  {place(code, line)}"
        source = linecache.getline(code.co_filename, line).strip()
        if source:
            yield f"    {source}"


def _shown(file: str) -> str:
    root = next((root for root in _ROOTS if file.startswith(root)), "")
    return file[len(root) :]


def _name(kind: type[BaseException]) -> str:
    module = kind.__module__
    return kind.__qualname__ if module in {"builtins", "__main__"} else f"{module}.{kind.__qualname__}"


def _is_of_the_system(error: OSError) -> bool:
    # OpenSSL and resolvers number their errors, too, and not by errno.
    return error.errno in errno.errorcode and type(error).__module__ == "builtins"
