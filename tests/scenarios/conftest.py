"""The server of the scenarios: a sandbox for each, or with ``--server=real`` one real control plane for all."""

from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml
from tests.contract.api import Api
from tests.scenarios.playing import Server

from zoneward.client.auth.kubeconfig import load_client_config


@pytest.fixture(scope="session")
def shared_server(request: pytest.FixtureRequest) -> Iterator[Server | None]:
    """None: each scenario has a sandbox of its own."""
    chosen = str(request.config.getoption("--server", default="sandbox"))
    if chosen == "sandbox":
        yield None
    elif chosen == "real":
        from e2e.control_plane import ControlPlane  # what it needs is not for those who only want the sandbox

        with ControlPlane() as plane:
            yield _server(plane.kubeconfig())
    else:
        server = _server(Path(chosen))
        if server.api.get("/api/v1/nodes")["items"]:
            pytest.fail(f"{chosen}: expected a cluster without Nodes: scenarios bring their own", pytrace=False)
        yield server


def _server(kubeconfig: Path) -> Server:
    content = yaml.safe_load(kubeconfig.read_text())
    cluster, user = content["clusters"][0]["cluster"], content["users"][0]["user"]
    authority = cluster.get("certificate-authority")
    api = Api(cluster["server"], user["token"], Path(authority) if authority else None)
    return Server(api, load_client_config(kubeconfig=str(kubeconfig), environment={}), is_shared=True)
