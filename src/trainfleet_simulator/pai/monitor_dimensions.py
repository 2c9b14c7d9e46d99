"""The parameter Dimensions of CloudMonitor: the selected things, as JSON text."""

from __future__ import annotations

import json
from collections.abc import Mapping

from trainfleet_simulator.pai import catalog
from trainfleet_simulator.pai.parameters import Query, invalid

_MOST = 50
_FIXED = {"userId": catalog.ACCOUNT_ID, "regionId": catalog.REGION}
Filter = Mapping[str, str]
"""Names and values that a point must have."""


def filters_of(query: Query, known: tuple[str, ...]) -> tuple[Filter, ...]:
    """Return one filter for each object; a point must match one of them. None without dimensions. Raises ApiError."""
    text = query.get("Dimensions", "")
    if not text:
        return ()
    try:
        given = json.loads(text)
    except ValueError:
        given = None
    objects = [given] if isinstance(given, dict) else given
    if not isinstance(objects, list) or len(objects) > _MOST:
        raise invalid("Dimensions", text[:80], f"a JSON object, or a list of at most {_MOST}")
    for one in objects:
        if not isinstance(one, dict) or not all(name in known and isinstance(one[name], str) for name in one):
            raise invalid("Dimensions", text[:80], f"objects of text by {', '.join(known)}")
    # Only one account and region exist: naming them excludes either all points or none.
    fitting = [one for one in objects if all(one.get(name, value) == value for name, value in _FIXED.items())]
    if objects and not fitting:
        return ({"userId": ""},)
    filters = tuple({name: one[name] for name in one if name not in _FIXED} for one in fitting)
    return filters if all(filters) else ()
