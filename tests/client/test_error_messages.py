"""Each failure of a call in one line that says what is wrong and what to do."""

from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import trustme
from tests.client.serving import access_to, showing

from zoneward.client import api_errors as errors
from zoneward.client.auth.client_config import ClientConfig, UserInfo
from zoneward.client.auth.tls import certificate_expiry
from zoneward.client.error_messages import log_message, to_input_error
from zoneward.client.writer import WriteOutcome, write_outcome
from zoneward.kube.input_error import MAX_LENGTH, InputError

NOW = datetime(2026, 1, 1, tzinfo=UTC)
ACCESS = access_to("https://h:6443", user=UserInfo(name="jane", token="t"))
PLACE = "https://h:6443: context here: "


def line_of(error: errors.CallFailed, access: ClientConfig = ACCESS) -> str:
    """The line for a command."""
    line = str(to_input_error(error, access, now=NOW))
    assert "\n" not in line
    return line.removeprefix(PLACE)


def forbidden(message: str, *, method: str = "GET", path: str = "/api/v1/pods", **fields: Any) -> errors.Forbidden:
    return errors.Forbidden(403, "Forbidden", message, method=method, path=path, **fields)


def logged(error: errors.CallFailed) -> str:
    return log_message(error, ACCESS, now=NOW)


SHOP = "/api/v1/namespaces/shop"


@pytest.mark.parametrize(
    ("message", "missing", "rule"),
    [
        (
            'pods is forbidden: User "jane" cannot list resource "pods" in API group "" at the cluster scope',
            "user 'jane' may not list pods in the whole cluster (403); a ClusterRole",
            '{apiGroups: [""], resources: ["pods"], verbs: ["list"]}',
        ),
        (
            'User "s:b" cannot watch resource "leases" in API group "x.io" in the namespace "shop"',
            "user 's:b' may not watch leases.x.io in namespace shop (403); a Role",
            '{apiGroups: ["x.io"], resources: ["leases"], verbs: ["watch"]}',
        ),
        (
            'forbidden: User "jane" cannot get path "/openapi/v3"',
            "user 'jane' may not get /openapi/v3 (403); a ClusterRole",
            '{nonResourceURLs: ["/openapi/v3"], verbs: ["get"]}',
        ),
    ],
)
def test_a_403_names_verb_and_resource_as_the_server_does_and_the_rule_that_grants_them(
    message: str, missing: str, rule: str
) -> None:
    line = f"{missing} with this rule grants it: {rule}; the server says: "
    assert logged(forbidden(message)) == f"{line}{message}"
    assert line_of(forbidden(message)).startswith(line)


def test_a_403_for_what_is_no_resource_names_the_path() -> None:
    assert line_of(forbidden("", path="/v")).endswith('grants it: {nonResourceURLs: ["/v"], verbs: ["get"]}')


def test_a_rule_that_grants_is_whole_however_long_the_names_are() -> None:
    user = "system:serviceaccount:" + "n" * 60 + ":" + "s" * 60
    resource = 'resource "endpointslices" in API group "discovery.k8s.io" in the namespace "' + "m" * 63 + '"'
    line = str(to_input_error(forbidden(f'User "{user}" cannot watch {resource}'), ACCESS, now=NOW))
    assert '{apiGroups: ["discovery.k8s.io"], resources: ["endpointslices"], verbs: ["watch"]}' in line
    assert len(line) <= MAX_LENGTH
    assert "may not watch endpointslices.discovery.k8s.io" in line


