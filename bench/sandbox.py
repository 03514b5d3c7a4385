"""The sandbox: the time to load a large cluster, its memory, and changes a second.

The server and its clients are processes of their own (``python -m bench.sandbox``). Clients are as cheap as can be:
what is measured is the server.
"""

import asyncio
import json
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

from bench.measuring import MIB, ZONEWARD, Figure
from bench.snapshots import PODS, large_snapshot

_CHANGES: Final = 12_000
_IN_FLIGHT: Final = 16
_WATCHERS: Final = 3
_MOST_LOADING: Final = 30.0
_MOST_KIB: Final = 16.0
_MOST_CHANGE: Final = 1e6 / 1_500
"""Microseconds of the server's one core."""


def sandbox() -> Iterator[Figure]:
    """All figures of the sandbox."""
    snapshot = large_snapshot("json")
    with running() as (_, process):
        empty = _memory(process)
    start = time.perf_counter()
    with running("-f", str(snapshot)) as (address, process):
        yield Figure(f"sandbox with {PODS:,} Pods, ready", time.perf_counter() - start, "s", _MOST_LOADING)
        yield Figure("  resident memory", _memory(process) / MIB, "MiB")
        yield Figure("  a Pod, with its part of all else", (_memory(process) - empty) / 1024 / PODS, "KiB", _MOST_KIB)
        before = _cpu(process)
        told = _client("change", address)
        cpu = (_cpu(process) - before) / _CHANGES * 1e6
        yield Figure(f"a change of a Pod's status with {_WATCHERS} watchers, CPU", cpu, "us", _MOST_CHANGE)
        yield Figure("  changes a second, clients on the other core", told["rate"], "1/s")
        yield Figure("  events that did not reach a watcher", told["lost"], "", 0)
        before = _cpu(process)
        _client("create", address)
        yield Figure("a Pod created, CPU", (_cpu(process) - before) / _CHANGES * 1e6, "us")
        yield Figure("  a Pod afterwards", (_memory(process) - empty) / 1024 / (PODS + _CHANGES), "KiB", _MOST_KIB)


@contextmanager
def running(*options: str) -> Iterator[tuple[str, "subprocess.Popen[bytes]"]]:
    with TemporaryDirectory() as folder:
        file = Path(folder, "kubeconfig.yaml")
        command = (*ZONEWARD, "sandbox", *options, "--write-kubeconfig", str(file))
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
        try:
            while not file.exists():
                if process.poll() is not None:
                    raise subprocess.CalledProcessError(process.returncode, command)
                time.sleep(0.02)
            yield _address(file), process
        finally:
            process.terminate()
            process.wait()


def _address(file: Path) -> str:
    import yaml

    return str(yaml.safe_load(file.read_bytes())["clusters"][0]["cluster"]["server"])


def _memory(process: "subprocess.Popen[bytes]") -> float:
    status = Path(f"/proc/{process.pid}/status").read_text()
    return float(status.partition("VmRSS:")[2].split()[0]) * 1024


def _cpu(process: "subprocess.Popen[bytes]") -> float:
    """Seconds."""
    fields = Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / 100


# --- the clients ------------------------------------------------------------------------------------------------------


def _client(what: str, address: str) -> dict[str, float]:
    command = (sys.executable, "-m", "bench.sandbox", what, address)
    told: dict[str, float] = json.loads(subprocess.run(command, capture_output=True, check=True).stdout)
    return told


async def _change(address: str) -> dict[str, float]:
    import aiohttp

    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as session:
        async with session.get(f"{address}/api/v1/pods", params={"limit": str(_CHANGES)}) as answer:
            listed = await answer.json(content_type=None)
        version, pods = listed["metadata"]["resourceVersion"], listed["items"]
        counts = [0] * _WATCHERS
        watchers = [asyncio.create_task(_watch(session, address, version, counts, i)) for i in range(_WATCHERS)]
        await asyncio.sleep(0.5)
        rest = iter(range(_CHANGES))
        start = time.perf_counter()

        async def worker() -> None:
            for number in rest:
                metadata = pods[number % len(pods)]["metadata"]
                path = f"/api/v1/namespaces/{metadata['namespace']}/pods/{metadata['name']}/status"
                ready = "True" if number // len(pods) % 2 else "False"
                patch = {"status": {"conditions": [{"type": "Ready", "status": ready, "message": f"now {number}"}]}}
                headers = {"Content-Type": "application/strategic-merge-patch+json"}
                async with session.patch(address + path, data=json.dumps(patch), headers=headers) as answer:
                    await answer.read()
                    assert answer.status == 200, await answer.text()

        await asyncio.gather(*(worker() for _ in range(_IN_FLIGHT)))
        rate = _CHANGES / (time.perf_counter() - start)
        await asyncio.sleep(1.0)
        for watcher in watchers:
            watcher.cancel()
        return {"rate": rate, "lost": float(sum(_CHANGES - count for count in counts))}


async def _watch(session: Any, address: str, version: str, counts: list[int], index: int) -> None:
    query = {"watch": "true", "resourceVersion": version, "timeoutSeconds": "600"}
    async with session.get(f"{address}/api/v1/pods", params=query) as answer:
        async for block in answer.content.iter_any():
            counts[index] += block.count(b"\n")


async def _create(address: str) -> dict[str, float]:
    import aiohttp

    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as session:
        async with session.get(f"{address}/api/v1/pods", params={"limit": "1"}) as answer:
            (pod,) = (await answer.json(content_type=None))["items"]
        namespace = pod["metadata"]["namespace"]
        pod["metadata"] = {name: pod["metadata"][name] for name in ("labels", "annotations") if name in pod["metadata"]}
        pod["metadata"]["generateName"] = "made-"
        body, rest = json.dumps(pod), iter(range(_CHANGES))

        async def worker() -> None:
            for _ in rest:
                path = f"{address}/api/v1/namespaces/{namespace}/pods"
                async with session.post(path, data=body, headers={"Content-Type": "application/json"}) as answer:
                    await answer.read()
                    assert answer.status == 201, await answer.text()

        await asyncio.gather(*(worker() for _ in range(_IN_FLIGHT)))
    return {}


if __name__ == "__main__":
    done = asyncio.run({"change": _change, "create": _create}[sys.argv[1]](sys.argv[2]))
    print(json.dumps(done))
