"""Lists: what is in them, in which order, page by page, and as of when."""

import os

import pytest
from tests.builders.objects import a_bare_node, a_bare_pod, a_core_event, a_lease, a_namespace, a_service
from tests.contract.api import Api, Object, collection_of
from tests.contract.kinds import KINDS, new
from tests.contract.test_validation import NAME, VALUE

ALL_LEASES = "/apis/coordination.k8s.io/v1/leases"


def names(listed: Object) -> list[str]:
    return [item["metadata"]["name"] for item in listed["items"]]


def pages(api: Api, path: str, **query: str) -> list[Object]:
    page = [api.get(path, **query)]
    while "continue" in page[-1]["metadata"]:
        page.append(api.get(path, **query, **{"continue": page[-1]["metadata"]["continue"]}))
    return page


def create_leases(api: Api, namespace: str, count: int) -> list[Object]:
    labels = ({"odd": str(index % 2)} for index in range(count))
    return [api.create(a_lease(f"lease-{index}", namespace=namespace, labels=next(labels))) for index in range(count)]


@pytest.mark.parametrize("kind", KINDS)
def test_each_kind_is_listed_without_the_kind_of_its_items(api: Api, namespace: str, kind: str) -> None:
    obj = api.create(new(kind, namespace))
    listed = api.get(collection_of(obj))
    assert (listed["kind"], listed["apiVersion"]) == (f"{kind.split('.')[0]}List", obj["apiVersion"])
    name = obj["metadata"]["name"]
    [item] = [candidate for candidate in listed["items"] if candidate["metadata"]["name"] == name]
    assert item | {"kind": obj["kind"], "apiVersion": obj["apiVersion"]} == obj
    assert not {"kind", "apiVersion"} & item.keys()


@pytest.mark.parametrize("limit", ["1", "0"])
def test_a_list_over_all_namespaces_is_ordered_by_namespace(api: Api, namespace: str, limit: str) -> None:
    for suffix in ("-b", "-a"):
        api.create(a_namespace(namespace + suffix))
    for lease_namespace in (f"{namespace}-b", f"{namespace}-a", namespace):
        for name in ("y", "x"):
            api.create(a_lease(name, namespace=lease_namespace, labels={"run": namespace}))
    names_ = [
        (item["metadata"]["namespace"].removeprefix(namespace), item["metadata"]["name"])
        for page in pages(api, ALL_LEASES, limit=limit, labelSelector=f"run={namespace}")
        for item in page["items"]
    ]
    # As paths are ordered: the dash comes before the slash that ends a namespace's name.
    assert names_ == [(suffix, name) for suffix in ("-a", "-b", "") for name in ("x", "y")]


@pytest.fixture(scope="module")
def four(server: Api) -> str:
    """A namespace with four leases for the selectors, which change nothing."""
    name = f"contract-{os.getpid()}-selectors"
    server.create(a_namespace(name))
    labels: dict[str, Object] = {
        "a": {"tier": "front", "size": "3"},
        "b": {"tier": "front", "size": "9"},
        "c": {"tier": "back", "size": "many"},
        "d": {"example.com/x": "1"},
    }
    for lease_name, lease_labels in labels.items():
        server.create(a_lease(lease_name, namespace=name, labels=lease_labels))
    return name


@pytest.mark.parametrize(
    ("selector", "expected"),
    [
        ("tier=front", "a b"),
        ("tier==front", "a b"),
        ("tier!=front", "c d"),
        ("tier", "a b c"),
        ("!tier", "d"),
        ("tier in (front,back)", "a b c"),
        ("tier notin (front, back)", "d"),
        ("size>5", "b"),
        ("size<5", "a"),
        ("tier=front,size=9", "b"),
        ("tier=", ""),
        ("tier in (front,)", "a b"),
        ("example.com/x=1", "d"),
        ("", "a b c d"),
        (" tier = front ", "a b"),
    ],
)
def test_labels_select(api: Api, four: str, selector: str, expected: str) -> None:
    assert names(api.get(collection_of(a_lease("", namespace=four)), labelSelector=selector)) == expected.split()


