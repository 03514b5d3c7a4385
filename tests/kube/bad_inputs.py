"""Every way in which input can be wrong, each with one example and the line that tells it."""

import gzip


def service(spec: str, *, metadata: str = '{"name":"cart","namespace":"shop"}') -> bytes:
    return f'{{"apiVersion":"v1","kind":"Service","metadata":{metadata},"spec":{spec}}}'.encode()


def node(status: str, *, labels: str = "{}") -> bytes:
    head = f'{{"apiVersion":"v1","kind":"Node","metadata":{{"name":"n1","labels":{labels}}}'
    return f'{head},"status":{status}}}'.encode()


def slice_(fields: str) -> bytes:
    head = '{"apiVersion":"discovery.k8s.io/v1","kind":"EndpointSlice","metadata":{"name":"cart-1","namespace":"shop"}'
    return f"{head},{fields}}}".encode()


def pod(spec: str) -> bytes:
    metadata = '{"name":"cart-x","namespace":"shop"}'
    return f'{{"apiVersion":"v1","kind":"Pod","metadata":{metadata},"spec":{spec}}}'.encode()


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
        f"a{number}: &a{number} {form % ', '.join([f'*a{number - 1}'] * 8)}\n".encode() for number in range(1, 7)
    )


BAD_INPUTS: dict[str, tuple[bytes, str]] = {
    "zero bytes": (b"\0" * 99, "byte 0: expected YAML or JSON text, got 0x00"),
    "random bytes": (b"8\xff\x10", "byte 2: expected YAML or JSON text, got 0x10"),
    "control character": (b"kind: \x1b[31mred", "byte 6: expected YAML or JSON text, got 0x1b"),
    "not utf8": (b"# caf\xe9 au lait\n" + GOOD, "byte 5: expected UTF-8 text, got 0xe9"),
    "not utf8 later": (
        b"# x\n" * 20_000 + b"a: caf\xe9\n",
        "document 1: line 20001, column 7: malformed YAML: incomplete UTF-8 octet sequence",
    ),
    "not utf8 in json": (
        b" " * 70_000 + GOOD.replace(b"cart", b"c\xe9rt"),
        "document 1: Service: expected UTF-8 text, got 0xe9",
    ),
    "not utf8 in kind": (
        b" " * 70_000 + GOOD.replace(b"Service", b"S\xe9rvice"),
        "document 1: expected UTF-8 text, got 0xe9",
    ),
    "utf16 cut short": (
        GOOD.decode().encode("utf-16-le")[:-1],
        "byte 182: expected UTF-16-LE text, got 0x7d",
    ),
    "utf16 broken": (
        b"\xfe\xff\x00{\xdc\x00\x00}",
        "byte 4: expected UTF-16-BE text, got half of a surrogate pair",
    ),
    "utf8 half a pair": (b"# \xed\xa0\x80\n" + GOOD, "byte 2: expected UTF-8 text, got half of a surrogate pair"),
    "utf8 half a pair in json": (
        b" " * 70_000 + GOOD.replace(b"cart", b"c\xed\xb0\x80rt"),
        "document 1: Service: expected UTF-8 text, got half of a surrogate pair",
    ),
    "utf32": (GOOD.decode().encode("utf-32"), "expected UTF-8 or UTF-16 text, got UTF-32"),
    "utf32 without mark": (GOOD.decode().encode("utf-32-be"), "expected UTF-8 or UTF-16 text, got UTF-32"),
    "gzip cut short": (_PACKED[:-9], "expected gzip data to its end, got it cut short"),
    "gzip broken at start": (
        _PACKED[:2] + b"x" + _PACKED[3:],
        "expected gzip data, got it corrupt (Error -3 while decompressing data: unknown compression method)",
    ),
    "gzip broken later": (
        _PACKED + b"junk",
        "expected gzip data, got it corrupt (Error -3 while decompressing data: incorrect header check)",
    ),
    "gzip wrong sum": (
        _PACKED[:-8] + bytes(4) + _PACKED[-4:],
        "expected gzip data, got it corrupt (Error -3 while decompressing data: incorrect data check)",
    ),
    "gzip of spaces": (
        gzip.compress(GOOD + b" " * (80 << 20)),
        "expected gzip data of this size to unpack to at most 64 MiB, got more",
    ),
    "gzip without end of name": (
        b"\x1f\x8b\x08\x08" + bytes(6) + b"a" * 100_000,
        "expected gzip data to its end, got it cut short",
    ),
    "gzip of zeros": (gzip.compress(bytes(1 << 20)), "byte 0: expected YAML or JSON text, got 0x00"),
    "gzip of zeros later": (
        gzip.compress(b"#" * (1 << 17) + bytes(1 << 20)),
        "byte 131072: expected YAML or JSON text, got 0x00",
    ),
    "plain text": (b"y\ny\ny\n", "line 1: expected an object in YAML or JSON, got 'y'"),
    "plain text after mark": (b"# x\n---\n\ny\n", "line 4: expected an object in YAML or JSON, got 'y'"),
    "plain list": (b"- y\n- y\n", "line 1: expected an object in YAML or JSON, got '- y'"),
    "web page": (b"\n<!DOCTYPE html>\n", "line 2: expected an object in YAML or JSON, got '<!DOCTYPE html>'"),
    "key value lines": (
        b"a: b\n" * 2000,
        "document 1: line 1001, column 1: malformed YAML: more than 1000 fields",
    ),
    "json cut short": (
        GOOD[:-2] + b"\n",
        "document 1: line 2, column 1: malformed JSON: the document is cut short",
    ),
    "json malformed": (
        GOOD + b'\n{"kind": "Service"\n "spec": {}}',
        "document 2: line 3, column 2: malformed JSON: expected ',' or '}'",
    ),
    "json trailing": (GOOD + b", " + GOOD, "document 2: line 1, column 93: malformed JSON: trailing characters"),
    "json too deep": (b'{"a":' * 9999, "document 1: malformed JSON: too many levels"),
    "json half a pair": (
        GOOD.replace(b"cart", rb"\\ud83d\ud83d\ude00\ud83d"),
        "document 1: line 1, column 76: malformed JSON: half of a surrogate pair",
    ),
    "json other half of a pair": (
        GOOD.replace(b"cart", rb"\udc00"),
        "document 1: line 1, column 57: malformed JSON: half of a surrogate pair",
    ),
    "json key twice": (
        service('{"selector":{"app":"a","tier":"b","app":"c"}}'),
        "document 1: Service shop/cart: spec.selector.app: expected each key once, got it twice",
    ),
    "json key twice in list": (
        b'{"apiVersion":"v1","kind":"List","items":[%s,%s]}'
        % (GOOD, service('{"ports":[{"port":1},{"port":2,"port":3}]}')),
        "document 1: items[1]: Service shop/cart: spec.ports[1].port: expected each key once, got it twice",
    ),
    "json key twice beside escape": (
        service('{"type":"a","type":"b","externalName":"\\u003a"}'),
        "document 1: Service shop/cart: spec.type: expected each key once, got it twice",
    ),
    "json key twice beside null": (
        service('{"ports":[{"name":null}],"type":"a","type":"b"}'),
        "document 1: Service shop/cart: spec.type: expected each key once, got it twice",
    ),
    "json items twice": (
        b'{"items":[%s],"apiVersion":"v1","kind":"List","items":[%s]}' % (GOOD, GOOD),
        "document 1: List: expected each field once, got one twice",
    ),
    "json after good one": (GOOD + b"\n[1]", "document 2: [0]: expected a mapping, got 1"),
    "yaml malformed": (
        b"kind: Service\nspec: a: b\n",
        "document 1: line 2, column 8: malformed YAML: mapping values are not allowed in this context",
    ),
    "yaml malformed later": (
        _YAML % b"" + b"---\n" + _YAML % b"" + b"spec: [\n",
        "document 2: line 9, column 1: malformed YAML: did not find expected node content",
    ),
    "yaml tab": (
        b"kind: Service\nspec:\n\tports: []\n",
        "document 1: line 3, column 1: malformed YAML: found character that cannot start any token",
    ),
    "yaml control character": (
        b"# x\n" * 20_000 + b"a: \x01\n",
        "document 1: line 20001, column 4: malformed YAML: control characters are not allowed",
    ),
    "yaml too deep": (
        b"metadata: {labels: " + b"[" * 9999,
        "document 1: line 1, column 118: malformed YAML: more than 100 levels",
    ),
    "yaml too deep beside alias": (
        b"a: &a {}\nspec: *a\nb: " + b"[" * 9999,
        "document 1: line 3, column 103: malformed YAML: more than 100 levels",
    ),
    "yaml skipped too deep": (
        b"a: " + b"[" * 9999,
        "document 1: line 1, column 103: malformed YAML: more than 100 levels",
    ),
    "yaml unknown alias": (
        _YAML % b"" + b"---\nkind: *x\n",
        "document 2: line 5, column 7: malformed YAML: found undefined alias",
    ),
    "yaml unknown tag": (
        b"kind: !Ref x\n",
        "document 1: line 1, column 7: malformed YAML: could not determine a constructor for the tag '!Ref'",
    ),
    "yaml half a pair": (
        _BLOCK + b'  uid: "\\ud83d"\n',
        f"document 1: line 5, column 11: {_NO_CHARACTER}",
    ),
    "yaml key twice": (
        _BLOCK + b"  labels: {app: a, app: b}\n",
        "document 1: line 5, column 20: malformed YAML: expected each key once, got 'app' twice",
    ),
    "yaml key twice beside alias": (
        _BLOCK + b"  uid: &u u\n  generateName: *u\n  uid: v\n",
        "document 1: line 7, column 3: malformed YAML: expected each key once, got 'uid' twice",
    ),
    "yaml alias of itself": (
        b"apiVersion: v1\nkind: Service\nmetadata: &m\n  labels: *m\n",
        "document 1: line 4, column 11: malformed YAML: an alias stands in what it stands for",
    ),
    "yaml merge of itself": (
        b"apiVersion: v1\nkind: Service\nmetadata: &m\n  <<: *m\n",
        "document 1: line 4, column 7: malformed YAML: an alias stands in what it stands for",
    ),
    "yaml merges explode": (
        b"a0: &a0 {k: v}\n" + _nested("{<<: [%s]}") + _BLOCK + b"  labels: {<<: *a6}\n",
        "document 1: line 6, column 40: malformed YAML: aliases stand for more than 100,000 values",
    ),
    "yaml aliases explode": (
        b"a0: &a0 []\n" + _nested("[%s]") + b"apiVersion: v1\nkind: List\nitems: *a6\n",
        "document 1: line 7, column 15: malformed YAML: aliases stand for more than 100,000 values",
    ),
    "yaml lists explode": (
        b"a0: &a0 {apiVersion: v1, kind: List, items: []}\n"
        + _nested("{apiVersion: v1, kind: List, items: [%s]}")
        + b"apiVersion: v1\nkind: List\nitems: [*a6]\n",
        "document 1: line 6, column 51: malformed YAML: aliases stand for more than 100,000 values",
    ),
    "yaml many tag directives": (
        b"# x\n" + b"".join(b"%%TAG !a%d! tag:x\n" % number for number in range(101)) + b"---\n" + GOOD,
        "document 1: line 1, column 1: malformed YAML: more than 100 %TAG directives",
    ),
    "yaml after json": (
        GOOD + b"\n---\n# x\nkind: [\n",
        "document 2: line 5, column 1: malformed YAML: did not find expected node content",
    ),
    "no mapping": (_YAML % b"" + b"---\nhello\n", "document 2: expected a mapping, got 'hello'"),
    "no mapping in array": (b"[" + GOOD + b", 7]", "document 1: [1]: expected a mapping, got 7"),
    "no mapping in yaml array": (
        b"- kind: A\n  apiVersion: v1\n- y\n",
        "document 1: [1]: expected a mapping, got 'y'",
    ),
    "no mapping in list": (
        b"kind: List\napiVersion: v1\nitems:\n- null\n",
        "document 1: items[0]: expected a mapping, got null",
    ),
    "no kind": (b"apiVersion: v1\n", "document 1: kind: expected a kind such as Service, got nothing"),
    "no api version": (b"kind: Service\n", "document 1: apiVersion: expected a version such as v1, got nothing"),
    "kind no string": (b'{"kind": ["Service"]}', "document 1: kind: expected a string, got a list"),
    "api version no string": (
        b"apiVersion: 1\nkind: Service\n",
        "document 1: apiVersion: expected a string, got 1 without quotes",
    ),
    "items no list": (
        b'{"apiVersion":"v1","kind":"List","items":{}}',
        "document 1: List: items: expected a list, got a mapping",
    ),
    "items of known list no list": (
        b"apiVersion: v1\nkind: PodList\nitems: none\n",
        "document 1: PodList: items: expected a list, got 'none'",
    ),
    "item without kind": (
        b'{"apiVersion":"v1","kind":"List","items":[%s,{}]}' % GOOD,
        "document 1: items[1]: kind: expected a kind such as Service, got nothing",
    ),
    "item of nested list": (
        b"apiVersion: v1\nkind: List\nitems:\n- {apiVersion: v1, kind: NodeList, items: [{metadata: {name: n1}}, 7]}\n",
        "document 1: items[0].items[1]: expected a mapping, got 7",
    ),
    "wrong type": (
        b"\n".join((GOOD, GOOD, service('{"ports":[{"port":"http"}]}'))),
        "document 3: Service shop/cart: spec.ports[0].port: expected an integer, got 'http'",
    ),
    "wrong type in yaml": (
        _YAML % b"" + b"spec:\n  ports:\n  - port: 80\n  - port: http\n",
        "document 1: Service shop/cart: spec.ports[1].port: expected an integer, got 'http'",
    ),
    "wrong type no mapping": (
        service("[]"),
        "document 1: Service shop/cart: spec: expected a mapping, got a list",
    ),
    "wrong type no list": (
        service('{"ports":{"port":80}}', metadata='{"name":"cart"}'),
        "document 1: Service default/cart: spec.ports: expected a list, got a mapping",
    ),
    "wrong type of several": (
        service('{"ports":[{"targetPort":true}]}'),
        "document 1: Service shop/cart: spec.ports[0].targetPort: expected an integer or a string, got true",
    ),
    "fraction": (
        service('{"ports":[{"port":80.5}]}'),
        "document 1: Service shop/cart: spec.ports[0].port: expected an integer, got 80.5",
    ),
    "null in list": (
        service('{"ports":[null]}'),
        "document 1: Service shop/cart: spec.ports[0]: expected a mapping, got null",
    ),
    "null for label": (
        _YAML % b", labels: {tier: }",
        "document 1: Service shop/cart: metadata.labels[tier]: expected a string, got null",
    ),
    "number for label": (
        _YAML % b", labels: {app: cart, shop/tier: 5}",
        "document 1: Service shop/cart: metadata.labels[shop/tier]: expected a string, got 5 without quotes",
    ),
    "number for label in list": (
        b"items:\n- apiVersion: v1\n  kind: Pod\n  metadata: {name: x, labels: {v: 1.5}}\nkind: List\napiVersion: v1\n",
        "document 1: items[0]: Pod default/x: metadata.labels[v]: expected a string, got 1.5 without quotes",
    ),
    "switch for label": (
        _YAML % b", labels: {canary: on}",
        "document 1: Service shop/cart: metadata.labels[canary]: expected a string, got true without quotes",
    ),
    "number as key": (
        _YAML % b", labels: {5: five}",
        "document 1: Service shop/cart: metadata.labels: expected keys that are strings, got 5 without quotes",
    ),
    "number of many digits": (
        service('{"ports":[{"port":%s}]}' % ("9" * 5000)),
        "document 1: Service: spec.ports[0].port: expected a number in range, got a very large number",
    ),
    "number of many digits elsewhere": (
        service('{"x":%s,"ports":[{"port":"http"}]}' % ("9" * 5000)),
        "document 1: Service: spec.ports[0].port: expected an integer, got a string",
    ),
    "service without name": (
        service("{}", metadata='{"generateName":"cart-"}'),
        "document 1: Service without name: metadata.name: expected a name, got nothing",
    ),
    "node without name": (
        b"apiVersion: v1\nkind: Node\n",
        "document 1: Node without name: metadata.name: expected a name, got nothing",
    ),
    "pod without name": (
        b"apiVersion: v1\nkind: Pod\nmetadata:\n",
        "document 1: Pod without name: metadata.name: expected a name, got nothing",
    ),
    "slice without name": (
        b'{"apiVersion":"discovery.k8s.io/v1","kind":"EndpointSlice","metadata":{"name":null}}',
        "document 1: EndpointSlice without name: metadata.name: expected a name, got nothing",
    ),
    "empty name": (
        service("{}", metadata='{"name":""}'),
        "document 1: Service without name: metadata.name: expected a name, got nothing",
    ),
    "cpu no quantity": (
        node('{"allocatable":{"cpu":"4 cores"}}'),
        "document 1: Node n1: status.allocatable.cpu: expected a quantity such as 4, 3920m, 3.92 or 1e3, got '4 cores'",
    ),
    "cpu negative": (
        node('{"allocatable":{"cpu":-1}}'),
        "document 1: Node n1: status.allocatable.cpu: expected a quantity that is not negative, got -1",
    ),
    "cpu no number": (
        b"apiVersion: v1\nkind: Node\nmetadata: {name: n1}\nstatus: {allocatable: {cpu: .nan}}\n",
        "document 1: Node n1: status.allocatable.cpu: expected a quantity such as 4, 3920m, 3.92 or 1e3, got nan",
    ),
    "zone of node": (
        node("{}", labels='{"topology.kubernetes.io/zone":"zone a"}'),
        f"document 1: Node n1: {_ZONE_LABEL}: {_LABEL_VALUE}, got 'zone a'",
    ),
    "zone of node too long": (
        node("{}", labels='{"topology.kubernetes.io/zone":"%s"}' % ("z" * 64)),
        f"document 1: Node n1: {_ZONE_LABEL}: {_LABEL_VALUE}, got '{'z' * 29}…{'z' * 30}'",
    ),
    "zone of hint": (
        slice_('"addressType":"IPv6","endpoints":[{"hints":{"forZones":[{"name":"a"},{"name":"b,c"}]}}]'),
        f"document 1: EndpointSlice shop/cart-1: endpoints[0].hints.forZones[1].name: {_LABEL_VALUE}, got 'b,c'",
    ),
    "address type": (
        slice_('"addressType":"ipv4"'),
        "document 1: EndpointSlice shop/cart-1: addressType: expected IPv4, IPv6 or FQDN, got 'ipv4'",
    ),
    "address type missing": (
        slice_('"endpoints":[]'),
        "document 1: EndpointSlice shop/cart-1: addressType: expected IPv4, IPv6 or FQDN, got nothing",
    ),
    "port of service": (
        service('{"ports":[{"port":65536}]}'),
        f"document 1: Service shop/cart: spec.ports[0].port: {_PORT}, got 65536",
    ),
    "target port of service": (
        service('{"ports":[{"port":80,"targetPort":"http"},{"port":81,"targetPort":-1}]}'),
        f"document 1: Service shop/cart: spec.ports[1].targetPort: {_PORT}, got -1",
    ),
    "node port of service": (
        service('{"ports":[{"port":80,"nodePort":%s}]}' % ("9" * 100)),
        f"document 1: Service shop/cart: spec.ports[0].nodePort: {_INT32}, got a very large number",
    ),
    "port of slice": (
        slice_('"addressType":"FQDN","ports":[{"name":"all"},{"port":2147483648}]'),
        "document 1: EndpointSlice shop/cart-1: ports[1].port: expected an integer of 32 bits, got 2147483648",
    ),
    "generation": (
        service("{}", metadata='{"name":"cart","generation":-9223372036854775809}'),
        (
            "document 1: Service default/cart: metadata.generation: expected an integer of 64 bits, got"
            " -9223372036854775809"
        ),
    ),
    "port of container": (
        pod('{"containers":[{},{"ports":[{"containerPort":70000}]}]}'),
        f"document 1: Pod shop/cart-x: spec.containers[1].ports[0].containerPort: {_PORT}, got 70000",
    ),
    "port of init container": (
        pod('{"initContainers":[{"ports":[{"containerPort":80},{"containerPort":-1}]}]}'),
        f"document 1: Pod shop/cart-x: spec.initContainers[0].ports[1].containerPort: {_PORT}, got -1",
    ),
}
