"""One example and the error for each kind of bad input."""

import gzip


def service(spec: str, *, metadata: str = '{"name":"cart","namespace":"shop"}') -> bytes:
    return f'{{"apiVersion":"v1","kind":"Service","metadata":{metadata},"spec":{spec}}}'.encode()


def node(status: str, *, labels: str = "{}") -> bytes:
    metadata = f'{{"name":"n1","labels":{labels}}}'
    return f'{{"apiVersion":"v1","kind":"Node","metadata":{metadata},"status":{status}}}'.encode()


def slice_(fields: str) -> bytes:
    metadata = '{"name":"cart-1","namespace":"shop"}'
    return f'{{"apiVersion":"discovery.k8s.io/v1","kind":"EndpointSlice","metadata":{metadata},{fields}}}'.encode()


def pod(spec: str) -> bytes:
    return service(spec).replace(b"Service", b"Pod").replace(b"cart", b"cart-x")


GOOD = service("{}")
_YAML = b"apiVersion: v1\nkind: Service\nmetadata: {name: cart, namespace: shop%s}\n"
_BLOCK = b"apiVersion: v1\nkind: Service\nmetadata:\n  name: cart\n"
_NO_CHARACTER = "malformed YAML: found an escape that is no character, or half of a surrogate pair"
_PACKED = gzip.compress(GOOD, mtime=0)
_LABEL_VALUE = "expected a label value: at most 63 letters, digits and inner '-', '_' or '.'"
_ZONE_LABEL = "metadata.labels[topology.kubernetes.io/zone]"
_INT32 = "expected an integer of 32 bits"
_PORT = "expected a port number from 0 to 65535"


def _nested(form: str) -> bytes:
    """Six lines, each of which has the one before it eight times."""
    return b"".join(
        f"a{level}: &a{level} {form % ', '.join([f'*a{level - 1}'] * 8)}\n".encode() for level in range(1, 7)
    )


