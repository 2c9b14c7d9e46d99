"""One target under atheris: `python -m fuzz.run TARGET [options of libFuzzer] FOLDER...`."""

from __future__ import annotations

import copy
import importlib
import json
import os
import random
import sys
from typing import Any

import atheris

_JSON = {"alibaba_pai", "aws_sagemaker", "huawei_modelarts"}
_ODD: tuple[Any, ...] = (
    *(None, True, False, 0, 1, -1, 0.5, -0.0, 1e308, -1e308, 10**30, 2**63, 1767323045, 1767323045000),
    *("", " ", "0", "-1", "1/10", "8Gi", "NaN", "1e999", "1767323045000", "Running", "Failed"),
    *("\ud800", "\x00", "a\nb", '"\\', "é" * 200, "2026-01-02T03:04:05Z", "9999-12-31T23:59:59.999Z"),
    *([], {}, [[]], [None], {"a": {}}, [{}, {}]),
)


def mutate_json(data: bytes, max_size: int, seed: int) -> bytes:
    """Mutate a response: insert an odd value, move a value to another's place, or change bytes."""
    chance = random.Random(seed)
    try:
        payload = json.loads(data)
    except (ValueError, RecursionError):
        return bytes(atheris.Mutate(data, max_size))
    if chance.random() < 0.3:
        return bytes(atheris.Mutate(data, max_size))
    for _ in range(chance.randint(1, 4)):
        places = list(_places(payload))
        if not places:
            break
        holder, key = chance.choice(places)
        match chance.randrange(5):
            case 0:
                del holder[key]
            case 1:
                other, whose = chance.choice(places)
                holder[key] = json.loads(json.dumps(other[whose]))
            case 2 if isinstance(holder, dict):
                holder[key] = [holder[key], copy.deepcopy(holder[key])]
            case _:
                holder[key] = copy.deepcopy(chance.choice(_ODD))
    made = json.dumps(payload).encode()
    return made if len(made) <= max_size else data[:max_size]


def _places(value: Any) -> Any:
    """Return every place in a JSON value, as its container and the key or index."""
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in list(items):
        yield value, key
        yield from _places(inner)


def main() -> None:
    """Run until libFuzzer ends or finds an error."""
    name = sys.argv.pop(1)
    sys.argv[0] = os.environ.get("FUZZ_SELF", sys.argv[0])
    with atheris.instrument_imports(include=["trainfleet_exporter"]):
        targets = importlib.import_module("fuzz.targets")
    options = {"custom_mutator": mutate_json} if name in _JSON else {}
    atheris.Setup(sys.argv, targets.TARGETS[name], **options)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
