"""Lists: what is in them, in which order, page by page, and as of when."""

import os

import pytest
from tests.builders.objects import a_bare_node, a_bare_pod, a_core_event, a_lease, a_namespace, a_service
from tests.contract.api import Api, Object, collection_of
from tests.contract.conftest import Server

LABEL_VALUE = (
    "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and "
    "end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is "
    "'(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')"
)
LABEL_NAME = (
    "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric "
    "character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is "
    "'([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')"
)
NUMBER = "for 'Gt', 'Lt' operators, the value must be an integer"
UNKNOWN = 'is not a known field selector: only "metadata.name", "metadata.namespace"'


def leases(namespace: str) -> str:
    return collection_of(a_lease("", namespace=namespace))


def names(listed: Object) -> list[str]:
    return [each["metadata"]["name"] for each in listed["items"]]


def create_leases(api: Api, namespace: str, count: int) -> list[Object]:
    return [api.create(a_lease(f"lease-{index}", namespace=namespace)) for index in range(count)]


@pytest.mark.parametrize(("plural", "kind"), [("nodes", "NodeList"), ("namespaces", "NamespaceList")])
def test_what_is_in_no_namespace_is_listed_too(api: Api, namespace: str, plural: str, kind: str) -> None:
    thing = a_bare_node(f"{namespace}-node") if plural == "nodes" else a_namespace(f"{namespace}-more")
    api.create(thing)
    listed = api.get(f"/api/v1/{plural}")
    assert listed["kind"] == kind
    assert thing["metadata"]["name"] in names(listed)


def test_items_have_no_kind_of_their_own(api: Api, namespace: str) -> None:
    lease = api.create(a_lease("lease", namespace=namespace))
    [item] = api.get(leases(namespace))["items"]
    assert item | {"kind": "Lease", "apiVersion": "coordination.k8s.io/v1"} == lease
    assert not {"kind", "apiVersion"} & item.keys()


def test_a_list_over_all_namespaces_is_ordered_by_namespace(api: Api, namespace: str) -> None:
    mine = {"run": namespace}
    for suffix in ("-b", "-a"):
        api.create(a_namespace(namespace + suffix))
    for each in (f"{namespace}-b", f"{namespace}-a", namespace):
        for name in ("y", "x"):
            api.create(a_lease(name, namespace=each, labels=mine))
    listed = api.get("/apis/coordination.k8s.io/v1/leases", labelSelector=f"run={namespace}")["items"]
    # As paths are ordered: the dash comes before the slash that ends a namespace's name.
    assert [(each["metadata"]["namespace"].removeprefix(namespace), each["metadata"]["name"]) for each in listed] == [
        ("-a", "x"),
        ("-a", "y"),
        ("-b", "x"),
        ("-b", "y"),
        ("", "x"),
        ("", "y"),
    ]


# --- selectors --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("selector", "found"),
    [
        ("tier=front", "a b"),
        ("tier==front", "a b"),
        ("tier!=front", "c d"),
        ("tier", "a b c"),
        ("!tier", "d"),
        ("tier in (front,back)", "a b c"),
        ("tier in (back)", "c"),
        ("tier notin (front)", "c d"),
        ("tier notin (front, back)", "d"),
        ("size>5", "b"),
        ("size<5", "a"),
        ("tier=front,size=9", "b"),
        ("tier,size", "a b c"),
        ("tier=", ""),
        ("tier in (front,)", "a b"),
        ("example.com/x=1", "d"),
        ("", "a b c d"),
        (" tier = front ", "a b"),
    ],
)
def test_labels_select(api: Api, four: str, selector: str, found: str) -> None:
    assert names(api.get(leases(four), labelSelector=selector)) == found.split()


