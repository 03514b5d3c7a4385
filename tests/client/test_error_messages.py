"""Each failure of a call in one line that says what is wrong and what to do."""

import asyncio
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest
import trustme
from aiohttp import web
from tests.client.serving import HOST, access_to, json_status, refused_port, served, server_side, showing, trusting

from zoneward.client.api_errors import (
    CallFailed,
    Forbidden,
    SilentConnection,
    TimedOut,
    TlsProblem,
    Unauthorized,
    Unreachable,
)
from zoneward.client.auth.client_config import ClientConfig, UserInfo
from zoneward.client.auth.tls import certificate_expiry
from zoneward.client.error_messages import log_message, to_input_error
from zoneward.client.transport import RetryPolicy, Transport
from zoneward.client.writer import WriteOutcome, write_outcome
from zoneward.kube.input_error import MAX_LENGTH

NOW = datetime(2026, 1, 1, tzinfo=UTC)
ACCESS = access_to("https://h:6443", user=UserInfo(name="jane", token="t"))
PLACE = "https://h:6443: context here: "


def told(error: CallFailed, access: ClientConfig = ACCESS) -> str:
    line = str(to_input_error(error, access, now=NOW))
    assert "\n" not in line
    return line


def forbidden(message: str, *, method: str = "GET", path: str = "/api/v1/pods", **query: str) -> str:
    error = Forbidden(403, "Forbidden", message, method=method, path=path, query=query)
    return told(error).removeprefix(PLACE)


def worded_forbidden(message: str, *, method: str = "GET", path: str = "/api/v1/pods") -> str:
    """The line for a log."""
    return log_message(Forbidden(403, "Forbidden", message, method=method, path=path), ACCESS, now=NOW)


# --- 403 --------------------------------------------------------------------------------------------------------------


DISCOVERY = "discovery.k8s.io"


