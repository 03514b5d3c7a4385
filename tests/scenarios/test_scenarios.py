"""What the proposals say of a cluster over time holds, on a sandbox and on a real server alike: see ``README.md``."""

import asyncio
import re

import pytest
from tests.client.serving import access_to
from tests.contract.api import Api
from tests.scenarios.playing import Server, play
from tests.scenarios.scenario import FOLDER, Scenario, read_scenario, scenarios

from zoneward.sandbox.server.persistence import new_registry
from zoneward.sandbox.server.sandbox_server import SandboxServer

SCENARIOS = scenarios()


@pytest.mark.parametrize("name", SCENARIOS)
def test_what_a_scenario_expects_holds_after_each_step(name: str, shared_server: Server | None) -> None:
    scenario = read_scenario(SCENARIOS[name])
    asyncio.run(_on_a_sandbox(scenario) if shared_server is None else play(scenario, shared_server))


async def _on_a_sandbox(scenario: Scenario) -> None:
    async with SandboxServer(new_registry(), ends_pods=True) as server:
        await play(scenario, Server(Api(server.address, token=""), access_to(server.address), is_shared=False))


def test_the_table_of_rows_links_to_every_scenario_and_to_nothing_else() -> None:
    text = (FOLDER / "README.md").read_text()
    assert set(re.findall(r"\]\((\S+)\.yaml\)", text)) == set(SCENARIOS)
