"""An anonymized snapshot contains only public values and pseudonyms, and keeps every order."""

from collections import Counter
from collections.abc import Collection, Iterator
from ipaddress import ip_address
from itertools import count
from types import NoneType, UnionType
from typing import Any, Final, Union, get_args, get_origin, get_type_hints

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from tests.builders.structs import SOME_TIME, a_node, a_pod, a_service, a_slice, an_endpoint, hints

from zoneward.kube import names, validation
from zoneward.kube.adoption_marks import SELECTOR_ANNOTATION, effective_selector, has_selector_annotation, manager_of
from zoneward.kube.object_reader import read_objects
from zoneward.kube.objects import (
    KINDS,
    PROXY_OBJECT_KINDS,
    Condition,
    ContainerPort,
    NodeCondition,
    OwnerReference,
    PodMeta,
    ProgramContainer,
    ProxyPod,
    ProxyPodSpec,
    Service,
    ServicePort,
    ServiceStatus,
    node_zone,
)
from zoneward.kube.schema import struct_of
from zoneward.kube.workload_objects import (
    WORKLOAD_KINDS,
    ClaimTemplate,
    ClaimTemplateMeta,
    PersistentVolumeClaim,
    StatefulSet,
    StatefulSetSpec,
    WorkloadMeta,
    WorkloadObject,
)
from zoneward.routing.algorithms.heuristics import HEURISTICS
from zoneward.routing.request import NUMBER_ANNOTATIONS, Approach
from zoneward.routing.rules import Reason
from zoneward.sample import cluster
from zoneward.snapshots.anonymizer import ANNOTATIONS, KEEP, KEPT_KEYS, TABLE, anonymized, rule_of
from zoneward.snapshots.cluster_snapshot import Snapshot
from zoneward.snapshots.pseudonyms import Pseudonyms
from zoneward.snapshots.snapshot_writer import iter_documents

# --- secrets ----------------------------------------------------------------------------------------------------------

SECRET: Final = "acme"
STRUCTS: Final = (*KINDS.values(), ProxyPod, *PROXY_OBJECT_KINDS.values(), *WORKLOAD_KINDS.values())
"""All kinds that are read."""
WORDS: Final = frozenset({*HEURISTICS, *Approach, *Reason})
NUMBERS: Final = {annotation.name: annotation.parse for annotation in NUMBER_ANNOTATIONS}


def filled(type_: Any, numbers: Iterator[int]) -> Any:
    """A value of a type in which every text is unique."""
    if get_origin(type_) in (Union, UnionType):
        # Text where a number would do as well.
        kinds = [part for part in get_args(type_) if part is not NoneType]
        type_ = str if str in kinds else kinds[0]
    if get_origin(type_) is tuple:
        return (filled(get_args(type_)[0], numbers),)
    if get_origin(type_) is dict:
        return {f"{SECRET}-{next(numbers)}": filled(str, numbers)}
    if type_ is str:
        return f"{SECRET}-{next(numbers)}"
    if type_ in (int, bool):
        return type_(1)
    known = get_type_hints(type_)
    return type_(**{field.name: filled(known[field.name], numbers) for field in msgspec.structs.fields(type_)})


SHAPED: Final = (
    "{}", "kubernetes.io/{}", "{}.k8s.io", "zoneward.dev/{}", "Hints/{}", "{}/local", "ClusterWide: {}", "a=0.5,{}=1",
    "Hints/{}: message", "eu-central-1{}", "a={}", '{{"app":"{}"}}', '{{"{}":"x"}}', '{{"app":["{}"]}}',
    '{{"counts":{{"{}":1}},"shares":{{}}}}',
    "2026-01-01T00:00:00Z {}", "1.5{}", "10.0.0.1 {}", "fd00::{}",
)  # fmt: skip
"""The forms of public values, with a secret in them."""
KEYS: Final = (
    *KEPT_KEYS,
    *ANNOTATIONS,
    *NUMBERS,
    names.TRIGGER_TIME_ANNOTATION,
    "zoneward.dev/selector",
    "zoneward.dev/before-adoption",
    "zoneward.dev/endpoints",
)


def disguised(value: Any, form: str) -> Any:
    """The value with all text in a form, maps with all known keys, and conditions of known types."""
    if isinstance(value, str):
        return form.format(value)
    if isinstance(value, tuple):
        return tuple(disguised(item, form) for item in value)
    if isinstance(value, dict):
        return {key: form.format(SECRET) for key in (*KEYS, form.format(f"{SECRET}-key"))}
    if not isinstance(value, msgspec.Struct):
        return value
    changed = {name: disguised(getattr(value, name), form) for name in value.__struct_fields__}
    if isinstance(value, Condition):
        changed["type"] = names.PROGRAMMED_CONDITION
    if isinstance(value, NodeCondition):
        changed["type"] = "Ready"
    if isinstance(value, OwnerReference):
        changed["kind"] = "Service"
    return type(value)(**changed)