@pytest.mark.parametrize(
    ("selector", "expected"),
    [
        ("metadata.name=b", "b"),
        ("metadata.name==b", "b"),
        ("metadata.name!=b", "a c d"),
        ("metadata.namespace={}", "a b c d"),
        ("metadata.namespace!={}", ""),
        ("metadata.name=b,metadata.name!=b", ""),
        ("", "a b c d"),
    ],
)
def test_names_select(api: Api, four: str, selector: str, expected: str) -> None:
    listed = api.get(collection_of(a_lease("", namespace=four)), fieldSelector=selector.format(four))
    assert names(listed) == expected.split()


def test_each_kind_has_fields_that_select(api: Api, namespace: str) -> None:
    on_node = a_bare_pod("on", namespace=namespace)
    on_node["spec"]["nodeName"] = "contract-somewhere"
    api.create(on_node | {"status": {"phase": "Running", "podIP": "10.9.9.9", "podIPs": [{"ip": "10.9.9.9"}]}})
    api.create(a_bare_pod("off", namespace=namespace))
    address = api.create(a_service("cart", namespace=namespace))["spec"]["clusterIP"]
    api.create(a_service("headless", namespace=namespace, clusterIP="None"))
    open_, shut = (a_bare_node(f"{namespace}-{name}", labels={"run": namespace}) for name in ("open", "shut"))
    api.create(open_)
    api.create(shut | {"spec": {"unschedulable": True}})
    for about in ("cart", "shop"):
        api.create(a_core_event(about, namespace=namespace, about=about))
    core, newer = f"/api/v1/namespaces/{namespace}", f"/apis/events.k8s.io/v1/namespaces/{namespace}"
    for path, selector, expected in (
        (f"{core}/pods", "spec.nodeName=contract-somewhere", "on"),
        (f"{core}/pods", "spec.nodeName=", "off"),
        (f"{core}/pods", "status.phase!=Running", "off"),
        (f"{core}/pods", "status.podIP=10.9.9.9", "on"),
        (f"{core}/services", f"spec.clusterIP={address}", "cart"),
        (f"{core}/services", "spec.type=ClusterIP", "cart headless"),
        (f"{core}/events", "involvedObject.name=cart", "cart"),
        (f"{core}/events", "involvedObject.kind=Service,involvedObject.name!=cart", "shop"),
        (f"{core}/events", f"involvedObject.namespace={namespace},involvedObject.uid=", "cart shop"),
        (f"{core}/events", "source=tests,reason=Tested,type=Normal", "cart shop"),
        (f"{newer}/events", "regarding.name=cart,reportingController=", "cart"),
        ("/api/v1/nodes", "spec.unschedulable=true", f"{namespace}-shut"),
        ("/api/v1/namespaces", f"status.phase=Active,metadata.name={namespace}", namespace),
    ):
        labels = f"run={namespace}" if path == "/api/v1/nodes" else ""
        assert names(api.get(path, fieldSelector=selector, labelSelector=labels)) == expected.split(), selector


NOT_KNOWN = 'is not a known field selector: only "metadata.name", "metadata.namespace"'
NUMBER = "for 'Gt', 'Lt' operators, the value must be an integer"
NOT_PARSED = "unable to parse requirement: "


