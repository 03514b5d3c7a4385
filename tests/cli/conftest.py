import pytest
from tests.cli.running import Commands


@pytest.fixture
def zoneward(capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Commands:
    """Run a command as `zoneward` would, in this process."""
    monkeypatch.delenv("NO_COLOR", raising=False)
    return Commands(capfd)
