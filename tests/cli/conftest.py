from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.builders.new_user_clusters import eks_with_a_thin_zone, written
from tests.cli.live_cluster import Cluster, a_live_cluster
from tests.cli.running import Commands


@pytest.fixture
def zoneward(capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Commands:
    """Run a command as `zoneward` would, in this process."""
    monkeypatch.delenv("NO_COLOR", raising=False)
    return Commands(capfd)


@pytest.fixture(scope="session")
def eks(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file with a cluster of EKS, one zone of which is thin."""
    return written(eks_with_a_thin_zone, tmp_path_factory.mktemp("eks"))


@pytest.fixture
def cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Cluster]:
    """The sample cluster, live, which the environment's kubeconfig names."""
    with a_live_cluster(tmp_path) as cluster:
        monkeypatch.setenv("KUBECONFIG", str(cluster.kubeconfig))
        yield cluster
