"""What the kubectl cases send."""

from typing import Final

NODES: Final = """\
apiVersion: v1
kind: Node
metadata:
  name: kubectl-a
  labels:
    topology.kubernetes.io/zone: a
    node-role.kubernetes.io/control-plane: ""
spec:
  podCIDR: 10.1.0.0/24
  podCIDRs: [10.1.0.0/24]
---
apiVersion: v1
kind: Node
metadata:
  name: kubectl-b
  labels: {topology.kubernetes.io/zone: b}
spec:
  unschedulable: true
  taints: [{key: example.com/taint, value: x, effect: NoSchedule}]
"""

NODE_STATUS: Final = (
    '{"status": {"conditions": [{"type": "Ready", "status": "True", "reason": "KubeletReady", "message": "fine",'
    ' "lastHeartbeatTime": "2026-01-02T03:04:05Z", "lastTransitionTime": "2026-01-02T03:04:05Z"}],'
    ' "addresses": [{"type": "InternalIP", "address": "192.0.2.10"}, {"type": "Hostname", "address": "kubectl-a"}],'
    ' "capacity": {"cpu": "4", "memory": "8Gi", "pods": "110"},'
    ' "allocatable": {"cpu": "3", "memory": "7Gi", "pods": "110"}}}'
)

SERVICES: Final = """\
apiVersion: v1
kind: Service
metadata:
  name: cart
  labels: {app: cart, tier: front}
spec:
  selector: {app: cart}
  ports:
  - {name: http, port: 80, targetPort: 8080}
  - {name: dns, port: 53, protocol: UDP}
---
apiVersion: v1
kind: Service
metadata:
  name: headless
  labels: {app: cart}
spec:
  clusterIP: None
  selector: {app: cart}
  ports: [{port: 80}]
---
apiVersion: v1
kind: Service
metadata:
  name: node-port
spec:
  type: NodePort
  ports: [{port: 80}]
---
apiVersion: v1
kind: Service
metadata:
  name: balanced
  annotations: {example.com/note: "a longer text: with a colon"}
spec:
  type: LoadBalancer
  sessionAffinity: ClientIP
  externalTrafficPolicy: Local
  ports: [{name: https, port: 443}]
  selector: {app: cart, tier: back}
---
apiVersion: v1
kind: Service
metadata:
  name: elsewhere
spec:
  type: ExternalName
  externalName: example.com
"""

PODS: Final = """\
apiVersion: v1
kind: Pod
metadata:
  name: cart-1
  labels: {app: cart}
spec:
  nodeName: kubectl-a
  initContainers:
  - {name: setup, image: "registry.example.com/setup:1"}
  containers:
  - name: main
    image: registry.example.com/cart:1
    args: [serve, --port=8080]
    ports: [{containerPort: 8080, name: http}]
    env: [{name: MODE, value: fast}, {name: ADDRESS, valueFrom: {fieldRef: {fieldPath: status.podIP}}}]
    resources: {requests: {cpu: 2, memory: 64Mi}, limits: {memory: 128Mi}}
    readinessProbe: {httpGet: {path: /ready, port: http}, periodSeconds: 5}
    volumeMounts: [{name: scratch, mountPath: /scratch}]
  - {name: side, image: registry.example.com/side:1}
  volumes: [{name: scratch, emptyDir: {}}]
  tolerations: [{key: example.com/taint, operator: Exists, effect: NoSchedule}]
---
apiVersion: v1
kind: Pod
metadata:
  name: cart-2
  labels: {app: cart, tier: back}
spec:
  terminationGracePeriodSeconds: 0
  containers: [{name: main, image: registry.example.com/cart:1}]
"""

POD_STATUS: Final = (
    '{"status": {"phase": "Running", "podIP": "10.1.2.3", "podIPs": [{"ip": "10.1.2.3"}], "hostIP": "192.0.2.10",'
    ' "startTime": "2026-01-02T03:04:05Z", "conditions": [{"type": "Ready", "status": "True"}],'
    ' "initContainerStatuses": [{"name": "setup", "ready": true, "restartCount": 0, "image": "s", "imageID": "",'
    ' "state": {"terminated": {"exitCode": 0, "reason": "Completed", "startedAt": "2026-01-02T03:04:05Z",'
    ' "finishedAt": "2026-01-02T03:04:06Z"}}}],'
    ' "containerStatuses": [{"name": "main", "ready": true, "restartCount": 2, "image": "c", "imageID": "d",'
    ' "containerID": "containerd://1", "started": true, "state": {"running": {"startedAt": "2026-01-02T03:04:07Z"}},'
    ' "lastState": {"terminated": {"exitCode": 1, "reason": "Error", "startedAt": "2026-01-02T03:04:05Z",'
    ' "finishedAt": "2026-01-02T03:04:06Z"}}},'
    ' {"name": "side", "ready": false, "restartCount": 0, "image": "c", "imageID": "",'
    ' "state": {"waiting": {"reason": "CrashLoopBackOff", "message": "back-off"}}}]}}'
)

SLICES: Final = """\
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata:
  name: cart-x
  labels: {kubernetes.io/service-name: cart}
addressType: IPv4
ports:
- {name: http, port: 8080}
- {name: dns, port: 53, protocol: UDP}
endpoints:
- addresses: [10.1.2.3]
  conditions: {ready: true, serving: true, terminating: false}
  nodeName: kubectl-a
  zone: a
  targetRef: {kind: Pod, name: cart-1}
  hints: {forZones: [{name: a}]}
- addresses: [10.1.2.4]
  conditions: {ready: false}
- addresses: [10.1.2.5]
- addresses: [10.1.2.6]
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata:
  name: empty
addressType: IPv6
ports: null
endpoints: []
"""

