"""Wrong usage of every command: one line that points, exit status 2, nothing on standard output.

`simulate` has its own table, which is complete: ``test_simulate_usage.py``.
"""

import shlex
from typing import Final

import pytest
from tests.cli.running import MEASURED, Commands

WRONG: Final[dict[str, str]] = {
    # any command
    "plna": "no such command 'plna' (did you mean 'plan'?); zoneward --help lists them",
    "frobnicate": "no such command 'frobnicate'; zoneward --help lists them",
    "plan --kubeconfig missing": "missing: expected a kubeconfig file, got none",
    "plan --sample -f x": "-f and --sample: expected one of them, got both",
    "plan --sample -o xml": "Invalid value for '-o'",
    "plan --sample -o jsn": "'html' (did you mean 'json'?)",
    "plan --sample --color alwys": "(did you mean 'always'?)",
    "plan --sample --what-if PreferSameZon": "got 'PreferSameZon' (did you mean 'PreferSameZone'?)",
    "compare --sample --only local,balancd": "got 'balancd' (did you mean 'Balanced'?)",
    "plan cluster.yaml": "got 'cluster.yaml'; to read this file: -f cluster.yaml",
    "plan shop/CLUSTER.json.gz -n shop": "to read this file: -f shop/CLUSTER.json.gz",
    "snapshot /": "got '/'; to read this file: -f /",
    "plan --sample --what-if auto-zone": "Invalid value for '--what-if'",
    "plan --sample --compat downstream": "Invalid value for '--compat'",
    "plan --sample --frobnicate": "No such option",
    "route --sample": "Missing option '--node'",
    "completion tcsh": "Invalid value for",
    "compare --sample --top -1": "--top",
    "plan --sample --proxy kube-proxy-2": "--proxy & values, got 'kube-proxy-2'",
    # clusters and nodes
    "plan --sample --context x": (
        "zoneward: --context: expected neither -f nor --sample with it: they replace the cluster"
    ),
    "plan --sample --kubeconfig x": (
        "zoneward: --kubeconfig: expected neither -f nor --sample with it: they replace the cluster"
    ),
    "plan --sample --as x": "zoneward: --as: expected neither -f nor --sample with it: they replace the cluster",
    "plan --context a --context b": "--context: expected one, got 2: advise, check and report take several",
    "advise 2 --context a --context b": (
        "--context: expected no number, no --diff, and -o text, json or yaml with several"
    ),
    "advise -o html --context a --context b": (
        "--context: expected no number, no --diff, and -o text, json or yaml with several"
    ),
    "check -o sarif --context a --context b": "--context: expected -o table or json with several",
    "check --sample --context a --context b": "--context: expected neither -f nor --sample with it",
    "route --sample --node worker-z9": (
        "--node: expected one of the 24 Nodes in the snapshot (control-a1, worker-a1, worker-a2 and 21"
        " more), got 'worker-z9' (did you mean 'worker-a1', 'worker-a2' or 'worker-a3'?)"
    ),
    # explain
    "explain --sample": "SERVICE: expected the name of one Service, got none",
    "explain --sample cart checkout": "SERVICE: expected the name of one Service, got 2",
    "explain --sample crat": "Service crat",
    "explain --sample shop/nothing": "Service shop/nothing",
    # advise
    "advise --sample 99": "the number of an action: expected 1 to 5, got 99",
    "advise --sample 1 2": "expected the number of one action, got 2",
    "advise --sample -o patches": "-o patches and --to DIRECTORY: expected both or none",
    "advise --sample --to x": "-o patches and --to DIRECTORY: expected both or none",
    "advise --sample --what-if Auto": "No such option '--what-if'",
    "advise --sample shop/nobody": "Service shop/nobody: expected one of the 16 selected Services",
    # report
    "report --sample --measured MEASURED --price-per-gb 0.01": (
        "--price-per-gb: expected a price and its currency, such as 0.01USD, got '0.01'"
    ),
    "report --sample --measured MEASURED --price-per-gb '0.01\x1b[31mUSD'": "--price-per-gb: expected",
    "report --sample --measured MEASURED --charge twice": "Invalid value for '--charge'",
    "report --sample --measured MEASURED --only locl": "did you mean 'local'",
    "report --sample --measured MEASURED --without-zone eu-central-1a": "No such option '--without-zone'",
    "report --sample --measured MEASURED -o yaml": "Invalid value for '-o'",
    "report --sample --measured MEASURED --compat upstream --demand even": (
        "--demand: expected none with --compat upstream: Kubernetes"
    ),
    # check
    "check --sample --ignore ZW1001": "expected a code such as ZW101, got 'ZW1001' (did you mean 'ZW101'",
    "check --sample --ignore zw101": "got 'zw101' (did you mean 'ZW101'?)",
    "check --sample --ignore ''": "expected a code such as ZW101, got ''",
    "check --sample --ignore ZW101:": "expected CODE:NAMESPACE/SERVICE, got 'ZW101:'",
    "check --sample --ignore ZW101:cart": "expected CODE:NAMESPACE/SERVICE",
    "check --sample --ignore ZW101:shop/": "expected CODE:NAMESPACE/SERVICE",
    "check --sample --ignore ZW101:shop/cart/x": "expected CODE:NAMESPACE/SERVICE",
    "check --sample --ignore '\x1b[2J'": "expected a code such as ZW101",
    # options that change the input
    "plan --sample --without-zone eu-central-1": "--without-zone & 3 zones & did you mean 'eu-central-1a'",
    "plan --sample --without-node worker-a": "--without-node & 24 Nodes & did you mean 'worker-a1'",
    "plan --sample --replicas shop/crt=3": "--replicas & 16 Services & did you mean 'shop/cart'",
    "plan --sample --replicas crt=3": "--replicas & did you mean 'cart'",
    "plan --sample --replicas shop/cart=-3": "from 0 to 150000 & 'shop/cart=-3'",
    "plan --sample --replicas shop/cart=150001": "from 0 to 150000",
    f"plan --sample --replicas shop/cart={'9' * 5000}": "from 0 to 150000",
    "plan --sample --replicas shop/cart=\u0663": "from 0 to 150000",
    "plan --sample --replicas shop/cart": "[NAMESPACE/]SERVICE=N",
    "plan --sample --replicas a/b/c=1": "[NAMESPACE/]SERVICE=N",
    "plan --sample --replicas /cart=1": "[NAMESPACE/]SERVICE=N",
    "plan --sample --replicas cart=1 --replicas shop/cart=2": "expected one number & cart=1 and shop/cart=2",
    "plan --sample --replicas shop/mail=3": "Service shop/mail & ExternalName",
    "plan --sample --add-pods shop/cart=eu-central-1a:0": "from 1 to 150000",
    "plan --sample --add-pods shop/cart=3": "[NAMESPACE/]SERVICE=ZONE:N",
    "plan --sample --add-pods shop/cart=:3": "[NAMESPACE/]SERVICE=ZONE:N",
    "plan --sample --add-pods shop/cart=eu-central-1d:3": "--add-pods & 3 zones & did you mean",
    "plan --sample --add-pods cart=eu-central-1a:1 --without-zone eu-central-1a": "--add-pods & 2 zones",
    "plan --sample --without-zone '\x1b[31m'": "--without-zone & \\x1b[31m",
    "plan --sample --without-zone eu-central-1a --without-zone eu-central-1b --without-zone eu-central-1c": (
        "at least one Node"
    ),
    "plan --sample --replicas cart=3 -o yaml": "--replicas & expected -o table, wide, json or html",
    "plan --sample --add-pods cart=eu-central-1a:1 -o slices-json": (
        "--add-pods & expected -o table, wide, json or html"
    ),
    "route --sample --node worker-b1 --as-is --without-zone eu-central-1a": (
        "--without-zone: expected no --as-is with it"
    ),
    "route --sample --node worker-b1 --as-is --what-if Auto": "--what-if: expected no --as-is with it",
    # options that choose what is shown
    "plan --sample --top all": "not a valid integer.",
    "plan --sample --top 3 -o yaml": "--sort, --top, --changed: & -o table, wide, json or html & no --watch",
    # --watch
    "plan --watch --without-node worker-b1": "--without-node: expected no --watch with it",
    "plan -w --sample": "--watch: expected neither -f nor --sample with it, got --sample: only a live cluster can be",
    "plan -w -f x.json": "--watch: expected neither -f nor --sample with it, got -f: only a live cluster can be",
    "plan -w -o yaml": "--watch: expected one of table, wide, json for -o, got 'yaml'",
    # --measured
    "plan --sample --measured prometheus": (
        "--measured: expected demand.prometheus in the file of --config with it, or the URL of one"
    ),
    "plan --sample --measured http://[1": "--measured: expected http://HOST[:PORT] or https://HOST[:PORT]",
    "plan --sample --measured http://[1/measured": "expected an answer, got",
    "plan --sample --measured prometheus+ftp://x": (
        "--measured: after prometheus+ expected http://HOST[:PORT] or https://HOST[:PORT]"
    ),
    "plan --sample --measured prometheus+http://127.0.0.1:1": "http://127.0.0.1:1: no connection: connect call failed",
    "plan --sample --measured prometheus+http://127.0.0.1:1 --window 1s": (
        "--window: expected a duration from 1m to 720h, got '1s'"
    ),
    "plan --sample --measured http://127.0.0.1:1/measured --window 1h": (
        "--window: expected --measured prometheus or the URL of a Prometheus with it"
    ),
    "explain --sample shop/search --measured prometheus": "--measured: expected demand.prometheus",
    "report --sample --measured prometheus": "--measured: expected demand.prometheus",
    "plan --sample --measured MEASURED --watch": "--measured: expected",
    "plan --sample --measured MEASURED -o yaml": "--measured: expected",
    "plan --sample --measured MEASURED -o slices-json": "--measured: expected",
    # the overlay
    "plan --sample --with overlay --compat upstream": "--compat upstream and --with: expected one",
    "plan --sample -o overlay --compat upstream": "--compat upstream and -o overlay: expected one",
    "plan --sample --with mesh": "Invalid value for '--with'",
    "release": "expected [NAMESPACE/]SERVICE, or --overlay",
    "release shop/cart --overlay": "--overlay: expected no Service, got 'shop/cart'",
    "release shop/cart --scale-down a/b": "--scale-down: expected --overlay with it",
    # controller
    "controller": "expected one of --overlay, --only-marked and --take-over, or `controller.mode` in --config",
    "controller --take-over --only-marked": "--only-marked and --take-over: expected one of them, got 2",
    "controller --only-marked --compat=upstream": (
        "--compat=upstream: expected the mode take-over, got only-marked, in which Zoneward's slices need a"
        " separate label"
    ),
    "controller --take-over -q -v": "-q and -v: expected one of them, got both",
    "controller --take-over --leader-elect-lease-duration=5s": (
        "--leader-elect-lease-duration: expected more than --leader-elect-renew-deadline (10 s), got 5 s"
    ),
    "controller --take-over --listen localhost": (
        "--listen: expected [HOST]:PORT (127.0.0.1:10271, or :10271 for all addresses), got 'localhost'"
    ),
    "controller --take-over --kubeconfig missing": "missing: expected a kubeconfig file, got none",
    # proxy
    "proxy": "--node",
    "proxy --node worker-a2 --print --dry-run": "--print & --dry-run",
    "proxy --node worker-a2 --print --cleanup": "--print & --cleanup",
    "proxy --node worker-a2 --sample": "--sample & --print",
    "proxy --node worker-a2 -f cluster.yaml": "-f & --print",
    "proxy --node worker-a2 -q -v": "-q & -v",
    "proxy --node nobody --sample --print": "--node & nobody & control-a1",
    "proxy --node worker-a2 --frobnicate": "--frobnicate",
    "proxy --node worker-a2 --sample --print --cluster-cidr 10.0.0.300/8": "--cluster-cidr & 10.0.0.300/8",
    "proxy --node worker-a2 --sample --print --cluster-cidr 10.0.0.0/8,11.0.0.0/8": "--cluster-cidr & 11.",
    "proxy --node worker-a2 --sample --print --cluster-cidr 10.0.0.0/8 --pod-interface-prefix veth": (
        "--cluster-cidr & --pod-interface-prefix"
    ),
    "proxy --node worker-a2 --sample --print --masquerade-bit 32": "--masquerade-bit & 32",
    "proxy --node worker-a2 --sample --print --nodeport-addresses eth0": "--nodeport-addresses & eth0",
    "proxy --node worker-a2 --sample --print --service-cidr 10.96": "--service-cidr & 10.96",
    "proxy --node worker-a2 --sample --print --audit-period 1s": "--audit-period & 10s & 1s",
    "proxy --node worker-a2 --sample --print --max-service-entries 0": "--max-service-entries & at least 1",
    "proxy --node worker-a2 --sample --print --max-namespace-entries 0": "--max-namespace-entries",
    "proxy --node worker-a2 --sample --print --max-entries 0": "--max-entries & at least 1",
    "proxy --node worker-a2 --sample --print --service-cidr fe80::%x/64": "--service-cidr & fe80::%x/64",
    "proxy --node worker-a2 --sample --print --pod-interface-prefix 'a\" }'": '--pod-interface-prefix & a" }',
    "proxy --node worker-a2 --sample --print --pod-interface-prefix aaaaaaaaaaaaaaaa": "--pod-interface-prefix",
    "proxy --node worker-a2 --sample --print --audit-period soon": "--audit-period & soon",
    "proxy --node worker-a2 --sample --print --listen nowhere": "--listen & nowhere",
    "proxy --node worker-a2 --sample --print --healthz-listen ::1": "--healthz-listen & ::1",
    "proxy --node worker-a2 --log-format xml": "--log-format & xml",
    "proxy --node worker-a2 --kubeconfig nowhere.yaml": "nowhere.yaml",
    "proxy --node worker-a2 --config nowhere.yaml": "nowhere.yaml",
    # meter
    "meter": "--node",
    "meter --node n1 --dump-period 1s": "--dump-period & 2s to 5m & 1s",
    "meter --node n1 --dump-period 1h": "--dump-period & 3600s",
    "meter --node n1 --dump-period soon": "--dump-period & soon",
    "meter --node n1 --max-series 0": "--max-series & at least 1",
    "meter --node n1 --listen nowhere": "--listen & nowhere",
    "meter --node n1 --kubeconfig nowhere.yaml": "nowhere.yaml",
    "meter --node n1 --config nowhere.yaml": "nowhere.yaml",
}
"""The line has all parts between `` & ``."""


@pytest.mark.parametrize("command", WRONG)
def test_wrong_usage_is_one_line_that_points(zoneward: Commands, command: str) -> None:
    line = zoneward.refused(*shlex.split(command.replace("MEASURED", str(MEASURED))))
    assert [part for part in WRONG[command].split(" & ") if part not in line] == []
