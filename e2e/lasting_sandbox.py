"""A sandbox that clients find again after it was killed: called with TOKEN PORT OBJECTS KUBECONFIG.

It differs from ``zoneward sandbox -f OBJECTS`` in what an API server has from etcd: versions continue where they were,
older ones are gone, and the token is the same. OBJECTS is a List; its ``resourceVersion`` is the last version.
"""

import asyncio
import json
import secrets
import sys
from pathlib import Path
from typing import Final

import yaml

from zoneward.sandbox.server.persistence import new_registry
from zoneward.sandbox.server.sandbox_server import SandboxServer

_GAP: Final = 1_000
"""Versions that are left out: clients may have seen those of writes after the objects were read."""


async def main(token: str, port: int, objects: Path, kubeconfig: Path) -> None:
    listed = json.loads(objects.read_text())
    registry = new_registry()
    registry.store.version = max(registry.store.version, int(listed["metadata"]["resourceVersion"])) + _GAP
    kinds = {(kind.api, kind.kind): kind for kind in registry.kinds.values()}
    for item in listed["items"]:
        registry.restore(kinds[item["apiVersion"], item["kind"]], item)
    registry.store.compact()
    secrets.token_urlsafe = lambda _size=None: token  # type: ignore[assignment]
    async with SandboxServer(registry, port=port) as serving:
        # Running programs read the file again.
        new = kubeconfig.with_name(f"{kubeconfig.name}.new")
        new.write_text(yaml.safe_dump(serving.kubeconfig()))
        new.replace(kubeconfig)
        await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], int(sys.argv[2]), Path(sys.argv[3]), Path(sys.argv[4])))
