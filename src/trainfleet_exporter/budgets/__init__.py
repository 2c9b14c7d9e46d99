"""Monthly budgets of calls: the remaining calls, the state file that keeps them, and longer intervals to save calls.

`Platform.billing` has the rules of the clouds: when a billing month begins.
"""

from trainfleet_exporter.budgets.accounts import Accounts, BudgetedAccount
from trainfleet_exporter.budgets.billing import BillingPeriod, Month
from trainfleet_exporter.budgets.budget import Budget
from trainfleet_exporter.budgets.clock import BudgetClock
from trainfleet_exporter.budgets.ledger import Ledger
from trainfleet_exporter.budgets.state_file import Spent, StateFile, is_of_shard, read_state, read_term
from trainfleet_exporter.budgets.throttling import Throttle, Throttling

__all__ = [
    "Accounts",
    "BillingPeriod",
    "Budget",
    "BudgetClock",
    "BudgetedAccount",
    "Ledger",
    "Month",
    "Spent",
    "StateFile",
    "Throttle",
    "Throttling",
    "is_of_shard",
    "read_state",
    "read_term",
]
