"""Several processes read what one reads."""

import os
from collections import Counter
from collections.abc import Iterator
from itertools import chain
from signal import SIGKILL

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.kube.documents import DOCUMENTS, Document
from tests.properties.random_clusters import examples

from zoneward.kube import reading_processes
from zoneward.kube.input_error import InputError
from zoneward.kube.object_reader import read_objects
from zoneward.kube.objects import KINDS, PROXY_OBJECT_KINDS, Service
from zoneward.kube.reading_processes import decode_items
from zoneward.kube.workload_objects import WORKLOAD_KINDS, AnyObject

PODS = [{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": f"p-{number}"}} for number in range(9)]


@pytest.fixture
def several_processes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading_processes, "_LEAST", 2)
    monkeypatch.setattr(reading_processes, "available_processes", lambda: 3)


def read(items: list[Document]) -> tuple[list[AnyObject], Counter[str], str]:
    """The objects, what was skipped, and the mistake that ended it."""
    skipped = Counter[str]()
    found: list[AnyObject] = []
    data = msgspec.json.encode({"apiVersion": "v1", "kind": "List", "items": items})
    try:
        found.extend(read_objects("a", data, skipped=skipped))
    except InputError as error:
        return found, skipped, str(error)
    return found, skipped, ""


@given(documents=st.lists(DOCUMENTS, max_size=4))
@examples(30)
def test_they_read_the_same_objects_in_the_same_order(documents: list[list[Document]]) -> None:
    items = list(chain.from_iterable(documents))
    alone = read(items)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(reading_processes, "_LEAST", 2)
        patch.setattr(reading_processes, "available_processes", lambda: 3)
        assert read(items) == alone


@pytest.mark.usefixtures("several_processes")
def test_objects_of_every_type_come_back_as_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    program = {"name": "kube-proxy", "image": "registry.k8s.io/kube-proxy:v1.34.0", "command": ["kube-proxy"]}
    spec = {"containers": [program], "template": {"spec": {"containers": [program]}}}
    data = {"config.conf": "kind: KubeProxyConfiguration"}
    items: list[Document] = [
        {
            "apiVersion": version,
            "kind": kind,
            "metadata": {"name": name, "namespace": namespace},
            "addressType": "IPv4",
            "data": data,
            "spec": spec,
        }
        for name, namespace in (("other", "shop"), ("kube-proxy", "kube-system"))
        for version, kind in (*KINDS, *PROXY_OBJECT_KINDS, *WORKLOAD_KINDS)
    ]
    several = read(items)
    assert {type(each).__name__ for each in several[0]} == set(reading_processes._OBJECTS)
    monkeypatch.undo()
    assert several == read(items)


@pytest.mark.usefixtures("several_processes")
@pytest.mark.parametrize("place", [0, 5, 8])
def test_a_mistake_is_told_where_it_stands_after_what_stands_before(place: int) -> None:
    items = [*PODS[:place], {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": 1}}, *PODS[place:]]
    found, _, message = read(items)
    assert len(found) == place
    assert f"items[{place}]" in message
    assert "metadata.name: expected a string" in message


def test_what_a_process_does_not_send_is_decoded_here() -> None:
    original = os.getpid()

    def decode(numbers: range, _skipped: Counter[str]) -> Iterator[AnyObject]:
        if numbers.start and os.getpid() != original:
            os.kill(os.getpid(), SIGKILL)
        yield from (Service() for _ in numbers)

    assert len(list(decode_items(10, decode, Counter(), processes=4))) == 10


def test_processes_end_when_nobody_wants_more() -> None:
    def decode(numbers: range, _skipped: Counter[str]) -> Iterator[AnyObject]:
        yield from (Service() for _ in numbers)

    found = decode_items(10, decode, Counter(), processes=2)
    next(found)
    found.close()  # type: ignore[attr-defined]
    with pytest.raises(ChildProcessError):
        os.waitpid(-1, os.WNOHANG)


@given(number=st.integers(0, 10_000), processes=st.integers(1, 8))
@examples(50)
def test_each_item_is_decoded_once_and_most_by_the_process_that_sends_nothing(number: int, processes: int) -> None:
    own, *others = reading_processes._parts(number, processes)
    assert [each for part in (own, *others) for each in part] == list(range(number))
    assert all(len(each) <= len(own) + 1 for each in others)
