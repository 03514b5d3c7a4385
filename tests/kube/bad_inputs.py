"""Every way in which input can be wrong, each with one example and the line that tells it."""

import gzip
from enum import Enum, auto


class Badness(Enum):
    # Bytes.
    ZERO_BYTES = auto()
    RANDOM_BYTES = auto()
    CONTROL_CHARACTER = auto()
    NOT_UTF8 = auto()
    NOT_UTF8_LATER = auto()
    NOT_UTF8_IN_JSON = auto()
    NOT_UTF8_IN_KIND = auto()
    UTF16_CUT_SHORT = auto()
    UTF16_BROKEN = auto()
    UTF8_HALF_A_PAIR = auto()
    UTF8_HALF_A_PAIR_IN_JSON = auto()
    UTF32 = auto()
    UTF32_WITHOUT_MARK = auto()
    GZIP_CUT_SHORT = auto()
    GZIP_BROKEN_AT_START = auto()
    GZIP_BROKEN_LATER = auto()
    GZIP_WRONG_SUM = auto()
    GZIP_OF_SPACES = auto()
    GZIP_WITHOUT_END_OF_NAME = auto()
    GZIP_OF_ZEROS = auto()
    GZIP_OF_ZEROS_LATER = auto()
    # Text.
    PLAIN_TEXT = auto()
    PLAIN_TEXT_AFTER_MARK = auto()
    PLAIN_LIST = auto()
    WEB_PAGE = auto()
    KEY_VALUE_LINES = auto()
    JSON_CUT_SHORT = auto()
    JSON_MALFORMED = auto()
    JSON_TRAILING = auto()
    JSON_TOO_DEEP = auto()
    JSON_HALF_A_PAIR = auto()
    JSON_OTHER_HALF_OF_A_PAIR = auto()
    JSON_KEY_TWICE = auto()
    JSON_KEY_TWICE_IN_LIST = auto()
    JSON_KEY_TWICE_BESIDE_ESCAPE = auto()
    JSON_KEY_TWICE_BESIDE_NULL = auto()
    JSON_ITEMS_TWICE = auto()
    JSON_AFTER_GOOD_ONE = auto()
    YAML_MALFORMED = auto()
    YAML_MALFORMED_LATER = auto()
    YAML_TAB = auto()
    YAML_CONTROL_CHARACTER = auto()
    YAML_TOO_DEEP = auto()
    YAML_TOO_DEEP_BESIDE_ALIAS = auto()
    YAML_SKIPPED_TOO_DEEP = auto()
    YAML_UNKNOWN_ALIAS = auto()
    YAML_UNKNOWN_TAG = auto()
    YAML_HALF_A_PAIR = auto()
    YAML_KEY_TWICE = auto()
    YAML_KEY_TWICE_BESIDE_ALIAS = auto()
    YAML_ALIAS_OF_ITSELF = auto()
    YAML_MERGE_OF_ITSELF = auto()
    YAML_MERGES_EXPLODE = auto()
    YAML_ALIASES_EXPLODE = auto()
    YAML_LISTS_EXPLODE = auto()
    YAML_MANY_TAG_DIRECTIVES = auto()
    YAML_AFTER_JSON = auto()
    # Documents.
    NO_MAPPING = auto()
    NO_MAPPING_IN_ARRAY = auto()
    NO_MAPPING_IN_YAML_ARRAY = auto()
    NO_MAPPING_IN_LIST = auto()
    NO_KIND = auto()
    NO_API_VERSION = auto()
    KIND_NO_STRING = auto()
    API_VERSION_NO_STRING = auto()
    ITEMS_NO_LIST = auto()
    ITEMS_OF_KNOWN_LIST_NO_LIST = auto()
    ITEM_WITHOUT_KIND = auto()
    ITEM_OF_NESTED_LIST = auto()
    # Fields of the wrong type.
    WRONG_TYPE = auto()
    WRONG_TYPE_IN_YAML = auto()
    WRONG_TYPE_NO_MAPPING = auto()
    WRONG_TYPE_NO_LIST = auto()
    WRONG_TYPE_OF_SEVERAL = auto()
    FRACTION = auto()
    NULL_IN_LIST = auto()
    NULL_FOR_LABEL = auto()
    NUMBER_FOR_LABEL = auto()
    NUMBER_FOR_LABEL_IN_LIST = auto()
    SWITCH_FOR_LABEL = auto()
    NUMBER_AS_KEY = auto()
    NUMBER_OF_MANY_DIGITS = auto()
    NUMBER_OF_MANY_DIGITS_ELSEWHERE = auto()
    # Values that cannot be.
    SERVICE_WITHOUT_NAME = auto()
    NODE_WITHOUT_NAME = auto()
    POD_WITHOUT_NAME = auto()
    SLICE_WITHOUT_NAME = auto()
    EMPTY_NAME = auto()
    CPU_NO_QUANTITY = auto()
    CPU_NEGATIVE = auto()
    CPU_NO_NUMBER = auto()
    ZONE_OF_NODE = auto()
    ZONE_OF_NODE_TOO_LONG = auto()
    ZONE_OF_HINT = auto()
    ADDRESS_TYPE = auto()
    ADDRESS_TYPE_MISSING = auto()
    PORT_OF_SERVICE = auto()
    TARGET_PORT_OF_SERVICE = auto()
    NODE_PORT_OF_SERVICE = auto()
    PORT_OF_SLICE = auto()
    GENERATION = auto()
    PORT_OF_CONTAINER = auto()
    PORT_OF_INIT_CONTAINER = auto()


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


