import pytest

from trainfleet_exporter.process.redaction import KNOWN


@pytest.fixture(autouse=True)
def _secrets_of_this_test_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """A secret of a test before, such as "secret", would be masked within a name that this one expects."""
    monkeypatch.setattr(KNOWN, "_configured", {})
    monkeypatch.setattr(KNOWN, "_used", {})