@pytest.mark.parametrize(
    ("method", "path", "query", "verb", "group", "resource", "scope"),
    [
        ("GET", "/api/v1/pods", {"watch": "1"}, "watch", "", "pods", "in the whole cluster"),
        ("GET", "/api/v1/nodes/n", {}, "get", "", "nodes", "in the whole cluster"),
        ("GET", "/api/v1/namespaces", {}, "list", "", "namespaces", "in the whole cluster"),
        ("POST", "/apis/x.io/v1/namespaces/a/leases", {}, "create", "x.io", "leases", "in namespace a"),
        ("PUT", "/apis/x.io/v1/namespaces/a/leases/l", {}, "update", "x.io", "leases", "in namespace a"),
        ("PATCH", "/api/v1/namespaces/a/services/s/status", {}, "patch", "", "services/status", "in namespace a"),
        ("DELETE", "/api/v1/namespaces/a/services/s", {}, "delete", "", "services", "in namespace a"),
        ("DELETE", "/api/v1/namespaces/a/services", {}, "deletecollection", "", "services", "in namespace a"),
    ],
)
def test_a_403_that_does_not_say_what_was_missing_is_told_by_what_was_asked(
    method: str, path: str, query: dict[str, str], verb: str, group: str, resource: str, scope: str
) -> None:
    line = line_of(forbidden("", method=method, path=path, query=query))
    assert (
        line_of(forbidden("Forbidden", method=method, path=path, query=query)) == f"{line}; the server says: Forbidden"
    )
    role = "Role" if "space " in scope else "ClusterRole"
    plural = f"{resource}.{group}" if group else resource
    assert line.startswith(f"you may not {verb} {plural} {scope} (403); a {role} ")
    assert line.endswith(f'{{apiGroups: ["{group}"], resources: ["{resource}"], verbs: ["{verb}"]}}')


QUOTA = 'pods "one" is forbidden: exceeded quota: few, requested: pods=1,\nused: pods=1, limited: pods=1'
POLICY = (
    "leases.coordination.k8s.io \"zoneward-controller\" is forbidden: ValidatingAdmissionPolicy 'zoneward-proxy' with"
    " binding 'zoneward-proxy' denied request: a node's proxy writes only its own node's Lease"
)


@pytest.mark.parametrize(
    ("path", "message", "line"),
    [
        (f"{SHOP}/pods", QUOTA, "create pods in namespace shop"),
        ("/apis/x.io/v1/namespaces/a/leases", POLICY, "create leases.x.io in namespace a"),
        ("/version", "no \x1b[2J", "post /version"),
    ],
)
def test_a_403_by_admission_claims_no_missing_permission_and_keeps_the_servers_words(
    path: str, message: str, line: str
) -> None:
    error, words = forbidden(message, method="POST", path=path), " ".join(message.split()).replace("\x1b", "?")
    assert logged(error) == f"the server refuses to {line} (403): {words}"
    assert line_of(error).startswith(f"the server refuses to {line} (403): {words[:20]}")


def test_a_403_of_a_namespace_that_is_being_deleted_says_so() -> None:
    request: dict[str, Any] = {"method": "POST", "path": "/apis/events.k8s.io/v1/namespaces/shop/events"}
    cause = {"reason": "NamespaceTerminating", "message": "namespace shop is being terminated"}
    error = forbidden("it is being terminated", details={"causes": [cause]}, **request)
    line = "the server refuses to create events.events.k8s.io in namespace shop, which is being deleted (403)"
    assert logged(error) == f"{line}: it is being terminated"
    assert write_outcome(error) is WriteOutcome.TERMINATING
    strange: tuple[object, ...] = (None, "NamespaceTerminating", ["NamespaceTerminating"], [{"reason": "Quota"}], [{}])
    for causes in strange:
        other = forbidden("no", details={"causes": causes}, **request)
        assert write_outcome(other) is WriteOutcome.REFUSED
        assert "being deleted" not in logged(other)


def test_a_line_for_a_command_has_as_much_of_the_servers_words_as_there_is_room_for() -> None:
    error = forbidden("no " * 200, method="POST", path=f"{SHOP}/services")
    line = str(to_input_error(error, ACCESS, now=NOW))
    assert line.startswith(f"{PLACE}the server refuses to create services in namespace shop (403): no no no")
    assert line.endswith("…")
    assert len(line) == MAX_LENGTH
    line = line_of(forbidden("Forbidden", method="POST", path=f"/api/v1/namespaces/{'n' * 120}/services"))
    assert line.endswith('{apiGroups: [""], resources: ["services"], verbs: ["create"]}')


