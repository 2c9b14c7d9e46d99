"""Everything that can be reached from an object, as from a debugger or a log call."""

from __future__ import annotations

import asyncio
import functools
import gc
import logging
import pickle
import types
from collections.abc import Iterator
from contextvars import Context, ContextVar
from typing import Any

# Beyond these lies the whole interpreter, and the test itself, which knows the secrets that it looks for.
_BEYOND = (
    type,
    types.ModuleType,
    types.FrameType,
    types.CodeType,
    types.CoroutineType,
    types.GeneratorType,
    types.AsyncGeneratorType,
    types.TracebackType,
    asyncio.AbstractEventLoop,
    asyncio.Future,
    asyncio.Handle,
    logging.Logger,
    logging.Handler,
    Context,
    ContextVar,
)
_LEAVES = (str, bytes, bytearray, int, float, complex, type(None), type(Ellipsis))
_MOST = 200_000


def reachable(root: object) -> Iterator[object]:
    """Every object within reach but texts, numbers and what lies beyond; each once, and the nearest first."""
    seen = {id(root)}
    level = [root]
    while level:
        following: list[object] = []
        for each in level:
            yield each
            for inner in _inside(each):
                if id(inner) in seen or isinstance(inner, (*_LEAVES, *_BEYOND)):
                    continue
                seen.add(id(inner))
                following.append(inner)
        level = following
        assert len(seen) < _MOST, "the walk has left the exporter"


def _inside(each: object) -> list[Any]:
    if isinstance(each, types.FunctionType):  # its globals are the module's
        return [*(each.__closure__ or ()), *(each.__defaults__ or ()), each.__kwdefaults__]
    if isinstance(each, types.BuiltinFunctionType | types.MethodType):
        return [each.__self__, getattr(each, "__func__", None)]
    if isinstance(each, functools.partial):
        return [each.func, each.args, each.keywords]
    return gc.get_referents(each)


def shown(each: object) -> str:
    """All that an object shows of itself: as it is printed, formatted, listed, and written down."""
    found = [repr(each), str(each), f"{each}"]
    if hasattr(each, "__dict__") and not isinstance(each, types.FunctionType):
        found.append(repr(vars(each)))
    if type(each).__module__.startswith("trainfleet_exporter"):
        try:
            found.append(repr(pickle.dumps(each)))
        except (TypeError, AttributeError, ValueError, pickle.PicklingError) as error:
            found.append(str(error))  # most of them hold sockets, locks or functions
    return "\n".join(found)
