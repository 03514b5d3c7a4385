"""A real API server with the cluster of `bench.proxy_cluster`, for proxies beside each other."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

from e2e.control_plane import ControlPlane

from bench.api_server import ApiServer
from bench.proxy_cluster import Object


@asynccontextmanager
async def plane() -> AsyncIterator[tuple[ControlPlane, ApiServer]]:
    with ControlPlane() as control:
        async with ApiServer(control.address, token=control.admin.token, authority=control.authority) as server:
            yield control, server


async def create(server: ApiServer, objects: Sequence[Object]) -> None:
    """Objects in any order, but namespaces first."""

    async def make(thing: Object) -> None:
        group, _, version = thing["apiVersion"].rpartition("/")
        root = f"/apis/{group}/{version}" if group else f"/api/{version}"
        namespace = thing["metadata"].get("namespace")
        where = f"{root}/namespaces/{namespace}" if namespace else root
        await server.ask("POST", f"{where}/{thing['kind'].lower()}s", thing)
        if thing["kind"] == "Node":
            await server.patch_status(f"{where}/nodes/{thing['metadata']['name']}", thing["status"])

    first = [each for each in objects if each["kind"] == "Namespace"]
    for each in first:
        await make(each)
    await server.all(lambda each=each: make(each) for each in objects if each["kind"] != "Namespace")  # type: ignore[misc]
