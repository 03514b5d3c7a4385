"""Those who change objects while things go wrong: controllers behind HTTP, and others in the process of the server.

A controller numbers what it does in an annotation of its own, so that its answer may be lost: it looks whether the
number is there. Nothing of what it does is done twice.
"""

import asyncio
from random import Random
from typing import Any, Final

import msgspec
from tests.sandbox.server.a_faulty_sandbox import NAMESPACES, Scene
from tests.sandbox.server.server_past import WRITER

from zoneward.client.api_errors import CallFailed, Conflict, NotFound, ServerFault, TooManyRequests, Unreachable
from zoneward.client.resources import NODES, PODS, SERVICES, SLICES, AnyWatchedResource
from zoneward.kube.names import SERVICE_NAME_LABEL, ZONE_LABEL
from zoneward.kube.objects import ObjectKey
from zoneward.sandbox.server.kinds import Kind
from zoneward.sandbox.server.refusals import Refusal

Object = dict[str, Any]

NAMES: Final = tuple("abcdefgh")
_MERGE_PATCH: Final = "application/merge-patch+json"
_MIX: Final[tuple[AnyWatchedResource, ...]] = (PODS, PODS, PODS, SERVICES, SLICES, NODES)
_ATTEMPTS: Final = 200
_UNCLEAR: Final = (ServerFault, Unreachable)
"""After which nobody knows whether it was done."""


def an_object(resource: AnyWatchedResource, key: ObjectKey, chance: Random, owner: Object | None = None) -> Object:
    """A small one; ``owner`` is who takes it along when it goes."""
    metadata: Object = {"name": key[1]}
    if key[0]:
        metadata["namespace"] = key[0]
    thing: Object = {"apiVersion": resource.api, "kind": resource.kind, "metadata": metadata}
    if resource is PODS:
        metadata["labels"] = {"app": chance.choice(NAMES)}
        thing["spec"] = {"containers": [{"name": "c", "image": "i"}]}
        if chance.random() < 0.5:
            thing["spec"]["nodeName"] = chance.choice(NAMES)
    elif resource is SERVICES:
        thing["spec"] = {"selector": {"app": chance.choice(NAMES)}, "ports": [{"port": 80}]}
    elif resource is SLICES:
        metadata["labels"] = {SERVICE_NAME_LABEL: chance.choice(NAMES)}
        thing |= {"addressType": "IPv4", "ports": [{"port": 80}], "endpoints": [{"addresses": ["10.0.0.1"]}]}
        if owner is not None:
            of = owner["metadata"]
            reference = {"apiVersion": "v1", "kind": "Service", "name": of["name"], "uid": of["uid"]}
            metadata["ownerReferences"] = [reference]
    else:
        metadata["labels"] = {ZONE_LABEL: chance.choice("xyz")}
    return thing


def a_key(resource: AnyWatchedResource, chance: Random) -> ObjectKey:
    return (chance.choice(NAMESPACES) if resource.namespaced else "", chance.choice(NAMES))


class _Writer:
    def __init__(self, scene: Scene, name: str, seed: int) -> None:
        self._scene, self._chance = scene, Random(f"{seed} {name}")
        self._annotation = WRITER + name
        self._number = 0

    def _kind(self, resource: AnyWatchedResource) -> Kind:
        return self._scene.registry.kinds[f"{resource.plural}.{resource.group}" if resource.group else resource.plural]

    def _owner(self, namespace: str) -> Object | None:
        if self._chance.random() < 0.5:
            return None
        return self._scene.registry.find("services", namespace, self._chance.choice(NAMES))

    def _numbered(self, thing: Object) -> Object:
        annotations = {**(thing["metadata"].get("annotations") or {}), self._annotation: str(self._number)}
        return thing | {"metadata": thing["metadata"] | {"annotations": annotations}}

    def _is_there(self, resource: AnyWatchedResource, key: ObjectKey) -> bool:
        return self._scene.registry.store.get(self._kind(resource), key) is not None


class Insider(_Writer):
    """Writes without HTTP, and meets no fault."""

    async def work(self, changes: int) -> None:
        """Singly and in bursts."""
        for _ in range(changes):
            self.change()
            if self._chance.random() < 0.4:
                await asyncio.sleep(self._chance.random() * 0.008)

    def change(self) -> None:
        """One thing happens; what nobody can do (an object that ends, a namesake) does not."""
        chance, inside = self._chance, self._scene.inside
        resource = chance.choice(_MIX)
        kind, key = self._kind(resource), a_key(resource, chance)
        self._number += 1
        try:
            if not self._is_there(resource, key):
                thing = an_object(resource, key, chance, self._owner(key[0]) if resource is SLICES else None)
                inside.create(kind, key[0], self._numbered(thing), manager="insider")
            elif chance.random() < 0.35:
                inside.delete(kind, *key, grace=chance.choice([0, 0, None]))
                if chance.random() < 0.5 and not self._is_there(resource, key):
                    inside.create(kind, key[0], self._numbered(an_object(resource, key, chance)), manager="insider")
            else:
                inside.update(kind, *key, self._numbered, manager="insider")
        except Refusal as refusal:
            if refusal.code not in (404, 409):
                raise


