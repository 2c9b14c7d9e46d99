"""Which refusals name a missing permission: by their code first, and by their HTTP status second."""

from __future__ import annotations

import pytest

from trainfleet_exporter.diagnose.examine import lacks_right
from trainfleet_exporter.errors import AccessDenied

REFUSALS = {
    ("AccessDeniedException", 400): True,
    ("AccessDenied", 403): True,
    ("NoPermission", 400): True,
    ("Forbidden.RAM", 404): True,
    ("ModelArts.0010", 403): True,
    ("", 403): True,
    ("ExpiredTokenException", 403): False,
    ("UnrecognizedClientException", 400): False,
    ("InvalidClientTokenId", 403): False,
    ("InvalidSignatureException", 403): False,
    ("RequestTimeTooSkewed", 403): False,
    ("InvalidSecurityToken.Expired", 400): False,
    ("APIGW.0307", 401): False,
}


@pytest.mark.parametrize(("code", "status"), REFUSALS)
def test_missing_permission_differs_from_a_wrong_key(code: str, status: int) -> None:
    assert lacks_right(AccessDenied("no", status=status, code=code)) is REFUSALS[code, status]
