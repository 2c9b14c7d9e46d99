"""What is mutated, and the tests of it that run in this process and take little time."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Target:
    """One module by its path in the package, and files of tests."""

    subject: str
    module: str
    tests: tuple[str, ...]

    @property
    def dotted(self) -> str:
        """Its name for `import`."""
        return f"trainfleet_exporter.{self.module.removesuffix('.py').replace('/', '.')}"


_BUDGET = (
    "tests/budgets/test_billing.py",
    "tests/budgets/test_budget.py",
    "tests/budgets/test_budget_ahead.py",
    "tests/budgets/test_clock.py",
    "tests/budgets/test_ledger.py",
    "tests/budgets/test_ledger_clock.py",
    "tests/budgets/test_ledger_moves.py",
)
_FILES = ("tests/budgets/test_ledger_writes.py", "tests/budgets/test_reload.py", "tests/budgets/test_state_file.py")
_THROTTLES = (
    "tests/budgets/test_throttling.py",
    "tests/budgets/test_throttling_bounds.py",
    "tests/polling/test_leaving.py",
)
_PARTS = (
    "tests/polling/test_polling.py",
    "tests/polling/test_living_on.py",
    "tests/polling/test_failures.py",
    "tests/polling/test_leaving.py",
    "tests/polling/test_parts.py",
    "tests/polling/test_poll.py",
)
_PAGES = (
    "tests/page/test_body.py",
    "tests/page/test_building.py",
    "tests/page/test_deflate.py",
    "tests/page/test_equal_pages.py",
    "tests/page/test_store.py",
)

TARGETS = (
    Target("negotiation", "page/negotiation.py", ("tests/page/test_negotiation.py",)),
    Target("budget", "budgets/billing.py", _BUDGET),
    Target("budget", "budgets/budget.py", _BUDGET),
    Target("budget", "budgets/clock.py", _BUDGET),
    Target("budget", "budgets/ledger.py", (*_BUDGET, *_FILES)),
    Target("budget", "budgets/state_file.py", (*_BUDGET, *_FILES)),
    Target("budget", "budgets/throttling.py", _THROTTLES),
    Target("freshness", "polling/parts.py", _PARTS),
    Target("freshness", "polling/poll.py", (*_PARTS, "tests/web/test_status_page_errors.py")),
    Target("publish", "page/store.py", _PAGES),
    Target(
        "publish",
        "page/blocks.py",
        ("tests/page/test_body.py", "tests/page/test_deflate.py", "tests/page/test_store.py"),
    ),
)
