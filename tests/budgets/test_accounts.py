"""Accounts: which providers share one, and by whose month an API of theirs is billed."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest

from tests.support.sharded import load
from trainfleet_exporter.budgets import Accounts, BillingPeriod, Ledger
from trainfleet_exporter.config import AccountKey

CHINA, OTHER = BillingPeriod(utc_offset=timedelta(hours=8)), BillingPeriod(first_day=5)
PAI = """\
  - name: {name}
    platform: alibaba_pai
    region: cn-hangzhou
    credentials: {{access_key_id: id, access_key_secret: secret}}
    {more}
"""
MODELARTS = """\
  - name: {name}
    platform: huawei_modelarts
    region: cn-north-4
    project_id: 0123456789abcdef0123456789abcdef
    credentials: {{access_key: id, secret_key: secret}}
    {more}
"""


def test_providers_share_a_named_account_or_have_their_own(tmp_path: Path) -> None:
    names = {"a": "account: main", "b": "account: main", "main": ""}
    text = "providers:\n" + "".join(PAI.format(name=name, more=more) for name, more in names.items())
    config = load(text, tmp_path)
    shared, own = AccountKey("account", "main"), AccountKey("provider", "main")
    assert [found.account_key for found in config.providers] == [shared, shared, own]
    assert Accounts(Ledger(), {}).draft(config.providers).keys() == {shared, own}


@pytest.mark.parametrize("pai_first", [True, False])
def test_an_api_is_billed_by_the_platform_that_has_it(tmp_path: Path, pai_first: bool) -> None:
    limits = "account: main\n    limits: {monthly_calls: {dlc: 1000}}"
    providers = [PAI.format(name="a", more=limits), MODELARTS.format(name="b", more="account: main")]
    config = load("providers:\n" + "".join(providers if pai_first else reversed(providers)), tmp_path)
    accounts = Accounts(Ledger(), {"alibaba_pai": CHINA, "huawei_modelarts": OTHER})
    (account,) = accounts.draft(config.providers).values()
    assert {api: budget.billing for api, budget in account.budgets.items()} == {"dlc": CHINA}