def as_text(snapshot: Snapshot) -> str:
    return msgspec.json.encode(list(iter_documents(snapshot))).decode()


@pytest.mark.parametrize("kind", STRUCTS, ids=lambda kind: kind.__name__)
def test_no_text_of_any_field_gets_out_even_if_it_looks_public(kind: type) -> None:
    secret = filled(kind, count(1))
    for disguise in (secret, *(disguised(secret, form) for form in SHAPED)):
        snapshot = Snapshot.of([disguise])
        assert SECRET in as_text(snapshot)
        assert SECRET not in as_text(anonymized(snapshot))
        assert SECRET not in as_text(anonymized(snapshot, words=WORDS, numbers=NUMBERS))


# --- the table --------------------------------------------------------------------------------------------------------


def paths_of(struct: type[msgspec.Struct], path: str) -> Iterator[tuple[str, str]]:
    """The paths of the fields of a kind, down to those in the table, and the types of those that are kept."""
    for field in msgspec.structs.fields(struct):
        field_path = f"{path}.{field.encode_name}"
        rule, inner = rule_of(field_path), struct_of(field.type)
        if rule is None and inner is not None:
            yield from paths_of(inner, field_path)
        else:
            yield field_path, str(field.type) if rule is KEEP else ""


def test_every_field_that_is_read_is_in_the_table_and_only_numbers_and_booleans_are_kept_as_they_are() -> None:
    paths = [path for kind in STRUCTS for path in paths_of(kind, kind.__name__)]
    assert [path for path, _ in paths if rule_of(path) is None] == []
    assert [path for path, annotation in paths if "str" in annotation] == []
    assert [end for end in TABLE if not any(f".{path}".endswith(f".{end}") for path, _ in paths)] == []


@pytest.mark.parametrize("kind", WORKLOAD_KINDS.values(), ids=lambda kind: kind.__name__)
def test_no_field_of_a_workload_is_lost(kind: type[WorkloadObject]) -> None:
    before = filled(kind, count(1))
    (after,) = anonymized(Snapshot.of([before])).workload_objects
    expected = msgspec.to_builtins(before)
    expected["metadata"].pop("resourceVersion")
    # It has no annotation that decisions or checks read.
    expected["metadata"].pop("annotations", None)
    assert paths(msgspec.to_builtins(after)) == paths(expected)


def paths(value: object, at: str = "") -> set[str]:
    """The path of each field, with a placeholder for keys of labels."""
    if isinstance(value, dict):
        free = at.endswith(("labels", "Labels", "nodeSelector"))
        return {path for key, inner in value.items() for path in paths(inner, f"{at}.{'*' if free else key}")}
    if isinstance(value, list):
        return {path for inner in value for path in paths(inner, f"{at}[]")}
    return {at}


def test_claims_of_a_stateful_set_are_still_its_claims() -> None:
    templates = (ClaimTemplate(metadata=ClaimTemplateMeta(name="data")),)
    meta = WorkloadMeta(name="db", namespace="shop")
    stateful_set = StatefulSet(metadata=meta, spec=StatefulSetSpec(replicas=2, volume_claim_templates=templates))
    claims = [
        PersistentVolumeClaim(metadata=WorkloadMeta(name=f"data-db-{ordinal}", namespace="shop")) for ordinal in (0, 1)
    ]
    after, *bound = anonymized(Snapshot.of([stateful_set, *claims])).workload_objects
    assert isinstance(after, StatefulSet)
    (template,) = after.spec.volume_claim_templates or ()
    stem = f"{template.metadata.name}-{after.metadata.name}"
    assert [claim.metadata.name for claim in bound] == [f"{stem}-0", f"{stem}-1"]


def sample() -> Snapshot:
    return Snapshot.of(read_objects("sample", cluster().read_bytes(), skipped=Counter()))


def test_anonymized_slices_are_valid() -> None:
    slices = anonymized(sample()).slices
    assert slices
    assert all(validation.validate_endpoint_slice(slice_) == () for slice_ in slices)


# --- pseudonyms -------------------------------------------------------------------------------------------------------