BAD_INPUTS: dict[Badness, tuple[bytes, str]] = {
    Badness.ZERO_BYTES: (b"\0" * 99, "byte 0: expected YAML or JSON text, got 0x00"),
    Badness.RANDOM_BYTES: (b"8\xff\x10", "byte 2: expected YAML or JSON text, got 0x10"),
    Badness.CONTROL_CHARACTER: (b"kind: \x1b[31mred", "byte 6: expected YAML or JSON text, got 0x1b"),
    Badness.NOT_UTF8: (b"# caf\xe9 au lait\n" + GOOD, "byte 5: expected UTF-8 text, got 0xe9"),
    Badness.NOT_UTF8_LATER: (
        b"# x\n" * 20_000 + b"a: caf\xe9\n",
        "document 1: line 20001, column 7: malformed YAML: incomplete UTF-8 octet sequence",
    ),
    Badness.NOT_UTF8_IN_JSON: (
        b" " * 70_000 + GOOD.replace(b"cart", b"c\xe9rt"),
        "document 1: Service: expected UTF-8 text, got 0xe9",
    ),
    Badness.NOT_UTF8_IN_KIND: (
        b" " * 70_000 + GOOD.replace(b"Service", b"S\xe9rvice"),
        "document 1: expected UTF-8 text, got 0xe9",
    ),
    Badness.UTF16_CUT_SHORT: (
        GOOD.decode().encode("utf-16-le")[:-1],
        "byte 182: expected UTF-16-LE text, got 0x7d",
    ),
    Badness.UTF16_BROKEN: (
        b"\xfe\xff\x00{\xdc\x00\x00}",
        "byte 4: expected UTF-16-BE text, got half of a surrogate pair",
    ),
    Badness.UTF8_HALF_A_PAIR: (b"# \xed\xa0\x80\n" + GOOD, "byte 2: expected UTF-8 text, got half of a surrogate pair"),
    Badness.UTF8_HALF_A_PAIR_IN_JSON: (
        b" " * 70_000 + GOOD.replace(b"cart", b"c\xed\xb0\x80rt"),
        "document 1: Service: expected UTF-8 text, got half of a surrogate pair",
    ),
    Badness.UTF32: (GOOD.decode().encode("utf-32"), "expected UTF-8 or UTF-16 text, got UTF-32"),
    Badness.UTF32_WITHOUT_MARK: (GOOD.decode().encode("utf-32-be"), "expected UTF-8 or UTF-16 text, got UTF-32"),
    Badness.GZIP_CUT_SHORT: (_PACKED[:-9], "expected gzip data to its end, got it cut short"),
    Badness.GZIP_BROKEN_AT_START: (
        _PACKED[:2] + b"x" + _PACKED[3:],
        "expected gzip data, got it corrupt (Error -3 while decompressing data: unknown compression method)",
    ),
    Badness.GZIP_BROKEN_LATER: (
        _PACKED + b"junk",
        "expected gzip data, got it corrupt (Error -3 while decompressing data: incorrect header check)",
    ),
    Badness.GZIP_WRONG_SUM: (
        _PACKED[:-8] + bytes(4) + _PACKED[-4:],
        "expected gzip data, got it corrupt (Error -3 while decompressing data: incorrect data check)",
    ),
    Badness.GZIP_OF_SPACES: (
        gzip.compress(GOOD + b" " * (80 << 20)),
        "expected gzip data of this size to unpack to at most 64 MiB, got more",
    ),
    Badness.GZIP_WITHOUT_END_OF_NAME: (
        b"\x1f\x8b\x08\x08" + bytes(6) + b"a" * 100_000,
        "expected gzip data to its end, got it cut short",
    ),
    Badness.GZIP_OF_ZEROS: (gzip.compress(bytes(1 << 20)), "byte 0: expected YAML or JSON text, got 0x00"),
    Badness.GZIP_OF_ZEROS_LATER: (
        gzip.compress(b"#" * (1 << 17) + bytes(1 << 20)),
        "byte 131072: expected YAML or JSON text, got 0x00",
    ),
    Badness.PLAIN_TEXT: (b"y\ny\ny\n", "line 1: expected an object in YAML or JSON, got 'y'"),
    Badness.PLAIN_TEXT_AFTER_MARK: (b"# x\n---\n\ny\n", "line 4: expected an object in YAML or JSON, got 'y'"),
    Badness.PLAIN_LIST: (b"- y\n- y\n", "line 1: expected an object in YAML or JSON, got '- y'"),
    Badness.WEB_PAGE: (b"\n<!DOCTYPE html>\n", "line 2: expected an object in YAML or JSON, got '<!DOCTYPE html>'"),
    Badness.KEY_VALUE_LINES: (
        b"a: b\n" * 2000,
        "document 1: line 1001, column 1: malformed YAML: more than 1000 fields",
    ),
    Badness.JSON_CUT_SHORT: (
        GOOD[:-2] + b"\n",
        "document 1: line 2, column 1: malformed JSON: the document is cut short",
    ),
    Badness.JSON_MALFORMED: (
        GOOD + b'\n{"kind": "Service"\n "spec": {}}',
        "document 2: line 3, column 2: malformed JSON: expected ',' or '}'",
    ),
    Badness.JSON_TRAILING: (GOOD + b", " + GOOD, "document 2: line 1, column 93: malformed JSON: trailing characters"),
    Badness.JSON_TOO_DEEP: (b'{"a":' * 9999, "document 1: malformed JSON: too many levels"),
    Badness.JSON_HALF_A_PAIR: (
        GOOD.replace(b"cart", rb"\\ud83d\ud83d\ude00\ud83d"),
        "document 1: line 1, column 76: malformed JSON: half of a surrogate pair",
    ),
    Badness.JSON_OTHER_HALF_OF_A_PAIR: (
        GOOD.replace(b"cart", rb"\udc00"),
        "document 1: line 1, column 57: malformed JSON: half of a surrogate pair",
    ),
    Badness.JSON_KEY_TWICE: (
        service('{"selector":{"app":"a","tier":"b","app":"c"}}'),
        "document 1: Service shop/cart: spec.selector.app: expected each key once, got it twice",
    ),
    Badness.JSON_KEY_TWICE_IN_LIST: (
        b'{"apiVersion":"v1","kind":"List","items":[%s,%s]}'
        % (GOOD, service('{"ports":[{"port":1},{"port":2,"port":3}]}')),
        "document 1: items[1]: Service shop/cart: spec.ports[1].port: expected each key once, got it twice",
    ),
    Badness.JSON_KEY_TWICE_BESIDE_ESCAPE: (
        service('{"type":"a","type":"b","externalName":"\\u003a"}'),
        "document 1: Service shop/cart: spec.type: expected each key once, got it twice",
    ),
    Badness.JSON_KEY_TWICE_BESIDE_NULL: (
        service('{"ports":[{"name":null}],"type":"a","type":"b"}'),
        "document 1: Service shop/cart: spec.type: expected each key once, got it twice",
    ),
    Badness.JSON_ITEMS_TWICE: (
        b'{"items":[%s],"apiVersion":"v1","kind":"List","items":[%s]}' % (GOOD, GOOD),
        "document 1: List: expected each field once, got one twice",
    ),
    Badness.JSON_AFTER_GOOD_ONE: (GOOD + b"\n[1]", "document 2: [0]: expected a mapping, got 1"),
    Badness.YAML_MALFORMED: (
        b"kind: Service\nspec: a: b\n",
        "document 1: line 2, column 8: malformed YAML: mapping values are not allowed in this context",
    ),
    Badness.YAML_MALFORMED_LATER: (
        _YAML % b"" + b"---\n" + _YAML % b"" + b"spec: [\n",
        "document 2: line 9, column 1: malformed YAML: did not find expected node content",
    ),
    Badness.YAML_TAB: (
        b"kind: Service\nspec:\n\tports: []\n",
        "document 1: line 3, column 1: malformed YAML: found character that cannot start any token",
    ),
    Badness.YAML_CONTROL_CHARACTER: (
        b"# x\n" * 20_000 + b"a: \x01\n",
        "document 1: line 20001, column 4: malformed YAML: control characters are not allowed",
    ),
    Badness.YAML_TOO_DEEP: (
        b"metadata: {labels: " + b"[" * 9999,
        "document 1: line 1, column 118: malformed YAML: more than 100 levels",
    ),
    Badness.YAML_TOO_DEEP_BESIDE_ALIAS: (
        b"a: &a {}\nspec: *a\nb: " + b"[" * 9999,
        "document 1: line 3, column 103: malformed YAML: more than 100 levels",
    ),
    Badness.YAML_SKIPPED_TOO_DEEP: (
        b"a: " + b"[" * 9999,
        "document 1: line 1, column 103: malformed YAML: more than 100 levels",
    ),
    Badness.YAML_UNKNOWN_ALIAS: (
        _YAML % b"" + b"---\nkind: *x\n",
        "document 2: line 5, column 7: malformed YAML: found undefined alias",
    ),
    Badness.YAML_UNKNOWN_TAG: (
        b"kind: !Ref x\n",
        "document 1: line 1, column 7: malformed YAML: could not determine a constructor for the tag '!Ref'",
    ),
    Badness.YAML_HALF_A_PAIR: (
        _BLOCK + b'  uid: "\\ud83d"\n',
        f"document 1: line 5, column 11: {_NO_CHARACTER}",
    ),
    Badness.YAML_KEY_TWICE: (
        _BLOCK + b"  labels: {app: a, app: b}\n",
        "document 1: line 5, column 20: malformed YAML: expected each key once, got 'app' twice",
    ),
    Badness.YAML_KEY_TWICE_BESIDE_ALIAS: (
        _BLOCK + b"  uid: &u u\n  generateName: *u\n  uid: v\n",
        "document 1: line 7, column 3: malformed YAML: expected each key once, got 'uid' twice",
    ),
    Badness.YAML_ALIAS_OF_ITSELF: (
        b"apiVersion: v1\nkind: Service\nmetadata: &m\n  labels: *m\n",
        "document 1: line 4, column 11: malformed YAML: an alias stands in what it stands for",
    ),
    Badness.YAML_MERGE_OF_ITSELF: (
        b"apiVersion: v1\nkind: Service\nmetadata: &m\n  <<: *m\n",
        "document 1: line 4, column 7: malformed YAML: an alias stands in what it stands for",
    ),
    Badness.YAML_MERGES_EXPLODE: (
        b"a0: &a0 {k: v}\n" + _nested("{<<: [%s]}") + _BLOCK + b"  labels: {<<: *a6}\n",
        "document 1: line 6, column 40: malformed YAML: aliases stand for more than 100,000 values",
    ),
    Badness.YAML_ALIASES_EXPLODE: (
        b"a0: &a0 []\n" + _nested("[%s]") + b"apiVersion: v1\nkind: List\nitems: *a6\n",
        "document 1: line 7, column 15: malformed YAML: aliases stand for more than 100,000 values",
    ),
    Badness.YAML_LISTS_EXPLODE: (
        b"a0: &a0 {apiVersion: v1, kind: List, items: []}\n"
        + _nested("{apiVersion: v1, kind: List, items: [%s]}")
        + b"apiVersion: v1\nkind: List\nitems: [*a6]\n",
        "document 1: line 6, column 51: malformed YAML: aliases stand for more than 100,000 values",
    ),
    Badness.YAML_MANY_TAG_DIRECTIVES: (
        b"# x\n" + b"".join(b"%%TAG !a%d! tag:x\n" % number for number in range(101)) + b"---\n" + GOOD,
        "document 1: line 1, column 1: malformed YAML: more than 100 %TAG directives",
    ),
    Badness.YAML_AFTER_JSON: (
        GOOD + b"\n---\n# x\nkind: [\n",
        "document 2: line 5, column 1: malformed YAML: did not find expected node content",
    ),
    Badness.NO_MAPPING: (_YAML % b"" + b"---\nhello\n", "document 2: expected a mapping, got 'hello'"),
    Badness.NO_MAPPING_IN_ARRAY: (b"[" + GOOD + b", 7]", "document 1: [1]: expected a mapping, got 7"),
    Badness.NO_MAPPING_IN_YAML_ARRAY: (
        b"- kind: A\n  apiVersion: v1\n- y\n",
        "document 1: [1]: expected a mapping, got 'y'",
    ),
    Badness.NO_MAPPING_IN_LIST: (
        b"kind: List\napiVersion: v1\nitems:\n- null\n",
        "document 1: items[0]: expected a mapping, got null",
    ),
    Badness.NO_KIND: (b"apiVersion: v1\n", "document 1: kind: expected a kind such as Service, got nothing"),
    Badness.NO_API_VERSION: (b"kind: Service\n", "document 1: apiVersion: expected a version such as v1, got nothing"),
    Badness.KIND_NO_STRING: (b'{"kind": ["Service"]}', "document 1: kind: expected a string, got a list"),
    Badness.API_VERSION_NO_STRING: (
        b"apiVersion: 1\nkind: Service\n",
        "document 1: apiVersion: expected a string, got 1 without quotes",
    ),
    Badness.ITEMS_NO_LIST: (
        b'{"apiVersion":"v1","kind":"List","items":{}}',
        "document 1: List: items: expected a list, got a mapping",
    ),
    Badness.ITEMS_OF_KNOWN_LIST_NO_LIST: (
        b"apiVersion: v1\nkind: PodList\nitems: none\n",
        "document 1: PodList: items: expected a list, got 'none'",
    ),
    Badness.ITEM_WITHOUT_KIND: (
        b'{"apiVersion":"v1","kind":"List","items":[%s,{}]}' % GOOD,
        "document 1: items[1]: kind: expected a kind such as Service, got nothing",
    ),
    Badness.ITEM_OF_NESTED_LIST: (
        b"apiVersion: v1\nkind: List\nitems:\n- {apiVersion: v1, kind: NodeList, items: [{metadata: {name: n1}}, 7]}\n",
        "document 1: items[0].items[1]: expected a mapping, got 7",
    ),
    Badness.WRONG_TYPE: (
        b"\n".join((GOOD, GOOD, service('{"ports":[{"port":"http"}]}'))),
        "document 3: Service shop/cart: spec.ports[0].port: expected an integer, got 'http'",
    ),
    Badness.WRONG_TYPE_IN_YAML: (
        _YAML % b"" + b"spec:\n  ports:\n  - port: 80\n  - port: http\n",
        "document 1: Service shop/cart: spec.ports[1].port: expected an integer, got 'http'",
    ),
    Badness.WRONG_TYPE_NO_MAPPING: (
        service("[]"),
        "document 1: Service shop/cart: spec: expected a mapping, got a list",
    ),
    Badness.WRONG_TYPE_NO_LIST: (
        service('{"ports":{"port":80}}', metadata='{"name":"cart"}'),
        "document 1: Service default/cart: spec.ports: expected a list, got a mapping",
    ),
    Badness.WRONG_TYPE_OF_SEVERAL: (
        service('{"ports":[{"targetPort":true}]}'),
        "document 1: Service shop/cart: spec.ports[0].targetPort: expected an integer or a string, got true",
    ),
    Badness.FRACTION: (
        service('{"ports":[{"port":80.5}]}'),
        "document 1: Service shop/cart: spec.ports[0].port: expected an integer, got 80.5",
    ),
    Badness.NULL_IN_LIST: (
        service('{"ports":[null]}'),
        "document 1: Service shop/cart: spec.ports[0]: expected a mapping, got null",
    ),
    Badness.NULL_FOR_LABEL: (
        _YAML % b", labels: {tier: }",
        "document 1: Service shop/cart: metadata.labels[tier]: expected a string, got null",
    ),
    Badness.NUMBER_FOR_LABEL: (
        _YAML % b", labels: {app: cart, shop/tier: 5}",
        "document 1: Service shop/cart: metadata.labels[shop/tier]: expected a string, got 5 without quotes",
    ),
    Badness.NUMBER_FOR_LABEL_IN_LIST: (
        b"items:\n- apiVersion: v1\n  kind: Pod\n  metadata: {name: x, labels: {v: 1.5}}\nkind: List\napiVersion: v1\n",
        "document 1: items[0]: Pod default/x: metadata.labels[v]: expected a string, got 1.5 without quotes",
    ),
    Badness.SWITCH_FOR_LABEL: (
        _YAML % b", labels: {canary: on}",
        "document 1: Service shop/cart: metadata.labels[canary]: expected a string, got true without quotes",
    ),
    Badness.NUMBER_AS_KEY: (
        _YAML % b", labels: {5: five}",
        "document 1: Service shop/cart: metadata.labels: expected keys that are strings, got 5 without quotes",
    ),
    Badness.NUMBER_OF_MANY_DIGITS: (
        service('{"ports":[{"port":%s}]}' % ("9" * 5000)),
        "document 1: Service: spec.ports[0].port: expected a number in range, got a very large number",
    ),
    Badness.NUMBER_OF_MANY_DIGITS_ELSEWHERE: (
        service('{"x":%s,"ports":[{"port":"http"}]}' % ("9" * 5000)),
        "document 1: Service: spec.ports[0].port: expected an integer, got a string",
    ),
    Badness.SERVICE_WITHOUT_NAME: (
        service("{}", metadata='{"generateName":"cart-"}'),
        "document 1: Service without name: metadata.name: expected a name, got nothing",
    ),
    Badness.NODE_WITHOUT_NAME: (
        b"apiVersion: v1\nkind: Node\n",
        "document 1: Node without name: metadata.name: expected a name, got nothing",
    ),
    Badness.POD_WITHOUT_NAME: (
        b"apiVersion: v1\nkind: Pod\nmetadata:\n",
        "document 1: Pod without name: metadata.name: expected a name, got nothing",
    ),
    Badness.SLICE_WITHOUT_NAME: (
        b'{"apiVersion":"discovery.k8s.io/v1","kind":"EndpointSlice","metadata":{"name":null}}',
        "document 1: EndpointSlice without name: metadata.name: expected a name, got nothing",
    ),
    Badness.EMPTY_NAME: (
        service("{}", metadata='{"name":""}'),
        "document 1: Service without name: metadata.name: expected a name, got nothing",
    ),
    Badness.CPU_NO_QUANTITY: (
        node('{"allocatable":{"cpu":"4 cores"}}'),
        "document 1: Node n1: status.allocatable.cpu: expected a quantity such as 4, 3920m, 3.92 or 1e3, got '4 cores'",
    ),
    Badness.CPU_NEGATIVE: (
        node('{"allocatable":{"cpu":-1}}'),
        "document 1: Node n1: status.allocatable.cpu: expected a quantity that is not negative, got -1",
    ),
    Badness.CPU_NO_NUMBER: (
        b"apiVersion: v1\nkind: Node\nmetadata: {name: n1}\nstatus: {allocatable: {cpu: .nan}}\n",
        "document 1: Node n1: status.allocatable.cpu: expected a quantity such as 4, 3920m, 3.92 or 1e3, got nan",
    ),
    Badness.ZONE_OF_NODE: (
        node("{}", labels='{"topology.kubernetes.io/zone":"zone a"}'),
        f"document 1: Node n1: {_ZONE_LABEL}: {_LABEL_VALUE}, got 'zone a'",
    ),
    Badness.ZONE_OF_NODE_TOO_LONG: (
        node("{}", labels='{"topology.kubernetes.io/zone":"%s"}' % ("z" * 64)),
        f"document 1: Node n1: {_ZONE_LABEL}: {_LABEL_VALUE}, got '{'z' * 29}…{'z' * 30}'",
    ),
    Badness.ZONE_OF_HINT: (
        slice_('"addressType":"IPv6","endpoints":[{"hints":{"forZones":[{"name":"a"},{"name":"b,c"}]}}]'),
        f"document 1: EndpointSlice shop/cart-1: endpoints[0].hints.forZones[1].name: {_LABEL_VALUE}, got 'b,c'",
    ),
    Badness.ADDRESS_TYPE: (
        slice_('"addressType":"ipv4"'),
        "document 1: EndpointSlice shop/cart-1: addressType: expected IPv4, IPv6 or FQDN, got 'ipv4'",
    ),
    Badness.ADDRESS_TYPE_MISSING: (
        slice_('"endpoints":[]'),
        "document 1: EndpointSlice shop/cart-1: addressType: expected IPv4, IPv6 or FQDN, got nothing",
    ),
    Badness.PORT_OF_SERVICE: (
        service('{"ports":[{"port":65536}]}'),
        f"document 1: Service shop/cart: spec.ports[0].port: {_PORT}, got 65536",
    ),
    Badness.TARGET_PORT_OF_SERVICE: (
        service('{"ports":[{"port":80,"targetPort":"http"},{"port":81,"targetPort":-1}]}'),
        f"document 1: Service shop/cart: spec.ports[1].targetPort: {_PORT}, got -1",
    ),
    Badness.NODE_PORT_OF_SERVICE: (
        service('{"ports":[{"port":80,"nodePort":%s}]}' % ("9" * 100)),
        f"document 1: Service shop/cart: spec.ports[0].nodePort: {_INT32}, got a very large number",
    ),
    Badness.PORT_OF_SLICE: (
        slice_('"addressType":"FQDN","ports":[{"name":"all"},{"port":2147483648}]'),
        "document 1: EndpointSlice shop/cart-1: ports[1].port: expected an integer of 32 bits, got 2147483648",
    ),
    Badness.GENERATION: (
        service("{}", metadata='{"name":"cart","generation":-9223372036854775809}'),
        (
            "document 1: Service default/cart: metadata.generation: expected an integer of 64 bits, got"
            " -9223372036854775809"
        ),
    ),
    Badness.PORT_OF_CONTAINER: (
        pod('{"containers":[{},{"ports":[{"containerPort":70000}]}]}'),
        f"document 1: Pod shop/cart-x: spec.containers[1].ports[0].containerPort: {_PORT}, got 70000",
    ),
    Badness.PORT_OF_INIT_CONTAINER: (
        pod('{"initContainers":[{"ports":[{"containerPort":80},{"containerPort":-1}]}]}'),
        f"document 1: Pod shop/cart-x: spec.initContainers[0].ports[1].containerPort: {_PORT}, got -1",
    ),
}
