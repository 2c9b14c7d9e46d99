"""A certificate for the tests of this folder."""

from __future__ import annotations

import pytest

# Self-signed for CN=trainfleet-test; its key is deleted.
_CERTIFICATE = """\
-----BEGIN CERTIFICATE-----
MIIBizCCATGgAwIBAgIUD+AQmCWbRfoGFE7PJFhYIs6bl/QwCgYIKoZIzj0EAwIw
GjEYMBYGA1UEAwwPdHJhaW5mbGVldC10ZXN0MCAXDTI2MTEyMTA5MDcyMFoYDzIx
MjYxMDI4MDkwNzIwWjAaMRgwFgYDVQQDDA90cmFpbmZsZWV0LXRlc3QwWTATBgcq
hkjOPQIBBggqhkjOPQMBBwNCAAQRsIb1TV9PqnHy34vTuM2EEhuXcyKcj0P3axfw
8eKhEb02GUKCUVET0rlWmL+M2hDJHaJvtP/IJcmP4GoclsEXo1MwUTAdBgNVHQ4E
FgQUYVeP8W+oiJYaJuSawwQ/mO9qajkwHwYDVR0jBBgwFoAUYVeP8W+oiJYaJuSa
wwQ/mO9qajkwDwYDVR0TAQH/BAUwAwEB/zAKBggqhkjOPQQDAgNIADBFAiBaASGl
5t3bcTBWEdrVQfiO6CyzKhLSvyrzrbDOyVrwnQIhAP6QhWZ8JjeSRzAwOni1mY1C
Ffjmc+Lc2OpY/0SLoyUn
-----END CERTIFICATE-----
"""


@pytest.fixture
def certificate() -> str:
    return _CERTIFICATE
