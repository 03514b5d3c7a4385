"""What has to be known of a list costs one way through its text, however it is written."""

import json
from io import BytesIO
from typing import Any

import msgspec
import pytest

from zoneward.kube import struct_decoder
from zoneward.kube.struct_decoder import object_head
from zoneward.snapshots.snapshot_writer import write_json

ITEMS = [
    {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": f"p-{number}", "labels": {"a": "b" * 900}}}
    for number in range(20)
]


def _as_zoneward_writes_it() -> bytes:
    stream = BytesIO()
    write_json(iter(ITEMS), stream)
    return stream.getvalue()


def _as_kubectl_writes_it() -> bytes:
    document = {"apiVersion": "v1", "items": ITEMS, "kind": "List", "metadata": {"resourceVersion": ""}}
    return json.dumps(document, indent=4).encode()


def _as_an_api_server_writes_it() -> bytes:
    return msgspec.json.encode({"kind": "PodList", "apiVersion": "v1", "metadata": {}, "items": ITEMS})


class _Counted:
    """A decoder that knows how long the longest text is that it was given."""

    def __init__(self, decoder: msgspec.json.Decoder[Any]) -> None:
        self._decoder = decoder
        self.longest = 0

    def decode(self, text: msgspec.Raw) -> Any:
        self.longest = max(self.longest, memoryview(text).nbytes)
        return self._decoder.decode(text)


@pytest.mark.parametrize("write", [_as_zoneward_writes_it, _as_kubectl_writes_it, _as_an_api_server_writes_it])
def test_only_what_stands_around_the_items_is_read_again(write: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    top = _Counted(struct_decoder._TOP)
    monkeypatch.setattr(struct_decoder, "_TOP", top)
    assert len(object_head(msgspec.Raw(write())).items) == len(ITEMS)
    assert 0 < top.longest < 200