_INPUTS: list[tuple[bytes, str]] = [
    (b"\0" * 99, "byte 0: expected YAML or JSON text, got 0x00"),
    (b"8\xff\x10", "byte 2: expected YAML or JSON text, got 0x10"),
    (b"kind: \x1b[31mred", "byte 6: expected YAML or JSON text, got 0x1b"),
    (b"# caf\xe9 au lait\n" + GOOD, "byte 5: expected UTF-8 text, got 0xe9"),
    (GOOD.decode().encode("utf-16-le")[:-1], "byte 182: expected UTF-16-LE text, got 0x7d"),
    (b"\xfe\xff\x00{\xdc\x00\x00}", "byte 4: expected UTF-16-BE text, got half of a surrogate pair"),
    (b"# \xed\xa0\x80\n" + GOOD, "byte 2: expected UTF-8 text, got half of a surrogate pair"),
    (GOOD.decode().encode("utf-32"), "expected UTF-8 or UTF-16 text, got UTF-32"),
    (_PACKED[:-9], "expected gzip data to its end, got it cut short"),
    (
        _PACKED[:2] + b"x" + _PACKED[3:],
        "expected gzip data, got it corrupt (Error -3 while decompressing data: unknown compression method)",
    ),
    (
        _PACKED[:-8] + bytes(4) + _PACKED[-4:],
        "expected gzip data, got it corrupt (Error -3 while decompressing data: incorrect data check)",
    ),
    (gzip.compress(GOOD + b" " * (80 << 20)), "expected gzip data of this size to unpack to at most 64 MiB, got more"),
    (b"\x1f\x8b\x08\x08" + bytes(6) + b"a" * 100_000, "expected gzip data to its end, got it cut short"),
    (gzip.compress(bytes(1 << 20)), "byte 0: expected YAML or JSON text, got 0x00"),
    (gzip.compress(b"#" * (1 << 17) + bytes(1 << 20)), "byte 131072: expected YAML or JSON text, got 0x00"),
    (b"y\ny\ny\n", "line 1: expected an object in YAML or JSON, got 'y'"),
    (b"# x\n---\n\ny\n", "line 4: expected an object in YAML or JSON, got 'y'"),
    (GOOD + b'\n{"kind": "Service"\n "spec": {}}', "document 2: line 3, column 2: malformed JSON: expected ',' or '}'"),
    (GOOD + b", " + GOOD, "document 2: line 1, column 93: malformed JSON: trailing characters"),
    (GOOD + b"\n[1]", "document 2: [0]: expected a mapping, got 1"),
    (_YAML % b"" + b"---\nhello\n", "document 2: expected a mapping, got 'hello'"),
    (
        b"\n".join((GOOD, GOOD, service('{"ports":[{"port":"http"}]}'))),
        "document 3: Service shop/cart: spec.ports[0].port: expected an integer, got 'http'",
    ),
]
"""Input and its error."""
_FIRST_DOCUMENTS: list[tuple[bytes, str]] = [
    (b"# x\n" * 20_000 + b"a: caf\xe9\n", "line 20001, column 7: malformed YAML: incomplete UTF-8 octet sequence"),
    (b" " * 70_000 + GOOD.replace(b"cart", b"c\xe9rt"), "Service: expected UTF-8 text, got 0xe9"),
    (
        b" " * 70_000 + GOOD.replace(b"cart", b"c\xed\xb0\x80rt"),
        "Service: expected UTF-8 text, got half of a surrogate pair",
    ),
    (b"a: b\n" * 2000, "line 1001, column 1: malformed YAML: more than 1000 fields"),
    (GOOD[:-2] + b"\n", "line 2, column 1: malformed JSON: the document is cut short"),
    (b'{"a":' * 9999, "malformed JSON: too many levels"),
    (
        GOOD.replace(b"cart", rb"\\ud83d\ud83d\ude00\ud83d"),
        "line 1, column 76: malformed JSON: half of a surrogate pair",
    ),
    (
        b'{"apiVersion":"v1","kind":"List","items":[%s,%s]}'
        % (GOOD, service('{"ports":[{"port":1},{"port":2,"port":3}]}')),
        "items[1]: Service shop/cart: spec.ports[1].port: expected each key once, got it twice",
    ),
    (
        b'{"items":[%s],"apiVersion":"v1","kind":"List","items":[%s]}' % (GOOD, GOOD),
        "List: expected each field once, got one twice",
    ),
    (
        b'{"items":[\n%s,\n%s\n],"apiVersion":"v1","kind":"List","items":[\n%s,\n%s\n]}' % (GOOD, GOOD, GOOD, GOOD),
        "List: expected each field once, got one twice",
    ),
    (
        b'{"apiVersion": "v1", "items": [\n  %s,\n  %s\n ], "kind": "Table", "kind": "List"}' % (GOOD, GOOD),
        "List: expected each field once, got one twice",
    ),
    (
        b"kind: Service\nspec: a: b\n",
        "line 2, column 8: malformed YAML: mapping values are not allowed in this context",
    ),
    (b"# x\n" * 20_000 + b"a: \x01\n", "line 20001, column 4: malformed YAML: control characters are not allowed"),
    (b"metadata: {labels: " + b"[" * 9999, "line 1, column 118: malformed YAML: more than 100 levels"),
    (b"a: &a {}\nspec: *a\nb: " + b"[" * 9999, "line 3, column 103: malformed YAML: more than 100 levels"),
    (b"a: " + b"[" * 9999, "line 1, column 103: malformed YAML: more than 100 levels"),
    (b"kind: !Ref x\n", "line 1, column 7: malformed YAML: could not determine a constructor for the tag '!Ref'"),
    (_BLOCK + b'  uid: "\\ud83d"\n', f"line 5, column 11: {_NO_CHARACTER}"),
    (
        _BLOCK + b"  labels: {app: a, app: b}\n",
        "line 5, column 20: malformed YAML: expected each key once, got 'app' twice",
    ),
    (
        _BLOCK + b"  uid: &u u\n  generateName: *u\n  uid: v\n",
        "line 7, column 3: malformed YAML: expected each key once, got 'uid' twice",
    ),
    (
        b"apiVersion: v1\nkind: Service\nmetadata: &m\n  labels: *m\n",
        "line 4, column 11: malformed YAML: an alias refers to a value that contains it",
    ),
    (
        b"apiVersion: v1\nkind: Service\nmetadata: &m\n  <<: *m\n",
        "line 4, column 7: malformed YAML: an alias refers to a value that contains it",
    ),
    (
        b"a0: &a0 {k: v}\n" + _nested("{<<: [%s]}") + _BLOCK + b"  labels: {<<: *a6}\n",
        "line 6, column 40: malformed YAML: aliases expand to more than 100,000 values",
    ),
    (
        b"a0: &a0 []\n" + _nested("[%s]") + b"apiVersion: v1\nkind: List\nitems: *a6\n",
        "line 7, column 15: malformed YAML: aliases expand to more than 100,000 values",
    ),
    (
        b"a0: &a0 {apiVersion: v1, kind: List, items: []}\n"
        + _nested("{apiVersion: v1, kind: List, items: [%s]}")
        + b"apiVersion: v1\nkind: List\nitems: [*a6]\n",
        "line 6, column 51: malformed YAML: aliases expand to more than 100,000 values",
    ),
    (
        b"# x\n" + b"".join(b"%%TAG !a%d! tag:x\n" % tag for tag in range(101)) + b"---\n" + GOOD,
        "line 1, column 1: malformed YAML: more than 100 %TAG directives",
    ),
    (b"[" + GOOD + b", 7]", "[1]: expected a mapping, got 7"),
    (b"apiVersion: v1\n", "kind: expected a kind such as Service, got nothing"),
    (b"kind: Service\n", "apiVersion: expected a version such as v1, got nothing"),
    (b'{"kind": ["Service"]}', "kind: expected a string, got a list"),
    (b"apiVersion: 1\nkind: Service\n", "apiVersion: expected a string, got 1 without quotes"),
    (
        b'{"apiVersion":"v1","kind":"List","items":[%s,{}]}' % GOOD,
        "items[1]: kind: expected a kind such as Service, got nothing",
    ),
    (
        b"apiVersion: v1\nkind: List\nitems:\n- {apiVersion: v1, kind: NodeList, items: [{metadata: {name: n1}}, 7]}\n",
        "items[0].items[1]: expected a mapping, got 7",
    ),
    (
        _YAML % b", labels: {app: cart, shop/tier: 5}",
        "Service shop/cart: metadata.labels[shop/tier]: expected a string, got 5 without quotes",
    ),
    (
        _YAML % b", labels: {5: five}",
        "Service shop/cart: metadata.labels: expected keys that are strings, got 5 without quotes",
    ),
    (
        service('{"ports":[{"port":%s}]}' % ("9" * 5000)),
        "Service: spec.ports[0].port: expected an integer of 32 bits, got a very large number",
    ),
    (
        service('{"x":%s,"ports":[{"port":"http"}]}' % ("9" * 5000)),
        "Service: spec.ports[0].port: expected an integer, got a string",
    ),
    (
        service("{}", metadata='{"generateName":"cart-"}'),
        "Service without name: metadata.name: expected a name, got nothing",
    ),
    (service("{}", metadata='{"name":""}'), "Service without name: metadata.name: expected a name, got nothing"),
    (
        node('{"allocatable":{"cpu":"4 cores"}}'),
        "Node n1: status.allocatable.cpu: expected a quantity such as 4, 3920m, 3.92 or 1e3, got '4 cores'",
    ),
    (
        node('{"allocatable":{"cpu":-1}}'),
        "Node n1: status.allocatable.cpu: expected a quantity that is not negative, got -1",
    ),
    (
        node("{}", labels='{"topology.kubernetes.io/zone":"zone a"}'),
        f"Node n1: {_ZONE_LABEL}: {_LABEL_VALUE}, got 'zone a'",
    ),
    (
        slice_('"addressType":"IPv6","endpoints":[{"hints":{"forZones":[{"name":"a"},{"name":"b,c"}]}}]'),
        f"EndpointSlice shop/cart-1: endpoints[0].hints.forZones[1].name: {_LABEL_VALUE}, got 'b,c'",
    ),
    (slice_('"addressType":"ipv4"'), "EndpointSlice shop/cart-1: addressType: expected IPv4, IPv6 or FQDN, got 'ipv4'"),
    (
        slice_('"addressType":"FQDN","ports":[{"name":"all"},{"port":2147483648}]'),
        "EndpointSlice shop/cart-1: ports[1].port: expected an integer of 32 bits, got 2147483648",
    ),
    (
        pod('{"containers":[{},{"ports":[{"containerPort":70000}]}]}'),
        f"Pod shop/cart-x: spec.containers[1].ports[0].containerPort: {_PORT}, got 70000",
    ),
]
"""Errors of the first document."""
_SPECS: list[tuple[str, str]] = [
    ('{"selector":{"app":"a","tier":"b","app":"c"}}', "spec.selector.app: expected each key once, got it twice"),
    ("[]", "spec: expected a mapping, got a list"),
    ('{"ports":[{"targetPort":true}]}', "spec.ports[0].targetPort: expected an integer or a string, got true"),
    ('{"ports":[{"port":80.5}]}', "spec.ports[0].port: expected an integer, got 80.5"),
    ('{"ports":[null]}', "spec.ports[0]: expected a mapping, got null"),
    ('{"ports":[{"port":65536}]}', f"spec.ports[0].port: {_PORT}, got 65536"),
    (
        '{"ports":[{"port":80,"targetPort":"http"},{"port":81,"targetPort":-1}]}',
        f"spec.ports[1].targetPort: {_PORT}, got -1",
    ),
    (
        '{"ports":[{"port":80,"nodePort":%s}]}' % ("9" * 100),
        f"spec.ports[0].nodePort: {_INT32}, got a very large number",
    ),
]
"""Errors of the spec of a Service."""

BAD_INPUTS = [
    *_INPUTS,
    *((data, f"document 1: {line}") for data, line in _FIRST_DOCUMENTS),
    *((service(spec), f"document 1: Service shop/cart: {line}") for spec, line in _SPECS),
]