@pytest.fixture(scope="module")
def four(server: Server) -> str:
    """A namespace with four leases for the selectors, which change nothing."""
    api = server.api
    name = f"contract-{os.getpid()}-selectors"
    api.create(a_namespace(name))
    labels: dict[str, Object] = {
        "a": {"tier": "front", "size": "3"},
        "b": {"tier": "front", "size": "9"},
        "c": {"tier": "back", "size": "many"},
        "d": {"example.com/x": "1"},
    }
    for each, given in labels.items():
        api.create(a_lease(each, namespace=name, labels=given))
    return name


@pytest.mark.parametrize(
    ("selector", "message"),
    [
        ("tier in", "unable to parse requirement: found '' expected: '('"),
        ("tier=front=back", "found '=', expected: ',' or 'end of string'"),
        ("=front", "found '=', expected: !, identifier, or 'end of string'"),
        ("tier in (a", "unable to parse requirement: found '', expected: ',' or ')'"),
        ("tier=-", f'unable to parse requirement: values[0][tier]: Invalid value: "-": {LABEL_VALUE}'),
        ("-tier", f'unable to parse requirement: <nil>: Invalid value: "-tier": {LABEL_NAME}'),
        ("tier>many", f'unable to parse requirement: values[0]: Invalid value: "many": {NUMBER}'),
        ("a b", "unable to parse requirement: found 'b', expected: in, notin, =, ==, !=, gt, lt"),
    ],
)
def test_a_label_selector_that_is_none_is_refused(api: Api, selector: str, message: str) -> None:
    answer = api.send("GET", leases("default"), query={"labelSelector": selector})
    assert answer.refusal == (400, "BadRequest", message)


