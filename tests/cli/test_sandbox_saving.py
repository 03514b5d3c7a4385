"""``--save`` while objects change: the file follows."""

import asyncio
import gzip
import json
from pathlib import Path

import pytest
from tests.patience import PATIENCE
from tests.sandbox.server.local_client import LocalClient

from zoneward.cli import sandbox_run
from zoneward.sandbox.server.persistence import new_registry


@pytest.mark.parametrize("name", ["all.json", "all.json.gz"])
async def test_the_file_follows_what_changes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.setattr(sandbox_run, "_SAVING", 0.001)
    registry, file, end = new_registry(), tmp_path / name, asyncio.Event()
    inside, kind = LocalClient(registry), registry.kinds["namespaces"]

    def saved() -> set[str]:
        data = file.read_bytes()
        items = json.loads(gzip.decompress(data) if name.endswith(".gz") else data)["items"]
        return {item["metadata"]["name"] for item in items}

    async with asyncio.timeout(PATIENCE), asyncio.TaskGroup() as group:
        group.create_task(sandbox_run._until(end, registry, file))
        await asyncio.sleep(0)  # It saves what changes after it began.
        for index in range(3):
            inside.create(kind, "", {"metadata": {"name": f"shop-{index}"}})
            while not file.exists() or f"shop-{index}" not in saved():
                await asyncio.sleep(0.001)
        end.set()
    assert [path.name for path in tmp_path.iterdir()] == [name]