@pytest.mark.parametrize(
    ("path", "query", "message"),
    [
        *(
            (ALL_LEASES, {"labelSelector": selector}, message)
            for selector, message in (
                ("tier in", f"{NOT_PARSED}found '' expected: '('"),
                ("tier=front=back", "found '=', expected: ',' or 'end of string'"),
                ("=front", "found '=', expected: !, identifier, or 'end of string'"),
                ("tier in (a", f"{NOT_PARSED}found '', expected: ',' or ')'"),
                ("tier=-", f'{NOT_PARSED}values[0][tier]: Invalid value: "-": {VALUE}'),
                ("-tier", f'{NOT_PARSED}<nil>: Invalid value: "-tier": {NAME}'),
                (
                    "tier>many",
                    f'{NOT_PARSED}values[0]: Invalid value: "many": {NUMBER}',
                ),
                ("a b", f"{NOT_PARSED}found 'b', expected: in, notin, =, ==, !=, gt, lt"),
            )
        ),
        (
            ALL_LEASES,
            {"watch": "true", "labelSelector": "=front"},
            "found '=', expected: !, identifier, or 'end of string'",
        ),
        (ALL_LEASES, {"fieldSelector": "spec.holderIdentity=me"}, f'"spec.holderIdentity" {NOT_KNOWN}'),
        ("/api/v1/services", {"fieldSelector": "spec.ports=80"}, "field label not supported: spec.ports"),
        ("/apis/events.k8s.io/v1/events", {"fieldSelector": "note=1"}, "field label not supported: note"),
        (
            "/api/v1/pods",
            {"fieldSelector": "spec.nodeName"},
            "invalid selector: 'spec.nodeName'; can't understand 'spec.nodeName'",
        ),
    ],
)
def test_invalid_list_or_watch_is_refused(api: Api, path: str, query: dict[str, str], message: str) -> None:
    assert api.send("GET", path, query=query).refusal == (400, "BadRequest", message)


def test_a_long_list_comes_in_pages_of_one_version(api: Api, namespace: str, leases: str) -> None:
    create_leases(api, namespace, 5)
    lists = pages(api, leases, limit="2")
    assert [names(page) for page in lists] == [["lease-0", "lease-1"], ["lease-2", "lease-3"], ["lease-4"]]
    assert len({page["metadata"]["resourceVersion"] for page in lists}) == 1
    lists = pages(api, leases, limit="1", labelSelector="odd=0")
    assert [names(page) for page in lists] == [["lease-0"], ["lease-2"], ["lease-4"]]


def test_pages_show_the_state_of_the_first(api: Api, namespace: str, leases: str) -> None:
    created = create_leases(api, namespace, 4)
    first = api.get(leases, limit="2")
    api.delete(created[2])
    api.patch(created[3], {"spec": {"holderIdentity": "you"}})
    api.create(a_lease("lease-9", namespace=namespace))
    rest = api.get(leases, **{"continue": first["metadata"]["continue"]})
    assert names(rest) == ["lease-2", "lease-3"]
    assert rest["items"][1]["spec"]["holderIdentity"] == "me"
    assert rest["metadata"]["resourceVersion"] == first["metadata"]["resourceVersion"]
    assert names(api.get(leases)) == ["lease-0", "lease-1", "lease-3", "lease-9"]


@pytest.mark.parametrize("token", ["nonsense!", "bm9uc2Vuc2U", "eyJ2IjogIm5vbmUifQ"])
def test_a_token_of_no_server_is_refused(api: Api, leases: str, token: str) -> None:
    answer = api.send("GET", leases, query={"limit": "1", "continue": token})
    assert answer.refusal[:2] == (400, "BadRequest")
    assert answer.refusal[2].startswith("invalid continue token: continue key is not valid: ")


def test_list_is_at_least_as_new_as_requested(api: Api, namespace: str, leases: str) -> None:
    version = api.create(a_lease("a", namespace=namespace))["metadata"]["resourceVersion"]
    for query in ({}, {"resourceVersionMatch": "NotOlderThan"}):
        assert names(api.get(leases, resourceVersion=version, **query)) == ["a"]


def test_list_waits_for_a_future_version_then_refuses_it(api: Api, leases: str) -> None:
    answer = api.send("GET", leases, query={"resourceVersion": "999999999999", "timeoutSeconds": "1"})
    assert answer.refusal[:2] == (504, "Timeout")
    assert answer.refusal[2].startswith("Timeout: Too large resource version: 999999999999, current: ")
