"""What a server does with Services, and Services to do it with. The rules are asked as upstream's server was
(v1.36.3, IPv4 alone: ``single``).
"""

# ruff: noqa: E501 -- words of upstream stand whole, to be found

from collections.abc import Iterable
from copy import deepcopy
from datetime import UTC, datetime
from typing import Any, Final

import pytest

from zoneward.kube.validation import FieldError
from zoneward.sandbox.server.allocation import CLUSTER_IPS, AddressRange
from zoneward.sandbox.server.kinds import Object
from zoneward.sandbox.server.rules.service import ServiceRules

Spec = dict[str, Any]

DEALT: Final = "10.96.1.1"
NODE_PORT: Final = 30086
"""What is dealt first."""
PORTS: Final[list[Object]] = [{"port": 80}]
LABEL_RULE: Final = (
    "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with "
    "an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')"
)
SUBDOMAIN_RULE: Final = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and "
    "end with an alphanumeric character (e.g. 'example.com', regex used for validation is "
    r"'[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"
)
NAME_RULE: Final = (
    "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric "
    "character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is "
    "'([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')"
)
NO_ADDRESS: Final = "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)"
NO_NETWORK: Final = "must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)"
NO_PORT: Final = "must be between 1 and 65535, inclusive"
NOT_DUAL: Final = "this cluster is not configured for dual-stack services"


class Around:
    now = datetime(2026, 11, 21, tzinfo=UTC)

    def find(self, plural: str, namespace: str, name: str) -> Object | None:
        raise AssertionError((plural, namespace, name))


class InvalidError(Exception):
    def __init__(self, errors: list[FieldError]) -> None:
        super().__init__([str(each) for each in errors])
        self.told = [str(each) for each in errors]


class Desk:
    """What a server does with Services. It allocates before it judges, as upstream, or after."""

    def __init__(self, *, allocates_first: bool = True, **options: Any) -> None:
        self.rules = ServiceRules(**options)
        self.allocates_first = allocates_first

    def create(
        self, spec: Spec, *, name: str = "web", annotations: dict[str, str] | None = None, uid: str = ""
    ) -> Object:
        metadata: Object = {"name": name, "namespace": "shop", "uid": uid}
        if annotations is not None:
            metadata["annotations"] = annotations
        new: Object = {"apiVersion": "v1", "kind": "Service", "metadata": metadata, "spec": deepcopy(spec)}
        self.rules.default(new)
        try:
            if self.allocates_first:
                check(self.rules.allocate(new, None))
            self.rules.prepare_create(new, Around())
            check(self.rules.validate_create(new))
            if not self.allocates_first:
                check(self.rules.allocate(new, None))
        except InvalidError:
            self.rules.release(None, new)
            raise
        return new

    def update(self, old: Object, changes: Spec) -> Object:
        """``None`` takes a field away."""
        before = deepcopy(old)
        new = deepcopy(old)
        new["spec"] = {name: value for name, value in (new["spec"] | deepcopy(changes)).items() if value is not None}
        try:
            self.rules.default(new, old)
            if self.allocates_first:
                check(self.rules.allocate(new, old))
            self.rules.prepare_update(new, old, Around())
            check(self.rules.validate_update(new, old))
            if not self.allocates_first:
                check(self.rules.allocate(new, old))
        except InvalidError:
            self.rules.release(old, new)
            raise
        finally:
            assert old == before
        self.rules.release(new, old)
        return new

    def set_status(self, old: Object, status: Object) -> Object:
        new = deepcopy(old) | {"status": deepcopy(status)}
        new["spec"]["selector"] = {"status": "only"}
        self.rules.default(new)
        self.rules.prepare_status(new, old, Around())
        check(self.rules.validate_status(new, old))
        return new


def check(errors: Iterable[FieldError]) -> None:
    if found := list(errors):
        raise InvalidError(found)


def single(**options: Any) -> Desk:
    """As the server that was asked, which had one family."""
    desk = Desk(addresses=[AddressRange(CLUSTER_IPS)], **options)
    kubernetes: Object = {
        "metadata": {"name": "kubernetes", "namespace": "default"},
        "spec": {"clusterIP": "10.96.0.1", "ports": [{"port": 443}]},
    }
    desk.rules.default(kubernetes)
    check(desk.rules.restore(kubernetes))
    return desk


def refused(desk: Desk, spec: Spec, **options: Any) -> list[str]:
    with pytest.raises(InvalidError) as found:
        desk.create(spec, **options)
    return found.value.told


def ports(*each: Object) -> Spec:
    return {"ports": list(each)}


def load_balancer(**fields: Any) -> Spec:
    return {"type": "LoadBalancer", "ports": PORTS} | fields


IN_EITHER_ORDER: Final = pytest.mark.parametrize("first", [True, False], ids=["allocates first", "allocates last"])
CLUSTER_IP: Final[Spec] = {"ports": PORTS}
NODE_PORTS: Final[Spec] = {"type": "NodePort", "ports": PORTS}
LOCAL: Final = load_balancer(externalTrafficPolicy="Local")
EXTERNAL_NAME: Final[Spec] = {"type": "ExternalName", "externalName": "a.b"}
HEADLESS: Final[Spec] = {"ports": PORTS, "clusterIP": "None", "selector": {"a": "b"}}
BARE: Final[Spec] = {"clusterIP": "None"}
PORT: Final[Object] = {"port": 80, "protocol": "TCP", "targetPort": 80}
