"""What makes synthetic Nodes and Pods look and weigh like real ones: the fields that Zoneward never reads.

``synthetic_details.yaml`` has them; here they get values, and are merged into objects.
"""

import re
from datetime import UTC, datetime, timedelta
from itertools import zip_longest
from pathlib import Path
from random import Random
from typing import Any, Final

import msgspec
import yaml

Object = dict[str, Any]

NOW: Final = datetime(2026, 10, 20, 9, 14, tzinfo=UTC)
"""When every synthetic cluster was looked at."""
_NODE, _POD = (
    msgspec.json.encode(document).decode()
    for document in yaml.safe_load_all(Path(__file__).with_suffix(".yaml").read_bytes())
)
_PLACEHOLDER: Final = re.compile(r'"<(is_ready)>"|<(\w+)>', re.ASCII)
_ABSENT: Final = object()


def uid(chance: Random) -> str:
    """A random UUID of version 4."""
    digits = f"{chance.getrandbits(128):032x}"
    return f"{digits[:8]}-{digits[8:12]}-4{digits[13:16]}-a{digits[17:20]}-{digits[20:]}"


def written(*, days: int = 0, seconds: int = 0) -> str:
    """A time so long before `NOW`, as Kubernetes writes it."""
    return (NOW - timedelta(days=days, seconds=seconds)).strftime("%Y-%m-%dT%H:%M:%SZ")


def decorate_node(node: Object, chance: Random, *, instance: str, cores: int) -> Object:
    """The Node with what a kubelet and a cloud say about it (about 2 kB)."""
    memory = cores * 4 * 1024 * 1024 - chance.randrange(300_000)
    is_silent = node["status"]["conditions"][0]["status"] == "Unknown"
    values = {
        "changed": written(seconds=860 if is_silent else chance.randrange(10**6, 10**7)),
        "cores": cores,
        "free": memory - 1_602_560,
        "heartbeat": written(seconds=900 if is_silent else chance.randrange(300)),
        "instance": instance,
        "memory": memory,
        "message": "Kubelet stopped posting node status." if is_silent else "kubelet is posting ready status",
        "pressure": "Unknown" if is_silent else "False",
        "reason": "NodeStatusUnknown" if is_silent else "KubeletReady",
        "zone": node["metadata"]["labels"]["topology.kubernetes.io/zone"],
    }
    return _decorated(node, _NODE, chance, values)


def decorate_pod(pod: Object, chance: Random, *, service: str) -> Object:
    """The Pod with all that an API server hands out: about 5.8 kB of compact JSON."""
    age = chance.randrange(7_200, 2_000_000)
    ready = pod["status"]["conditions"][0]["status"]
    values = {
        "begun": written(seconds=age - 6),
        "created": written(seconds=age),
        "host": pod["status"]["hostIP"],
        "image": pod["spec"]["containers"][0]["image"],
        "is_ready": "true" if ready == "True" else "false",
        "ready": ready,
        "ready_since": written(seconds=age - 31),
        "service": service,
        "template": pod["metadata"]["labels"]["pod-template-hash"],
        "token": f"{chance.getrandbits(20):05x}",
        "version": chance.randrange(10**8, 10**9),
    }
    return _decorated(pod, _POD, chance, values)


def _decorated(obj: Object, details: str, chance: Random, values: Object) -> Object:
    def value(match: re.Match[str]) -> str:
        """The value of a name, a random UID, or random hexadecimal digits, whose number the placeholder is."""
        name = match[1] or match[2]
        if name == "uid":
            return uid(chance)
        return f"{chance.getrandbits(4 * int(name)):0{name}x}" if name.isdecimal() else str(values[name])

    result: Object = _merged(msgspec.json.decode(_PLACEHOLDER.sub(value, details)), obj)
    return result


def _merged(details: Any, own: Any) -> Any:
    """``own`` with what only the details have."""
    if isinstance(own, dict) and isinstance(details, dict):
        return details | {name: _merged(details.get(name), value) for name, value in own.items()}
    if isinstance(own, list) and isinstance(details, list):
        pairs = zip_longest(details, own, fillvalue=_ABSENT)
        return [detail if item is _ABSENT else _merged(detail, item) for detail, item in pairs]
    return own
