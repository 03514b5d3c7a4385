"""The sample cluster on an API server in a separate thread."""

import asyncio
import json
import threading
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import AbstractAsyncContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml
from tests.cli.running import sample_objects
from tests.client.a_server import KINDS, AServer
from tests.patience import PATIENCE

from zoneward.client.api_errors import api_error

PLURALS = {kind: plural for plural, (_, kind) in KINDS.items()}


class Server(AServer):
    """It says what a real one says to those who may list and not watch."""

    may_watch = True
    empty_namespaces: frozenset[str] = frozenset()

    async def get(self, path: str, query: Mapping[str, str] = {}, *, timeout: float | None = None) -> bytes:
        parts = path.strip("/").split("/")
        if parts[2] != "namespaces" or len(parts) > 4:
            return await super().get(path, query, timeout=timeout)
        self.asked.append((path, dict(query)))
        known = {namespace for objects in self.objects.values() for namespace, _ in objects if namespace}
        names = sorted(known | self.empty_namespaces)
        status = self.refusals.get("namespaces") or (404 if parts[3:] and parts[3] not in names else 0)
        if status:
            raise api_error(status, json.dumps({"kind": "Status", "code": status}).encode())
        return json.dumps({"items": [{"metadata": {"name": name}} for name in names]}).encode()

    def stream(
        self, path: str, query: Mapping[str, str], *, idle: float
    ) -> AbstractAsyncContextManager[AsyncIterator[bytes]]:
        if self.may_watch:
            return super().stream(path, query, idle=idle)
        plural = path.rpartition("/")[2]
        message = (
            f'{plural} is forbidden: User "me" cannot watch resource "{plural}" in API group "" at the cluster scope'
        )
        raise api_error(403, json.dumps({"kind": "Status", "code": 403, "message": message}).encode())


@dataclass
class Cluster:
    server: Server
    kubeconfig: Path
    loop: asyncio.AbstractEventLoop

    def do(self, change: Callable[[Server], Any]) -> None:
        async def run() -> None:
            change(self.server)

        asyncio.run_coroutine_threadsafe(run(), self.loop).result(PATIENCE)

    def pods(self, app: str) -> list[str]:
        return sorted(name for _, name in self.server.objects["pods"] if name.startswith(f"{app}-"))

    def put(self, plural: str, name: str, namespace: str, change: Callable[[Any], Any]) -> None:
        object_ = json.loads(json.dumps(self.server.objects[plural][namespace, name]))
        change(object_)
        rest = {key: value for key, value in object_.items() if key not in ("apiVersion", "kind")}
        self.do(lambda server: server.put(plural, name, namespace, **rest))

    def make_ready(self, pod: str, ready: bool, namespace: str = "shop") -> None:
        def change(object_: Any) -> None:
            for condition in object_["status"]["conditions"]:
                if condition["type"] == "Ready":
                    condition["status"] = str(ready)

        self.put("pods", pod, namespace, change)


@contextmanager
def a_live_cluster(folder: Path) -> Iterator[Cluster]:
    server, kubeconfig = Server(), folder / "kubeconfig"
    for object_ in sample_objects():
        if object_["kind"] not in PLURALS:
            continue
        metadata = object_["metadata"]
        rest = {key: value for key, value in object_.items() if key not in ("apiVersion", "kind")}
        server.put(PLURALS[object_["kind"]], metadata["name"], metadata.get("namespace", ""), **rest)
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    try:
        asyncio.run_coroutine_threadsafe(server.__aenter__(), loop).result(PATIENCE)
        kubeconfig.write_text(yaml.safe_dump(configuration(server.address)))
        yield Cluster(server, kubeconfig, loop)
        asyncio.run_coroutine_threadsafe(ended(server), loop).result(PATIENCE)
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


async def ended(server: Server) -> None:
    """Stops the server, and cancels watches that no client reads any more."""
    await server.__aexit__(None, None, None)
    rest = asyncio.all_tasks() - {asyncio.current_task()}
    for task in rest:
        task.cancel()
    await asyncio.gather(*rest, return_exceptions=True)


def configuration(address: str) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "here",
        "clusters": [{"name": "here", "cluster": {"server": address}}],
        "users": [{"name": "me", "user": {"token": "secret"}}],
        "contexts": [
            {"name": "here", "context": {"cluster": "here", "user": "me", "namespace": "shop"}},
            {"name": "there", "context": {"cluster": "here", "user": "me", "namespace": "payments"}},
        ],
    }