def test_refused_credentials_name_the_user_and_the_way_out() -> None:
    start, way_out = "the server does not accept the credentials of", "(401): log in again, or choose another --context"
    line = line_of(errors.Unauthorized(401, "Unauthorized", "Unauthorized"))
    assert line == f"{start} user 'jane' {way_out}; the server says: Unauthorized"
    line = line_of(errors.Unauthorized(401, "Unauthorized", ""), access_to("https://h:6443"))
    assert line == f"{start} a request without a user {way_out}"


def test_an_expired_client_certificate_is_told_where_the_server_only_says_401(tmp_path: Path) -> None:
    authority = trustme.CA()
    past = datetime(2001, 2, 3, 4, 5, tzinfo=UTC)
    old = authority.issue_cert("jane", not_before=past.replace(year=2000), not_after=past)
    access = access_to("https://h:6443", user=showing(old, name="jane"))
    error = errors.Unauthorized(401, "Unauthorized", "Unauthorized")
    line = "the client certificate of user 'jane' has expired, on 2001-02-03 04:05 UTC: client-certificate-data in"
    for failure, words in (
        (error, "; the server says: Unauthorized"),
        (errors.TlsProblem("no"), ""),
        (errors.Unreachable("no"), ""),
    ):
        assert line_of(failure, access) == f"{line} kubeconfig.yaml{words}"
    for failure in (errors.TlsProblem("of the server", sent=False), errors.Unreachable("nobody", sent=False)):
        assert "client certificate" not in line_of(failure, access)
    (tmp_path / "no").write_text("no certificate")
    assert access.user.certificate is not None
    users = [showing(authority.issue_cert("jane"), name="jane")]
    for path in (tmp_path / "no", tmp_path / "none"):
        pem = replace(access.user.certificate, path=str(path), data=None)
        users.append(replace(access.user, certificate=pem))
    for user in users:
        assert "does not accept the credentials" in line_of(error, replace(access, user=user))


def test_the_end_of_a_certificate_is_read_in_both_ways_to_write_a_year() -> None:
    for year in (1950, 2049, 2050, 2100):
        end = datetime(year, 2, 3, 4, 5, 6, tzinfo=UTC)
        certificate = trustme.CA().issue_cert("a", not_before=datetime(1950, 1, 1, tzinfo=UTC), not_after=end)
        assert certificate_expiry(b"bag attributes\n" + certificate.cert_chain_pems[0].bytes()) == end
    block = "-----BEGIN CERTIFICATE-----\n{}\n-----END CERTIFICATE-----"
    for content in ("", "AAAA", "MIIB", "%%%"):
        assert certificate_expiry(block.format(content).encode()) is None


@pytest.mark.parametrize(
    ("error", "line"),
    [
        (errors.Unreachable("no connection", sent=False), "the API server cannot be reached: no connection"),
        (errors.TlsProblem("wrong", sent=False), "there is no TLS connection to the API server: wrong"),
        (errors.NotFound(404, "NotFound", "no such\nthing"), "the server answered 404: no such thing"),
        (errors.TooManyRequests(429, "", "wait"), "the server has too much to do (429): try again later; the server"),
        (errors.TimedOut("late"), "the API server did not answer in time: late; is the cluster up, and the address"),
        (errors.SilentConnection("nothing came for 5 s"), "nothing came for 5 s"),
        (errors.NoCredentials(InputError("config", "tokenFile", "expected")), "config: tokenFile: expected"),
    ],
)
def test_other_failures_are_told_as_what_they_are(error: errors.CallFailed, line: str) -> None:
    assert line_of(error).startswith(line)