ENDPOINTS: Final = """\
apiVersion: v1
kind: Endpoints
metadata: {name: cart}
subsets:
- addresses: [{ip: 10.1.0.1}, {ip: 10.1.0.2}]
  notReadyAddresses: [{ip: 10.1.0.3}]
  ports: [{name: http, port: 8080}]
"""

LEASE: Final = """\
apiVersion: coordination.k8s.io/v1
kind: Lease
metadata:
  name: leader
spec:
  holderIdentity: me
  leaseDurationSeconds: 15
  acquireTime: "2026-01-02T03:04:05.000000Z"
  renewTime: "2026-01-02T03:04:06.000000Z"
"""

EVENTS: Final = """\
apiVersion: v1
kind: Event
metadata: {name: old}
involvedObject: {apiVersion: v1, kind: Pod, name: cart-1, namespace: NAMESPACE}
type: Warning
reason: BackOff
message: back-off restarting failed container
firstTimestamp: "2026-01-02T03:04:05Z"
lastTimestamp: "2026-01-02T03:05:05Z"
count: 4
source: {component: kubelet, host: kubectl-a}
---
apiVersion: events.k8s.io/v1
kind: Event
metadata: {name: new}
regarding: {apiVersion: v1, kind: Service, name: cart, namespace: NAMESPACE}
type: Normal
reason: Synced
action: Sync
note: all is well
eventTime: "2026-01-02T03:04:05.000000Z"
reportingController: example.com/controller
reportingInstance: controller-1
series: {count: 3, lastObservedTime: "2026-01-02T03:06:05.000000Z"}
"""

SHOP: Final = """\
apiVersion: v1
kind: Service
metadata:
  name: shop
  labels: {app: shop}
  annotations: {example.com/note: first}
spec:
  selector: {app: shop}
  ports: [{name: http, port: 80}]
"""
SHOP_CHANGED: Final = """\
apiVersion: v1
kind: Service
metadata:
  name: shop
  labels: {app: shop, tier: front}
spec:
  selector: {app: shop}
  ports: [{name: http, port: 80}, {name: https, port: 443}]
"""
SHOP_LATER: Final = SHOP_CHANGED.replace("port: 443", "port: 8443")
SHOP_WITH_MISTAKE: Final = SHOP.replace("selector:", "selektor:")

OWN: Final = """\
apiVersion: v1
kind: Service
metadata:
  name: own
spec:
  selector: {app: own}
  ports: [{name: http, port: 80, protocol: TCP}]
"""

INVALID_SERVICE: Final = """\
apiVersion: v1
kind: Service
metadata: {name: Wrong_Name}
spec:
  type: Nonsense
  sessionAffinity: Sometimes
  ports: [{name: a, port: 0}, {name: a, port: 70000, protocol: ICMP}]
"""
INVALID_SLICE: Final = """\
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: wrong}
addressType: IPv4
ports: [{name: a, port: 80}, {name: a, port: 81, protocol: X}]
endpoints: [{addresses: ["2001:db8::1"]}, {addresses: []}]
"""
INVALID_LEASE: Final = """\
apiVersion: coordination.k8s.io/v1
kind: Lease
metadata: {name: wrong}
spec: {leaseDurationSeconds: 0, leaseTransitions: -1}
"""
UNKNOWN_KIND: Final = """\
apiVersion: v1
kind: Servise
metadata: {name: x}
"""
NO_VERSION: Final = """\
kind: Service
metadata: {name: x}
"""
UNKNOWN_FIELD: Final = """\
apiVersion: v1
kind: Service
metadata: {name: unknown-field, label: {}}
spec: {ports: [{port: 80, prot: TCP}], selektor: {}}
"""
STALE: Final = """\
apiVersion: v1
kind: Service
metadata:
  name: shop
  resourceVersion: "1"
spec:
  ports: [{name: http, port: 80}]
"""
FRESH: Final = """\
apiVersion: v1
kind: Service
metadata:
  name: shop
  labels: {app: replaced}
spec:
  ports: [{name: http, port: 88}]
"""
NAMELESS: Final = """\
apiVersion: coordination.k8s.io/v1
kind: Lease
metadata: {}
"""
GENERATED: Final = """\
apiVersion: coordination.k8s.io/v1
kind: Lease
metadata: {generateName: made-, labels: {made: "yes"}}
spec: {holderIdentity: me}
"""
HELD: Final = """\
apiVersion: coordination.k8s.io/v1
kind: Lease
metadata: {name: held, finalizers: [example.com/hold]}
spec: {}
"""
LEASES: Final = """\
apiVersion: coordination.k8s.io/v1
kind: Lease
metadata: {name: a, labels: {group: x}}
spec: {holderIdentity: first}
---
apiVersion: coordination.k8s.io/v1
kind: Lease
metadata: {name: b, labels: {group: x}}
spec: {holderIdentity: second}
---
apiVersion: coordination.k8s.io/v1
kind: Lease
metadata: {name: c, labels: {group: z}}
spec: {holderIdentity: third}
"""
