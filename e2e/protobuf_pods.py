"""A pod that has nearly all fields, with all that another request has to set."""

from typing import Any, Final

Object = dict[str, Any]

TIME: Final = "2026-01-02T03:04:05Z"

_SELECTOR: Final = {
    "matchLabels": {"app": "cart"},
    "matchExpressions": [
        {"key": "app", "operator": "In", "values": ["a", "b"]},
        {"key": "app", "operator": "Exists"},
    ],
}
_TERM: Final = {
    "labelSelector": _SELECTOR,
    "namespaces": ["a", "b"],
    "namespaceSelector": {},
    "topologyKey": "topology.kubernetes.io/zone",
}
_NODE_TERM: Final = {
    "matchExpressions": [{"key": "a", "operator": "Gt", "values": ["5"]}],
    "matchFields": [{"key": "metadata.name", "operator": "In", "values": ["x"]}],
}
_RESOURCES: Final = {
    "requests": {"cpu": "1500m", "memory": "1Gi", "ephemeral-storage": "100M", "example.com/gpu": "2"},
    "limits": {"cpu": "2", "memory": "1536Mi", "example.com/gpu": "2"},
}
_SECURITY: Final = {
    "capabilities": {"add": ["NET_ADMIN"], "drop": ["ALL"]},
    "privileged": False,
    "seLinuxOptions": {"user": "u", "role": "r", "type": "t", "level": "s0:c1"},
    "runAsUser": 0,
    "runAsGroup": 2_147_483_647,
    "runAsNonRoot": False,
    "readOnlyRootFilesystem": True,
    "allowPrivilegeEscalation": True,
    "procMount": "Default",
    "seccompProfile": {"type": "Localhost", "localhostProfile": "a/b.json"},
    "appArmorProfile": {"type": "RuntimeDefault"},
}
_HTTP: Final = {
    "path": "/ready",
    "port": "http",
    "host": "example.org",
    "scheme": "HTTPS",
    "httpHeaders": [{"name": "X-A", "value": ""}],
}
_CONTAINER: Final = {
    "image": "main:1",
    "command": ["sh", "-c", ""],
    "args": ["--a=b"],
    "workingDir": "/tmp",
    "env": [
        {"name": "PLAIN", "value": "ä"},
        {"name": "EMPTY"},
        {"name": "FIELD", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}},
        {"name": "SIZE", "valueFrom": {"resourceFieldRef": {"resource": "limits.cpu", "divisor": "1m"}}},
        {"name": "ONE", "valueFrom": {"resourceFieldRef": {"containerName": "main", "resource": "limits.cpu"}}},
        {"name": "MAP", "valueFrom": {"configMapKeyRef": {"name": "m", "key": "k", "optional": False}}},
        {"name": "SECRET", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k", "optional": True}}},
    ],
    "envFrom": [{"prefix": "P_", "configMapRef": {"name": "m"}}, {"secretRef": {"name": "s", "optional": True}}],
    "resources": _RESOURCES,
    "securityContext": _SECURITY,
    "imagePullPolicy": "IfNotPresent",
    "terminationMessagePath": "/dev/end",
    "terminationMessagePolicy": "FallbackToLogsOnError",
    "stdin": True,
    "stdinOnce": True,
    "tty": True,
}
_PROBES: Final = {
    "livenessProbe": {"exec": {"command": ["true"]}, "initialDelaySeconds": 5, "terminationGracePeriodSeconds": 9},
    "readinessProbe": {"httpGet": _HTTP, "periodSeconds": 3, "successThreshold": 2, "failureThreshold": 7},
    "startupProbe": {"grpc": {"port": 8080, "service": ""}, "timeoutSeconds": 4},
    "lifecycle": {
        "postStart": {"tcpSocket": {"port": 8080, "host": "h"}},
        "preStop": {"sleep": {"seconds": 0}},
        "stopSignal": "SIGUSR1",
    },
}
_ITEMS: Final = [{"key": "k", "path": "p/q", "mode": 0o400}, {"key": "l", "path": "l"}]
_VOLUMES: Final[list[Object]] = [
    {"name": "empty", "emptyDir": {"medium": "Memory", "sizeLimit": "64Mi"}},
    {"name": "plain", "emptyDir": {}},
    {"name": "host", "hostPath": {"path": "/x", "type": "DirectoryOrCreate"}},
    {"name": "host-plain", "hostPath": {"path": "/x"}},
    {"name": "map", "configMap": {"name": "m", "items": _ITEMS, "defaultMode": 0o444, "optional": True}},
    {"name": "secret", "secret": {"secretName": "s", "items": _ITEMS, "optional": False}},
    {"name": "claim", "persistentVolumeClaim": {"claimName": "c", "readOnly": True}},
    {"name": "nfs", "nfs": {"server": "s", "path": "/p", "readOnly": True}},
    {
        "name": "iscsi",
        "iscsi": {"targetPortal": "10.0.0.1:3260", "iqn": "iqn.2001-04.com.example:s", "lun": 0, "portals": ["a"]},
    },
    {"name": "csi", "csi": {"driver": "d.example.org", "volumeAttributes": {"a": "b"}, "readOnly": False}},
    {"name": "image", "image": {"reference": "i:1", "pullPolicy": "Always"}},
    {"name": "scale", "scaleIO": {"gateway": "g", "system": "s", "secretRef": {"name": "s"}, "volumeName": "v"}},
    {"name": "rbd", "rbd": {"monitors": ["m"], "image": "i", "secretRef": {"name": "s"}}},
    {"name": "disk", "azureDisk": {"diskName": "d", "diskURI": "https://a/blob", "kind": "Dedicated"}},
    {
        "name": "ephemeral",
        "ephemeral": {
            "volumeClaimTemplate": {
                "metadata": {"labels": {"a": "b"}},
                "spec": {
                    "accessModes": ["ReadWriteOnce"],
                    "resources": {"requests": {"storage": "1Gi"}},
                    "storageClassName": "",
                    "selector": _SELECTOR,
                    "dataSourceRef": {"kind": "PersistentVolumeClaim", "name": "x"},
                },
            }
        },
    },
    {
        "name": "projected",
        "projected": {
            "defaultMode": 0,
            "sources": [
                {"serviceAccountToken": {"path": "token", "expirationSeconds": 3607, "audience": "a"}},
                {"configMap": {"name": "m", "items": _ITEMS}},
                {"secret": {"name": "s"}},
                {
                    "downwardAPI": {
                        "items": [
                            {"path": "a", "fieldRef": {"fieldPath": "metadata.labels"}, "mode": 0o400},
                            {
                                "path": "b",
                                "resourceFieldRef": {
                                    "containerName": "main",
                                    "resource": "limits.memory",
                                    "divisor": "1Mi",
                                },
                            },
                        ]
                    }
                },
            ],
        },
    },
]
POD_SPEC: Final = {
    "volumes": _VOLUMES,
    "initContainers": [{**_CONTAINER, "name": "first", "restartPolicy": "Always", **_PROBES}],
    "containers": [
        {
            **_CONTAINER,
            **_PROBES,
            "name": "main",
            "ports": [
                {"name": "http", "containerPort": 8080, "hostPort": 8080, "hostIP": "10.0.0.1"},
                {"containerPort": 53, "protocol": "UDP"},
            ],
            "volumeMounts": [
                {"name": "empty", "mountPath": "/a", "subPath": "x", "mountPropagation": "HostToContainer"},
                {"name": "plain", "mountPath": "/b", "readOnly": True, "subPathExpr": "$(PLAIN)"},
                {"name": "host", "mountPath": "/c", "readOnly": True, "recursiveReadOnly": "IfPossible"},
            ],
            "volumeDevices": [{"name": "claim", "devicePath": "/dev/x"}],
            "resizePolicy": [{"resourceName": "cpu", "restartPolicy": "NotRequired"}],
        },
        {"name": "plain", "image": "plain"},
    ],
    "restartPolicy": "Always",
    "terminationGracePeriodSeconds": 0,
    "activeDeadlineSeconds": 7_200,
    "dnsPolicy": "None",
    "dnsConfig": {"nameservers": ["10.0.0.10"], "searches": ["a.b"], "options": [{"name": "ndots", "value": "5"}]},
    "nodeSelector": {"a": "b", "c": ""},
    "serviceAccountName": "default",
    "automountServiceAccountToken": False,
    "shareProcessNamespace": True,
    "hostname": "cart-0",
    "subdomain": "cart",
    "setHostnameAsFQDN": False,
    "hostAliases": [{"ip": "10.0.0.1", "hostnames": ["a", "b"]}],
    "securityContext": {
        "fsGroup": 5,
        "supplementalGroups": [1, 2, 2_147_483_647],
        "supplementalGroupsPolicy": "Merge",
        "sysctls": [{"name": "kernel.shm_rmid_forced", "value": "0"}],
        "fsGroupChangePolicy": "OnRootMismatch",
        "runAsNonRoot": True,
        "seccompProfile": {"type": "Unconfined"},
    },
    "imagePullSecrets": [{"name": "a"}],
    "affinity": {
        "nodeAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [_NODE_TERM]},
            "preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 5, "preference": _NODE_TERM}],
        },
        "podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [{**_TERM, "matchLabelKeys": ["hash"]}]},
        "podAntiAffinity": {
            "preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 100, "podAffinityTerm": _TERM}]
        },
    },
    "tolerations": [
        {"operator": "Exists"},
        {"key": "a", "value": "b", "effect": "NoExecute", "tolerationSeconds": 0},
        {"key": "a", "effect": "NoExecute", "operator": "Exists", "tolerationSeconds": -1},
    ],
    "priority": 0,
    "enableServiceLinks": False,
    "readinessGates": [{"conditionType": "example.org/Ready"}],
    "schedulingGates": [{"name": "example.org/wait"}],
    "topologySpreadConstraints": [
        {
            "maxSkew": 1,
            "topologyKey": "topology.kubernetes.io/zone",
            "whenUnsatisfiable": "DoNotSchedule",
            "labelSelector": _SELECTOR,
            "minDomains": 2,
            "nodeAffinityPolicy": "Ignore",
            "nodeTaintsPolicy": "Honor",
            "matchLabelKeys": ["hash"],
        },
    ],
    "os": {"name": "linux"},
}
POD_STATUS: Final = {
    "phase": "Running",
    "observedGeneration": 1,
    "conditions": [
        {"type": "Ready", "status": "True", "lastTransitionTime": TIME, "lastProbeTime": None, "message": "m"},
        {"type": "example.org/Ready", "status": "False", "lastProbeTime": TIME, "reason": "R"},
    ],
    "message": "ü",
    "reason": "Because",
    "hostIP": "10.0.0.1",
    "hostIPs": [{"ip": "10.0.0.1"}, {"ip": "fd00::1"}],
    "podIP": "10.1.0.1",
    "podIPs": [{"ip": "10.1.0.1"}, {"ip": "fd00::2"}],
    "startTime": TIME,
    "qosClass": "Burstable",
    "containerStatuses": [
        {
            "name": "main",
            "image": "main:1",
            "imageID": "sha256:1",
            "containerID": "containerd://1",
            "ready": True,
            "started": True,
            "restartCount": 3,
            "state": {"running": {"startedAt": TIME}},
            "lastState": {
                "terminated": {
                    "exitCode": 137,
                    "signal": 9,
                    "reason": "OOMKilled",
                    "message": "m",
                    "startedAt": TIME,
                    "finishedAt": TIME,
                    "containerID": "containerd://0",
                }
            },
            "allocatedResources": {"cpu": "1500m"},
            "resources": _RESOURCES,
            "volumeMounts": [
                {"name": "host", "mountPath": "/c", "readOnly": True, "recursiveReadOnly": "Disabled"},
                {"name": "empty", "mountPath": "/a"},
            ],
            "user": {"linux": {"uid": 0, "gid": 0, "supplementalGroups": [0, 5]}},
        },
        {
            "name": "plain",
            "image": "",
            "imageID": "",
            "ready": False,
            "started": False,
            "restartCount": 0,
            "state": {"waiting": {"reason": "ImagePullBackOff", "message": "m"}},
        },
    ],
    "initContainerStatuses": [
        {
            "name": "first",
            "image": "i",
            "imageID": "i",
            "ready": True,
            "restartCount": 0,
            "state": {"terminated": {"exitCode": 0}},
        }
    ],
}
EPHEMERAL: Final = [
    {"name": "debug", "image": "debug", "targetContainerName": "main", "env": [{"name": "A"}]},
    {"name": "debug-plain", "image": "debug", "tty": True},
]