NAMES: Final = st.sets(st.text("abz019-.", min_size=1, max_size=5) | st.from_regex(r"pod-[0-9]{1,3}", fullmatch=True))
IPV4: Final = st.ip_addresses(v=4).map(str) | st.from_regex(r"10\.100\.10[01]\.1[0-9]{2}", fullmatch=True)
IPV6: Final = st.ip_addresses(v=6).map(str) | st.from_regex(r"fd00::1000:100[0-9a-f]", fullmatch=True)


def renamed(kind: str, texts: Collection[str]) -> list[str]:
    """The pseudonyms of texts, in the order of the texts."""
    pseudonyms = Pseudonyms()
    assert all(pseudonyms.name(kind, text) == text for text in texts)
    pseudonyms.assign()
    assert pseudonyms.name(kind, "") == ""
    after = [pseudonyms.name(kind, text) for text in sorted(texts)]
    assert after == sorted(set(after))
    assert not {*texts} & {*after}
    return after


@given(NAMES)
def test_pseudonyms_are_unique_of_equal_length_and_keep_the_order(texts: set[str]) -> None:
    assert len({len(name) for name in renamed("pod", texts)}) <= 1


@pytest.mark.parametrize(("version", "addresses"), [(4, IPV4), (6, IPV6)])
@given(data=st.data())
def test_pseudonyms_of_addresses_are_valid_keep_the_family_and_the_order(
    version: int, addresses: st.SearchStrategy[str], data: st.DataObject
) -> None:
    for address in renamed("address", data.draw(st.sets(addresses))):
        parsed = ip_address(address)
        assert (parsed.version, str(parsed)) == (version, address)


def test_very_many_addresses_stay_in_order_and_private() -> None:
    texts = [f"192.168.{high}.{low}" for high in range(100) for low in range(250)]
    assert all(ip_address(address).is_private for address in renamed("address", texts))


@given(st.sets(st.from_regex(r"(cart)?-?[-.a-z0-9]{0,4}", fullmatch=True).filter(bool), min_size=1))
def test_slices_keep_their_order_relative_to_planned_slices(texts: set[str]) -> None:
    after = anonymized(Snapshot.of([a_service(), *map(a_slice, sorted(texts))]))
    service = after.services[0].metadata.name
    pseudonyms = [slice_.metadata.name for slice_ in after.slices]
    assert pseudonyms == sorted(set(pseudonyms))
    for text, name in zip(sorted(texts), pseudonyms, strict=True):
        for hash_ in ("0000000000", "ffffffffff"):
            if not "0" <= text.removeprefix("cart-")[:1] < "g" or not text.startswith("cart-"):
                assert (text < f"cart-{hash_}") == (name < f"{service}-{hash_}"), (text, name)


# --- references between objects ---------------------------------------------------------------------------------------


def test_references_between_objects_are_kept() -> None:
    ips: dict[str, Any] = {"cluster_ip": "10.96.0.1", "cluster_ips": ("10.96.0.1", "fd00::1")}
    things = (
        a_service(labels={"app": "cart", "empty": ""}, **ips),
        a_pod("cart-0", "n1", hostname="cart-0", subdomain="cart"),
        a_node("n1", "eu-central-1a", labels={"kubernetes.io/hostname": "n1"}),
        a_slice("x", replace(an_endpoint(node="n1"), hostname="cart-0"), manager=names.BUILT_IN_MANAGER),
    )
    after = anonymized(Snapshot.of(things))
    (service,), (pod,), (node,), (slice_,) = after.services, after.pods, after.nodes, after.slices
    name = service.metadata.name
    assert service.metadata.labels == {"key-1": "value-1", "key-2": ""}
    assert service.spec.selector == pod.metadata.labels == {"key-1": "value-1"}
    assert service.spec.cluster_ips is not None
    assert service.spec.cluster_ip == service.spec.cluster_ips[0]
    assert (pod.spec.subdomain, pod.spec.node_name) == (name, node.metadata.name)
    assert node.metadata.labels == {"kubernetes.io/hostname": node.metadata.name, names.ZONE_LABEL: "eu-central-1a"}
    assert slice_.metadata.labels == {names.SERVICE_NAME_LABEL: name, names.MANAGED_BY_LABEL: names.BUILT_IN_MANAGER}
    assert slice_.metadata.namespace == pod.metadata.namespace == service.metadata.namespace
    (owner,) = slice_.metadata.owner_references or ()
    assert (owner.kind, owner.name, owner.uid) == ("Service", name, service.metadata.uid)
    (endpoint,) = slice_.endpoints or ()
    assert endpoint.addresses == (pod.status.pod_ip,)
    assert (endpoint.hostname, endpoint.node_name) == (pod.spec.hostname, node.metadata.name)