@pytest.mark.parametrize(
    ("message", "missing", "rule"),
    [
        (
            'pods is forbidden: User "jane" cannot list resource "pods" in API group "" at the cluster scope',
            "user 'jane' may not list pods in the whole cluster (403); a ClusterRole",
            '{apiGroups: [""], resources: ["pods"], verbs: ["list"]}',
        ),
        (
            f'User "s:b" cannot watch resource "endpointslices" in API group "{DISCOVERY}" in the namespace "shop"',
            "user 's:b' may not watch endpointslices.discovery.k8s.io in namespace shop (403); a Role",
            f'{{apiGroups: ["{DISCOVERY}"], resources: ["endpointslices"], verbs: ["watch"]}}',
        ),
        (
            'users "j" is forbidden: User "a" cannot impersonate resource "users" in API group "" at the cluster scope',
            "user 'a' may not impersonate users in the whole cluster (403); a ClusterRole",
            '{apiGroups: [""], resources: ["users"], verbs: ["impersonate"]}',
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
    assert worded_forbidden(message) == f"{missing} with this rule grants it: {rule}; the server says: {message}"
    assert forbidden(message).startswith(f"{missing} with this rule grants it: {rule}; the server says: ")


def test_a_rule_that_grants_is_whole_however_long_the_names_are() -> None:
    user = "system:serviceaccount:" + "n" * 60 + ":" + "s" * 60
    resource = 'resource "endpointslices" in API group "discovery.k8s.io" in the namespace "' + "m" * 63 + '"'
    line = told(Forbidden(403, "Forbidden", f'User "{user}" cannot watch {resource}'))
    assert '{apiGroups: ["discovery.k8s.io"], resources: ["endpointslices"], verbs: ["watch"]}' in line
    assert len(line) <= MAX_LENGTH
    assert "may not watch endpointslices.discovery.k8s.io" in line


@pytest.mark.parametrize(
    ("method", "path", "query", "verb", "group", "resource", "scope"),
    [
        ("GET", "/api/v1/pods", {}, "list", "", "pods", "in the whole cluster"),
        ("GET", "/api/v1/pods", {"watch": "1"}, "watch", "", "pods", "in the whole cluster"),
        ("GET", "/api/v1/nodes/n", {}, "get", "", "nodes", "in the whole cluster"),
        ("GET", "/api/v1/namespaces", {}, "list", "", "namespaces", "in the whole cluster"),
        ("GET", "/api/v1/namespaces/a", {}, "get", "", "namespaces", "in the whole cluster"),
        ("GET", "/api/v1/namespaces/a/services", {}, "list", "", "services", "in namespace a"),
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
    line = forbidden("", method=method, path=path, **query)
    assert forbidden("Forbidden", method=method, path=path, **query) == f"{line}; the server says: Forbidden"
    plural = f"{resource}.{group}" if group else resource
    assert line.startswith(
        f"you may not {verb} {plural} {scope} (403); a {'Role' if 'space ' in scope else 'ClusterRole'} "
    )
    assert line.endswith(f'{{apiGroups: ["{group}"], resources: ["{resource}"], verbs: ["{verb}"]}}')


def test_a_403_for_what_is_no_resource_names_the_path() -> None:
    assert forbidden("", path="/version").endswith('grants it: {nonResourceURLs: ["/version"], verbs: ["get"]}')


ENDS = (
    'events.events.k8s.io "cart.18a" is forbidden: unable to create new content in namespace shop because it is being'
    " terminated"
)
POLICY = (
    "leases.coordination.k8s.io \"zoneward-controller\" is forbidden: ValidatingAdmissionPolicy 'zoneward-proxy' with"
    " binding 'zoneward-proxy' denied request: a node's proxy writes only its own node's Lease"
)


def test_a_403_by_admission_claims_no_missing_permission_and_keeps_the_servers_words() -> None:
    quota = 'pods "one" is forbidden: exceeded quota: few, requested: pods=1,\nused: pods=1, limited: pods=1'
    for path, message, line in (
        ("/api/v1/namespaces/shop/pods", quota, "the server refuses to create pods in namespace shop (403)"),
        (
            "/apis/coordination.k8s.io/v1/namespaces/a/leases",
            POLICY,
            "the server refuses to create leases.coordination.k8s.io in namespace a (403)",
        ),
        ("/version", "no", "the server refuses to post /version (403)"),
    ):
        assert worded_forbidden(message, method="POST", path=path) == f"{line}: {' '.join(message.split())}"
        assert forbidden(message, method="POST", path=path).startswith(f"{line}: {message[:20]}")


def test_a_403_of_a_namespace_that_is_being_deleted_says_so() -> None:
    error = Forbidden(
        403,
        "Forbidden",
        ENDS,
        details={"causes": [{"reason": "NamespaceTerminating", "message": "namespace shop is being terminated"}]},
        method="POST",
        path="/apis/events.k8s.io/v1/namespaces/shop/events",
    )
    line = "the server refuses to create events.events.k8s.io in namespace shop, which is being deleted (403)"
    assert log_message(error, ACCESS, now=NOW) == f"{line}: {ENDS}"
    assert write_outcome(error) is WriteOutcome.TERMINATING
    strange: tuple[object, ...] = (None, "NamespaceTerminating", ["NamespaceTerminating"], [{"reason": "Quota"}], [{}])
    for causes in strange:
        other = Forbidden(403, "Forbidden", "no", details={"causes": causes}, method=error.method, path=error.path)
        assert write_outcome(other) is WriteOutcome.REFUSED
        assert "being deleted" not in log_message(other, ACCESS, now=NOW)


def test_a_line_for_a_command_has_as_much_of_the_servers_words_as_there_is_room_for() -> None:
    line = "the server refuses to create services in namespace shop (403): "
    path, words = "/api/v1/namespaces/shop/services", "no " * 200
    said = told(Forbidden(403, "Forbidden", words, method="POST", path=path))
    assert said.startswith(f"{PLACE}{line}no no no")
    assert said.endswith("…")
    assert len(said) == MAX_LENGTH
    # Where there is room for nothing but a few letters, the rule is what is needed.
    path = f"/api/v1/namespaces/{'n' * 120}/services"
    line = forbidden("Forbidden", method="POST", path=path)
    assert line.endswith('{apiGroups: [""], resources: ["services"], verbs: ["create"]}')
    assert "…" not in told(Unreachable("no"))


def test_the_servers_words_cannot_steer_a_terminal() -> None:
    assert worded_forbidden("no \x1b[2J", path="/version").endswith(": no ?[2J")


# --- all the others, as they happen -----------------------------------------------------------------------------------


def happened(access: ClientConfig, handler: web.Response | None = None, **server: object) -> str:
    """The line for a GET, with the address of the server in it replaced by h:1."""

    async def answer(_: web.BaseRequest) -> web.StreamResponse:
        assert handler is not None
        return handler

    async def run() -> str:
        async with served(answer, tls=server.get("tls")) as found:  # type: ignore[arg-type]
            url = found.url if handler is not None or server else f"http://{HOST}:{refused_port()}"
            here = replace(access, cluster=replace(access.cluster, server=url))
            async with Transport(here, retries=RetryPolicy(attempts=1), is_terminal=False) as client:
                with pytest.raises(CallFailed) as caught:
                    await client.get("/api/v1/pods", timeout=5)
            return told(caught.value, here).replace(url, "http://h:1")

    return asyncio.run(run())


def test_refused_credentials_name_the_user_and_the_way_out() -> None:
    refusal = json_status(401, "Unauthorized", "Unauthorized")
    way_out = "(401): log in again, or choose another --context"
    line = happened(ACCESS, refusal)
    start = "http://h:1: context here: the server does not accept the credentials of user 'jane'"
    assert line == f"{start} {way_out}; the server says: Unauthorized"
    line = told(Unauthorized(401, "Unauthorized", ""), access_to("https://h:6443"))
    assert line == f"{PLACE}the server does not accept the credentials of a request without a user {way_out}"


def test_an_expired_client_certificate_is_told_where_the_server_only_says_401(tmp_path: Path) -> None:
    authority = trustme.CA()
    past = datetime(2001, 2, 3, 4, 5, tzinfo=UTC)
    old = authority.issue_cert("jane", not_before=past.replace(year=2000), not_after=past)
    access = access_to("https://h:6443", user=showing(old, name="jane"))
    error = Unauthorized(401, "Unauthorized", "Unauthorized")
    line = f"{PLACE}the client certificate of user 'jane' has expired, on 2001-02-03 04:05 UTC: "
    for failure in (error, TlsProblem("alert"), Unreachable("reset")):
        said = "; the server says: Unauthorized" if failure is error else ""
        assert told(failure, access) == f"{line}client-certificate-data in kubeconfig.yaml{said}"
    for failure in (TlsProblem("theirs", sent=False), Unreachable("nobody", sent=False)):
        assert "client certificate" not in told(failure, access)
    fresh = access_to("https://h:6443", user=showing(authority.issue_cert("jane"), name="jane"))
    assert "does not accept the credentials" in told(error, fresh)
    (tmp_path / "no").write_text("no certificate")
    assert access.user.certificate is not None
    for path in (tmp_path / "no", tmp_path / "none"):
        pem = replace(access.user.certificate, path=str(path), data=None)
        strange = replace(access, user=replace(access.user, certificate=pem))
        assert "does not accept the credentials" in told(error, strange)


def test_the_end_of_a_certificate_is_read_in_both_ways_to_write_a_year() -> None:
    for year in (1950, 2049, 2050, 2100):
        end = datetime(year, 2, 3, 4, 5, 6, tzinfo=UTC)
        certificate = trustme.CA().issue_cert("a", not_before=datetime(1950, 1, 1, tzinfo=UTC), not_after=end)
        assert certificate_expiry(b"bag attributes\n" + certificate.cert_chain_pems[0].bytes()) == end
    block = "-----BEGIN CERTIFICATE-----\n{}\n-----END CERTIFICATE-----"
    for content in ("", "AAAA", "MIIB", "%%%"):
        assert certificate_expiry(block.format(content).encode()) is None


def test_nobody_there_a_wrong_name_and_an_expired_server_are_lines() -> None:
    assert happened(access_to("")).startswith(
        "http://h:1: context here: the API server cannot be reached: no connection: "
    )
    authority = trustme.CA()
    trusted = trusting(access_to(""), authority)
    expected = "http://h:1: context here: there is no TLS connection to the API server: the server's certificate "
    past = datetime(2001, 2, 3, tzinfo=UTC)
    old = authority.issue_cert(HOST, not_before=past.replace(year=2000), not_after=past)
    assert happened(trusted, tls=server_side(old)) == f"{expected}has expired"
    line = happened(trusted, tls=server_side(authority.issue_cert("other.example")))
    assert line.startswith(f"{expected}is for another name: ")
    assert HOST in line.removeprefix(expected)


def test_other_answers_are_told_with_status_and_message() -> None:
    start = "http://h:1: context here: the server"
    assert happened(ACCESS, json_status(404, "NotFound", "no such\nthing")) == f"{start} answered 404: no such thing"
    assert happened(ACCESS, web.Response(status=503, text="down")) == f"{start} answered 503: down"
    assert (
        happened(ACCESS, json_status(429, "", "wait"))
        == f"{start} has too much to do (429): try again later; the server says: wait"
    )


def test_what_took_too_long_is_told() -> None:
    line = f"{PLACE}the API server did not answer in time: late; is the cluster up, and the address right?"
    assert told(TimedOut("late")) == line
    assert told(SilentConnection("nothing came for 5 s")) == f"{PLACE}nothing came for 5 s"


def test_missing_credentials_are_told_as_what_they_are() -> None:
    access = replace(ACCESS, user=UserInfo(name="jane", token_file="/none"))
    line = happened(access, web.Response())
    assert line == "kubeconfig.yaml: tokenFile: expected a readable file /none, got: No such file or directory"
