"""What the proposals say of a cluster over time holds, on a sandbox and on a real server alike: see ``README.md``."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.client.serving import access_to
from tests.contract.api import Api
from tests.scenarios.playing import play
from tests.scenarios.scenario import FOLDER, read_scenario, scenarios

from zoneward.client.auth.kubeconfig import load_client_config
from zoneward.sandbox.server.persistence import new_registry
from zoneward.sandbox.server.sandbox_server import SandboxServer

pytestmark = pytest.mark.slow

SCENARIOS = scenarios()


@pytest.fixture(scope="session")
def kubeconfig(request: pytest.FixtureRequest) -> Iterator[Path | None]:
    """With ``--server=real`` one control plane for all; None: each scenario has its own sandbox."""
    chosen = str(request.config.getoption("--server", default="sandbox"))
    if chosen == "sandbox":
        yield None
        return
    from e2e.control_plane import ControlPlane  # what it needs is not for those who only want the sandbox

    with ControlPlane() as plane:
        yield plane.kubeconfig()


@pytest.mark.parametrize("name", SCENARIOS)
async def test_what_a_scenario_expects_holds_after_each_step(name: str, kubeconfig: Path | None) -> None:
    scenario = read_scenario(SCENARIOS[name])
    if kubeconfig is not None:
        access = load_client_config(kubeconfig=str(kubeconfig), environment={})
        await play(scenario, Api.of(kubeconfig), access, is_shared=True)
        return
    async with SandboxServer(new_registry(), ends_pods=True) as server:
        await play(scenario, Api(server.address, token=""), access_to(server.address), is_shared=False)


def test_the_table_of_rows_links_to_every_scenario_and_to_nothing_else() -> None:
    text = (FOLDER / "README.md").read_text()
    assert set(re.findall(r"\]\((\S+)\.yaml\)", text)) == set(SCENARIOS)