@pytest.mark.parametrize(
    ("selector", "found"),
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
def test_names_select(api: Api, four: str, selector: str, found: str) -> None:
    assert names(api.get(leases(four), fieldSelector=selector.format(four))) == found.split()


@pytest.mark.parametrize(
    ("collection", "selector", "message"),
    [
        (
            "/apis/coordination.k8s.io/v1/leases",
            "spec.holderIdentity=me",
            f'"spec.holderIdentity" {UNKNOWN}',
        ),
        ("/api/v1/services", "spec.ports=80", "field label not supported: spec.ports"),
        ("/api/v1/pods", "spec.nothing=1", "field label not supported: spec.nothing"),
        ("/api/v1/nodes", "status.phase=1", "field label not supported: status.phase"),
        ("/apis/discovery.k8s.io/v1/endpointslices", "addressType=IPv4", f'"addressType" {UNKNOWN}'),
        ("/api/v1/namespaces", "spec.x=1", "field label not supported: spec.x"),
        ("/api/v1/events", "message=1", "field label not supported: message"),
        ("/apis/events.k8s.io/v1/events", "note=1", "field label not supported: note"),
        ("/api/v1/pods", "spec.nodeName", "invalid selector: 'spec.nodeName'; can't understand 'spec.nodeName'"),
        (
            "/api/v1/pods",
            "spec.nodeName in (a)",
            "invalid selector: 'spec.nodeName in (a)'; can't understand 'spec.nodeName in (a)'",
        ),
    ],
)
def test_a_field_that_selects_nothing_is_refused(api: Api, collection: str, selector: str, message: str) -> None:
    answer = api.send("GET", collection, query={"fieldSelector": selector})
    assert answer.refusal == (400, "BadRequest", message)


def test_pods_are_selected_by_node_and_phase(api: Api, namespace: str) -> None:
    on_node = a_bare_pod("on", namespace=namespace)
    on_node["spec"]["nodeName"] = "contract-somewhere"
    api.create(on_node | {"status": {"phase": "Running", "podIP": "10.9.9.9", "podIPs": [{"ip": "10.9.9.9"}]}})
    api.create(a_bare_pod("off", namespace=namespace))
    pods = f"/api/v1/namespaces/{namespace}/pods"
    for selector, found in {
        "spec.nodeName=contract-somewhere": ["on"],
        "spec.nodeName=": ["off"],
        "spec.nodeName!=": ["on"],
        "status.phase=Running": ["on"],
        "status.phase!=Running": ["off"],
        "status.podIP=10.9.9.9": ["on"],
    }.items():
        assert names(api.get(pods, fieldSelector=selector)) == found, selector


def test_services_are_selected_by_address_and_type(api: Api, namespace: str) -> None:
    address = api.create(a_service("cart", namespace=namespace))["spec"]["clusterIP"]
    headless = a_service("headless", namespace=namespace)
    headless["spec"]["clusterIP"] = "None"
    api.create(headless)
    services = f"/api/v1/namespaces/{namespace}/services"
    for selector, found in {
        f"spec.clusterIP={address}": ["cart"],
        "spec.clusterIP=None": ["headless"],
        "spec.type=ClusterIP": ["cart", "headless"],
        "spec.type!=ClusterIP": [],
    }.items():
        assert names(api.get(services, fieldSelector=selector)) == found, selector


def test_nodes_are_selected_by_being_closed(api: Api, namespace: str) -> None:
    open_, closed = (a_bare_node(f"{namespace}-{name}", labels={"run": namespace}) for name in ("open", "shut"))
    api.create(open_)
    api.create(closed | {"spec": {"unschedulable": True}})
    for selector, found in {"spec.unschedulable=true": "shut", "spec.unschedulable=false": "open"}.items():
        listed = api.get("/api/v1/nodes", fieldSelector=selector, labelSelector=f"run={namespace}")
        assert names(listed) == [f"{namespace}-{found}"]


def test_namespaces_are_selected_by_phase(api: Api, namespace: str) -> None:
    assert namespace in names(api.get("/api/v1/namespaces", fieldSelector="status.phase=Active"))
    assert names(api.get("/api/v1/namespaces", fieldSelector=f"metadata.name={namespace}")) == [namespace]


def test_events_are_selected_by_what_they_are_about(api: Api, namespace: str) -> None:
    for about in ("cart", "shop"):
        api.create(a_core_event(about, namespace=namespace, about=about))
    for selector, found in {
        "involvedObject.name=cart": ["cart"],
        "involvedObject.kind=Service,involvedObject.name!=cart": ["shop"],
        f"involvedObject.namespace={namespace}": ["cart", "shop"],
        "involvedObject.uid=": ["cart", "shop"],
        "involvedObject.apiVersion=v1": ["cart", "shop"],
        "involvedObject.resourceVersion=": ["cart", "shop"],
        "involvedObject.fieldPath=": ["cart", "shop"],
        "reason=Tested": ["cart", "shop"],
        "reportingComponent=": ["cart", "shop"],
        "source=tests": ["cart", "shop"],
        "type=Warning": [],
    }.items():
        assert names(api.get(f"/api/v1/namespaces/{namespace}/events", fieldSelector=selector)) == found, selector
    for selector, found in {"regarding.name=cart": ["cart"], "reportingController=": ["cart", "shop"]}.items():
        listed = api.get(f"/apis/events.k8s.io/v1/namespaces/{namespace}/events", fieldSelector=selector)
        assert names(listed) == found, selector


# --- pages ------------------------------------------------------------------------------------------------------------


def test_a_long_list_comes_in_pages(api: Api, namespace: str) -> None:
    create_leases(api, namespace, 5)
    first = api.get(leases(namespace), limit="2")
    assert names(first) == ["lease-0", "lease-1"]
    second = api.get(leases(namespace), limit="2", **{"continue": first["metadata"]["continue"]})
    assert names(second) == ["lease-2", "lease-3"]
    last = api.get(leases(namespace), limit="2", **{"continue": second["metadata"]["continue"]})
    assert (names(last), last["metadata"].keys()) == (["lease-4"], {"resourceVersion"})
    assert {page["metadata"]["resourceVersion"] for page in (first, second, last)} == {
        first["metadata"]["resourceVersion"]
    }


def test_pages_show_the_state_of_the_first(api: Api, namespace: str) -> None:
    created = create_leases(api, namespace, 4)
    first = api.get(leases(namespace), limit="2")
    api.delete(created[2])
    api.patch(created[3], {"spec": {"holderIdentity": "you"}})
    api.create(a_lease("lease-9", namespace=namespace))
    rest = api.get(leases(namespace), **{"continue": first["metadata"]["continue"]})
    assert names(rest) == ["lease-2", "lease-3"]
    assert rest["items"][1]["spec"]["holderIdentity"] == "me"
    assert rest["metadata"]["resourceVersion"] == first["metadata"]["resourceVersion"]
    assert names(api.get(leases(namespace))) == ["lease-0", "lease-1", "lease-3", "lease-9"]


def test_pages_of_a_selection_hold_as_many(api: Api, namespace: str) -> None:
    for index in range(6):
        api.create(a_lease(f"lease-{index}", namespace=namespace, labels={"odd": str(index % 2)}))
    first = api.get(leases(namespace), limit="2", labelSelector="odd=1")
    assert names(first) == ["lease-1", "lease-3"]
    rest = api.get(leases(namespace), limit="2", labelSelector="odd=1", **{"continue": first["metadata"]["continue"]})
    assert names(rest) == ["lease-5"]
    assert "continue" not in rest["metadata"]


def test_pages_over_all_namespaces_cross_from_one_to_the_next(api: Api, namespace: str) -> None:
    api.create(a_namespace(f"{namespace}-b"))
    for each in (namespace, f"{namespace}-b"):
        for name in ("x", "y"):
            api.create(a_lease(name, namespace=each, labels={"run": namespace}))
    found = []
    page: Object = {"metadata": {"continue": ""}}
    while "continue" in page["metadata"]:
        page = api.get(
            "/apis/coordination.k8s.io/v1/leases",
            limit="1",
            labelSelector=f"run={namespace}",
            **{"continue": page["metadata"]["continue"]},
        )
        found += [(each["metadata"]["namespace"], each["metadata"]["name"]) for each in page["items"]]
    assert found == [(f"{namespace}-b", "x"), (f"{namespace}-b", "y"), (namespace, "x"), (namespace, "y")]


@pytest.mark.parametrize(
    "token",
    [
        "nonsense!",
        "bm9uc2Vuc2U",
        "eyJ2IjogIm5vbmUifQ",
    ],
)
def test_a_token_of_no_server_is_refused(api: Api, namespace: str, token: str) -> None:
    answer = api.send("GET", leases(namespace), query={"limit": "1", "continue": token})
    assert answer.refusal[:2] == (400, "BadRequest")
    assert answer.refusal[2].startswith("invalid continue token: continue key is not valid: ")


def test_a_page_goes_on_from_where_the_last_ended_and_nowhere_else(api: Api, namespace: str) -> None:
    create_leases(api, namespace, 3)
    first = api.get(leases(namespace), limit="1")
    goes_on = {"limit": "1", "continue": first["metadata"]["continue"]}
    query = {**goes_on, "resourceVersion": first["metadata"]["resourceVersion"]}
    told = "specifying resource version is not allowed when using continue"
    assert api.send("GET", leases(namespace), query=query).refusal == (400, "BadRequest", told)


# --- as of when -------------------------------------------------------------------------------------------------------


def test_a_list_is_not_older_than_requested(api: Api, namespace: str) -> None:
    version = api.create(a_lease("lease", namespace=namespace))["metadata"]["resourceVersion"]
    for query in ({}, {"resourceVersionMatch": "NotOlderThan"}):
        assert names(api.get(leases(namespace), resourceVersion=version, **query)) == ["lease"]


def test_a_version_of_the_future_is_waited_for_then_refused(api: Api, namespace: str) -> None:
    answer = api.send("GET", leases(namespace), query={"resourceVersion": "999999999999", "timeoutSeconds": "1"})
    assert answer.refusal[:2] == (504, "Timeout")
    assert answer.refusal[2].startswith("Timeout: Too large resource version: 999999999999, current: ")
