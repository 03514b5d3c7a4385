"""``--save`` while objects change all the time: whoever reads the file reads one state, whole."""

import asyncio
import gzip
import json
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from zoneward.cli import sandbox_run
from zoneward.sandbox.server.persistence import new_registry
from zoneward.sandbox.server.resource_registry import LocalClient

Object = dict[str, Any]

PODS = 60
STATES = 15


@pytest.mark.parametrize("name", ["all.json", "all.json.gz"])
def test_the_file_is_whole_whenever_it_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """A thread reads while the loop saves; all pods of one state have the same number."""
    monkeypatch.setattr(sandbox_run, "_SAVING", 0.001)
    monkeypatch.setattr(sandbox_run, "_SHARE", 0)
    registry, file = new_registry(), tmp_path / name
    inside, kind = LocalClient(registry), registry.kinds["pods"]
    numbers: set[str] = set()
    problems: list[Exception] = []
    is_over = threading.Event()

    def read() -> None:
        while not is_over.is_set():
            try:
                if file.exists():
                    data = file.read_bytes()
                    things = json.loads(gzip.decompress(data) if name.endswith(".gz") else data)["items"]
                    pods = [thing for thing in things if thing["kind"] == "Pod"]
                    found = {pod["metadata"]["labels"]["number"] for pod in pods}
                    assert len(pods) == PODS
                    assert len(found) == 1
                    numbers.update(found)
            except Exception as error:
                problems.append(error)
                return

    def numbered(number: int) -> None:
        labels = {"number": str(number)}

        def relabelled(thing: Object) -> Object:
            return thing | {"metadata": thing["metadata"] | {"labels": labels}}

        for each in range(PODS):
            if number == 0:
                spec = {"containers": [{"name": "c", "image": "i"}]}
                metadata = {"name": f"p{each}", "labels": labels}
                thing = {"kind": "Pod", "apiVersion": "v1", "metadata": metadata, "spec": spec}
                inside.create(kind, "default", thing)
            else:
                inside.update(kind, "default", f"p{each}", relabelled)

    async def change(end: asyncio.Event) -> None:
        number, limit = 0, time.monotonic() + 20
        while len(numbers) < STATES and not problems and time.monotonic() < limit:
            number += 1
            numbered(number)
            await asyncio.sleep(0.003)
        end.set()

    async def run() -> None:
        end = asyncio.Event()
        async with asyncio.TaskGroup() as group:
            group.create_task(sandbox_run._until(end, registry, file))
            group.create_task(change(end))

    numbered(0)
    reader = threading.Thread(target=read)
    reader.start()
    try:
        asyncio.run(run())
    finally:
        is_over.set()
        reader.join(20)
    assert problems == []
    assert len(numbers) >= STATES
    assert [each.name for each in tmp_path.iterdir()] == [name]