class Controller(_Writer):
    """Writes over HTTP, and does not rest before it knows that what it wants is so."""

    async def work(self, changes: int) -> None:
        for _ in range(changes):
            self._number += 1
            await self._change()

    async def _change(self) -> None:
        chance = self._chance
        resource = chance.choice(_MIX)
        key = a_key(resource, chance)
        dice = chance.random()
        if dice < 0.05:
            await self._generate(chance.choice(NAMESPACES))
        elif not self._is_there(resource, key):
            thing = an_object(resource, key, chance, self._owner(key[0]) if resource is SLICES else None)
            await self._create(resource, key, self._numbered(thing))
        elif dice < 0.3:
            await self._delete(resource, key)
        elif dice < 0.65:
            await self._patch(resource, key)
        else:
            await self._replace(resource, key)

    async def _create(self, resource: AnyWatchedResource, key: ObjectKey, thing: Object) -> None:
        """Until there is one of the name, be it somebody else's."""
        path, body = resource.path(namespace=key[0]), msgspec.json.encode(thing)
        for _ in range(_ATTEMPTS):
            try:
                await self._scene.transport.send("POST", path, body)
            except Conflict as error:
                if error.reason != "AlreadyExists":
                    raise
            except TooManyRequests:
                continue
            except _UNCLEAR:
                if await self._read(resource, key) is None:
                    continue
            return
        raise AssertionError(f"not created: {key}")

    async def _generate(self, namespace: str) -> None:
        """A pod whose name the server makes: only its label tells whether it is there."""
        label = f"{self._annotation}-{self._number}"
        thing = self._numbered(an_object(PODS, (namespace, ""), self._chance))
        thing["metadata"] |= {"generateName": "generated-", "labels": {"by": label}}
        del thing["metadata"]["name"]
        path, body = PODS.path(namespace=namespace), msgspec.json.encode(thing)
        for _ in range(_ATTEMPTS):
            try:
                await self._scene.transport.send("POST", path, body)
            except TooManyRequests:
                continue
            except _UNCLEAR:
                if not await self._labelled(path, label):
                    continue
            break
        found = await self._labelled(path, label)
        assert len(found) == 1, f"{label}: {[each['metadata']['name'] for each in found]}"
        if self._chance.random() < 0.5:
            await self._delete(PODS, (namespace, found[0]["metadata"]["name"]))

    async def _replace(self, resource: AnyWatchedResource, key: ObjectKey) -> None:
        """Change what is known, write; read and do it again where somebody was faster."""
        path = resource.path(namespace=key[0], name=key[1])
        thing = self._scene.registry.find(self._kind(resource).resource, *key)
        for _ in range(_ATTEMPTS):
            if thing is None or self._is_done(thing):
                return
            try:
                await self._scene.transport.send("PUT", path, msgspec.json.encode(self._numbered(thing)))
            except (Conflict, TooManyRequests, *_UNCLEAR):
                thing = await self._read(resource, key)
                continue
            except NotFound:
                pass
            return
        raise AssertionError(f"not replaced: {key}")

    async def _patch(self, resource: AnyWatchedResource, key: ObjectKey) -> None:
        """Twice is as good as once; somebody else's change is no hindrance."""
        path = resource.path(namespace=key[0], name=key[1])
        body = msgspec.json.encode({"metadata": {"annotations": {self._annotation: str(self._number)}}})
        for _ in range(_ATTEMPTS):
            try:
                await self._scene.transport.send("PATCH", path, body, content_type=_MERGE_PATCH, idempotent=True)
            except (Conflict, TooManyRequests, *_UNCLEAR):
                continue
            except NotFound:
                pass
            return
        raise AssertionError(f"not patched: {key}")

    async def _delete(self, resource: AnyWatchedResource, key: ObjectKey) -> None:
        """The one that the cache knows, never one that has its name by now."""
        known = self._scene.cache.store(resource).get(*key)  # type: ignore[misc]
        if known is not None and resource is not NODES:
            uid = known.metadata.uid
        elif (thing := await self._read(resource, key)) is not None:
            uid = thing["metadata"]["uid"]
        else:
            return
        options: Object = {"kind": "DeleteOptions", "apiVersion": "v1", "preconditions": {"uid": uid}}
        if self._chance.random() < 0.7:
            options["gracePeriodSeconds"] = 0
        path = resource.path(namespace=key[0], name=key[1])
        for _ in range(_ATTEMPTS):
            try:
                await self._scene.transport.send("DELETE", path, msgspec.json.encode(options), idempotent=True)
            except (TooManyRequests, *_UNCLEAR):
                continue
            except (NotFound, Conflict):
                pass
            return
        raise AssertionError(f"not deleted: {key}")

    # --- reading ------------------------------------------------------------------------------------------------------

    def _is_done(self, thing: Object) -> bool:
        annotations = thing["metadata"].get("annotations") or {}
        return bool(annotations.get(self._annotation) == str(self._number))

    async def _read(self, resource: AnyWatchedResource, key: ObjectKey) -> Object | None:
        try:
            data = await self._get(resource.path(namespace=key[0], name=key[1]))
        except NotFound:
            return None
        thing: Object = msgspec.json.decode(data)
        return thing

    async def _labelled(self, path: str, label: str) -> list[Object]:
        data = await self._get(path, {"labelSelector": f"by={label}"})
        found: list[Object] = msgspec.json.decode(data)["items"]
        return found

    async def _get(self, path: str, query: dict[str, str] | None = None) -> bytes:
        for _ in range(_ATTEMPTS):
            try:
                return await self._scene.transport.get(path, query or {})
            except NotFound:
                raise
            except CallFailed:
                continue
        raise AssertionError(f"no answer: {path}")
