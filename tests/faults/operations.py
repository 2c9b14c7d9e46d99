"""Every operation that the exporter calls: the rows of the matrix."""

from __future__ import annotations

from tests.faults.columns import SHUT, Column
from tests.faults.modelarts_rows import MODELARTS
from tests.faults.pai_rows import PAI
from tests.faults.row import Row
from tests.faults.sagemaker_rows import SAGEMAKER
from trainfleet_simulator.modelarts.agency import OIDC_TOKEN as HUAWEI_TOKEN
from trainfleet_simulator.modelarts.catalog import PASSWORD, SECRET_KEY
from trainfleet_simulator.pai.sts import OIDC_TOKEN
from trainfleet_simulator.sagemaker import identity as aws
from trainfleet_simulator.sagemaker.catalog import SECRET_ACCESS_KEY
from trainfleet_simulator.server import ACCESS_KEY_SECRET
from trainfleet_simulator.world.nouns import PLANTED_SECRETS

SECRETS = {
    "access key secret": ACCESS_KEY_SECRET,
    "secret key": SECRET_KEY,
    "password": PASSWORD,
    "PAI OIDC token": OIDC_TOKEN,
    "Huawei OIDC token": HUAWEI_TOKEN,
    "secret access key": SECRET_ACCESS_KEY,
    "web identity token": aws.WEB_IDENTITY_TOKEN,
    "container token": aws.CONTAINER_TOKEN,
    **{f"in a job's body {number}": text for number, text in enumerate(PLANTED_SECRETS)},
}
"""What opens something, or would; all of it passes through the exporter."""


ROWS = PAI + MODELARTS + SAGEMAKER
"""Those of docs/evidence/faults.md."""


def beside(row: Row, column: Column) -> tuple[set[str], set[str]]:
    """The collectors that may fail, and the families that may be missing: where the address is shut, those of each
    operation that is called there."""
    touched = [row]
    if column.name == SHUT:
        touched += [other for other in ROWS if (other.cloud, other.api) == (row.cloud, row.api)]
    return {name for one in touched for name in one.fails}, {family for one in touched for family in one.loses}
