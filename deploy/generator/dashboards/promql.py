"""Parts of queries that several dashboards share."""

from __future__ import annotations

from collections.abc import Callable, Mapping

P = 'provider=~"$provider"'
"""The matcher for series of the chosen providers."""
AT_PRICES = "* on (accelerator_model) group_left (currency)\naccelerator_model:trainfleet_accelerator_price:per_hour"
"""The cost of accelerators by the table of prices. Models without a price have none."""
MODEL_NAMES = (
    "* on (accelerator_model) group_left (accelerator_name) "
    "(accelerator_model:trainfleet_accelerator_peak:flops_per_second >= bool 0)"
)
"""Adds the names of the table of models."""


def _names(of: str) -> str:
    """Return the name of each pool or workspace. Records stay for some minutes after their source series end, so the
    names must stay, too. `topk` lets joins never match two series while a name changes."""
    keys = f"provider, {of}_id"
    return f"topk by ({keys}) (1, max by ({keys}, {of}_name) (last_over_time(trainfleet_{of}_info{{{P}}}[10m])))"


POOL_NAMES = _names("pool")


def _replaced(expr: str, label: str, value: str, source: str, pattern: str = "") -> str:
    return f'label_replace({expr}, "{label}", "{value}", "{source}", "{pattern}")'


def _with_name(expr: str, of: str) -> str:
    """Add the name of the pool or workspace to series by provider and its id. An unknown one is named by its id."""
    on = f"on (provider, {of}_id)"
    by_id = _replaced(expr, f"{of}_name", "$1", f"{of}_id", "(.*)")
    if of == "pool":
        by_id = _replaced(by_id, "pool_name", "public resources", "pool_id")
    return f"({expr})\n* {on} group_left ({of}_name)\n{_names(of)}\nor {on}\n{by_id}"


NAMING: Mapping[str, Callable[[str], str]] = {
    "pool": lambda expr: _with_name(expr, "pool"),
    "workspace": lambda expr: _with_name(expr, "workspace"),
    # An empty name gives no legend.
    "user": lambda expr: _replaced(expr, "user_name", "(unknown)", "user_name"),
    "charged_to": lambda expr: _replaced(expr, "charged_to", "(no tag)", "charged_to"),
}
"""How the series of a query get names, by the word in files of dashboards."""