def test_pod_of_a_proxy_stays_one_pod_in_its_namespace() -> None:
    """Where there are no other Pods, endpoints come from the slices."""
    container = ProgramContainer(image="acme.example/kube-proxy:v1.33.5-acme", ports=(ContainerPort(name="acme"),))
    metadata = PodMeta(name="kube-proxy-acme", namespace="kube-system")
    before = Snapshot.of([ProxyPod(metadata=metadata, spec=ProxyPodSpec(node_name="n1", containers=(container,)))])
    text = b"".join(map(msgspec.json.encode, iter_documents(anonymized(before))))
    after = Snapshot.of(read_objects("anonymized", text, skipped=Counter()))
    (pod,) = after.proxy_pods
    assert (pod.metadata.name, pod.metadata.namespace, pod.spec.node_name) == ("pod-1", "kube-system", "node-1")
    assert [(one.image, one.ports) for one in pod.spec.containers or ()] == [
        ("kube-proxy:v1.33.0", (ContainerPort(name="port-1"),))
    ]
    assert not after.has_pods


def of_service(**fields: Any) -> Service:
    """A Service after it was anonymized."""
    (service,) = anonymized(Snapshot.of([a_service(**fields)]), words=WORDS).services
    return service


@pytest.mark.parametrize(
    ("key", "known"),
    [
        (names.TOPOLOGY_AWARE_HINTS_ANNOTATION, "auto"),
        (names.TOPOLOGY_MODE_ANNOTATION, "PreferZone"),
        (names.SUBSETTING_ANNOTATION, "Require"),
        (names.SUBSETTING_ALGORITHM_ANNOTATION, "local"),
        (names.SUBSETTING_ALGORITHM_ANNOTATION, "zoneward.dev/local"),
        (names.APPROACH_ANNOTATION, "Hints/local"),
    ],
)
def test_known_settings_are_kept(key: str, known: str) -> None:
    annotations = {key: known, "kubectl.kubernetes.io/last-applied-configuration": '{"kind":"Service"}'}
    assert of_service(annotations=annotations).metadata.annotations == {key: known}
    assert of_service(annotations={key: "of-acme"}).metadata.annotations == {key: "unknown-1"}


@pytest.mark.parametrize(
    "key", ["acme", "zoneward.dev/of-tomorrow", "zoneward.dev/endpoints", names.TRIGGER_TIME_ANNOTATION]
)
def test_annotations_that_decisions_do_not_read_are_left_out(key: str) -> None:
    assert of_service(annotations={key: "keep"}).metadata.annotations is None


@pytest.mark.parametrize("mark", ["", "{}", "null", "cart", '{"app":1}', "[" * 100_000])
def test_unreadable_selector_stays_unreadable(mark: str) -> None:
    after = of_service(annotations={SELECTOR_ANNOTATION: mark}, selects=False)
    assert has_selector_annotation(after)
    assert not effective_selector(after)


def test_zones_are_replaced_in_their_order_unless_all_are_those_of_a_cloud() -> None:
    def zones_of(*zones: str) -> list[str | None]:
        return [node_zone(node) for node in anonymized(Snapshot.of(a_node(f"n{zone}", zone) for zone in zones)).nodes]

    cloud = ("eu-central-1a", "us-gov-west-1b", "europe-west4-c", "eastus2-1", "zone-a", "b", "3")
    assert zones_of(*cloud) == list(cloud)
    assert zones_of("b", "acme-2", "acme-1") == ["zone-3", "zone-2", "zone-1"]


def test_nodes_keep_their_common_region() -> None:
    given = {"n1": "berlin", "n2": "berlin", "n3": "paris", "n4": "", "n5": None}
    nodes = [
        a_node(name, f"room-{name}", labels={} if region is None else {names.REGION_LABEL: region})
        for name, region in given.items()
    ]
    after = [(node.metadata.labels or {}).get(names.REGION_LABEL) for node in anonymized(Snapshot.of(nodes)).nodes]
    assert after[0] == after[1]
    assert after[0] != after[2]
    assert not {*given.values()} & {*after[:3]}
    assert after[3:] == ["", None]


@pytest.mark.parametrize("key", sorted(NUMBERS))
def test_numbers_are_kept_and_any_other_text_becomes_unknown(key: str) -> None:
    """Digits that no decision reads as a number may be a telephone number."""
    share = "unknown-1" if key == names.STARTING_THRESHOLD_ANNOTATION else "20%"
    hidden = dict.fromkeys(("acme", "4915112345678", "55501999", "10.0.0.1", "0.2.0.2", "99999%"), "unknown-1")
    for text, expected in (("20%", share), ("0.2", "0.2"), *hidden.items()):
        (after,) = anonymized(Snapshot.of([a_service(annotations={key: text})]), numbers=NUMBERS).services
        assert after.metadata.annotations == {key: expected}


def test_zones_have_the_same_pseudonym_everywhere() -> None:
    zones = {names.ZONES_ANNOTATION: "acme-1=0.75,acme-2=0.25", names.APPROACH_ANNOTATION: "Subsetting/local"}
    endpoint = an_endpoint("10.0.0.1", "acme-2", hinted=hints("acme-1"))
    slice_ = a_slice("x", endpoint, annotations=zones, labels={names.ZONE_LABEL: "acme-1"})
    (after,) = anonymized(Snapshot.of([slice_]), words=WORDS).slices
    assert after.metadata.annotations == {**zones, names.ZONES_ANNOTATION: "zone-1=0.75,zone-2=0.25"}
    assert (after.metadata.labels or {})[names.ZONE_LABEL] == "zone-1"
    (endpoint,) = after.endpoints or ()
    assert (endpoint.zone, endpoint.hints) == ("zone-2", hints("zone-1"))


def weights_after(text: str) -> str:
    slice_ = a_slice("x", an_endpoint("10.0.0.1", "acme-0"), annotations={names.ZONE_WEIGHTS_ANNOTATION: text})
    (after,) = anonymized(Snapshot.of([slice_])).slices
    return (after.metadata.annotations or {})[names.ZONE_WEIGHTS_ANNOTATION]


def test_weights_of_zones_keep_their_numbers() -> None:
    text = '{"counts":{"acme-1":4,"acme-2":2},"shares":{"acme-2":{"acme-1":0.25,"acme-2":0.75}}}'
    after = '{"counts":{"zone-2":4,"zone-3":2},"shares":{"zone-3":{"zone-2":0.25,"zone-3":0.75}}}'
    assert weights_after(text) == after
    assert weights_after(text.replace("0.75", "0.5")) == "unknown-1"


def test_conditions_keep_their_reason_and_no_message() -> None:
    condition = Condition(
        type=names.PROGRAMMED_CONDITION,
        status="False",
        reason="EndpointWithoutZone",
        message="Hints/ProportionalZoneCPU: no zone for cart-0",
    )
    status = ServiceStatus(conditions=(condition, Condition(type="acme.example/Seen", message="by cart-0")))
    after = of_service(status=status).status
    assert after is not None
    assert after.conditions == (replace(condition, message=""),)


def test_protocols_of_kubernetes_stay_and_those_of_a_company_do_not() -> None:
    given_ = ("http", "kubernetes.io/h2c", "acme.example/secret", "other.example/x", "acme.example/secret")
    ports = tuple(ServicePort(name=f"p{index}", app_protocol=protocol) for index, protocol in enumerate(given_))
    after = [port.app_protocol for port in of_service(ports=ports).spec.ports or ()]
    assert after[:2] == ["http", "kubernetes.io/h2c"]
    assert after[2:] == ["example.com/protocol-1", "example.com/protocol-2", "example.com/protocol-1"]


def test_deletion_timestamp_is_kept() -> None:
    for time, after in ((SOME_TIME, SOME_TIME), ("by cart", "1970-01-01T00:00:00Z")):
        metadata = replace(a_service().metadata, deletion_timestamp=time)
        (service,) = anonymized(Snapshot.of([replace(a_service(), metadata=metadata)])).services
        assert service.metadata.deletion_timestamp == after


@pytest.mark.parametrize(
    ("manager", "stays"),
    [
        (names.MANAGER, True),
        (names.BUILT_IN_MANAGER, True),
        ("endpointslicemirroring-controller.k8s.io", True),
        ("controller.acme.example", False),
    ],
)
def test_known_managers_of_slices_are_kept(manager: str, stays: bool) -> None:
    (slice_,) = anonymized(Snapshot.of([a_slice("x", manager=manager)])).slices
    assert (manager_of(slice_) == manager) is stays


def test_domain_names_stay_domain_names() -> None:
    endpoints = map(an_endpoint, ("db.acme.example", "cache.acme.example"))
    (slice_,) = anonymized(Snapshot.of([a_slice("x", *endpoints, family="FQDN")])).slices
    assert [one.addresses for one in slice_.endpoints or ()] == [("name-2.example.com",), ("name-1.example.com",)]
