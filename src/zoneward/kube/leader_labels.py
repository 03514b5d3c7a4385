"""Labels by which operators of databases mark the Pod that leads."""

from collections.abc import Mapping
from typing import Final

LEADERS: Final = frozenset({"leader", "primary", "master"})
FOLLOWERS: Final = frozenset({"follower", "replica", "secondary", "slave", "standby"})
ROLE_LABELS: Final = frozenset(
    {
        "role",
        "spilo-role",
        "redis-role",
        "redisfailovers-role",
        "app.kubernetes.io/component",
        "cnpg.io/instanceRole",
        "k8s.mariadb.com/role",
        "kubeblocks.io/role",
        "kubedb.com/role",
        "mysql.oracle.com/cluster-role",
        "postgres-operator.crunchydata.com/role",
    }
)
"""Labels whose value is a role, in any case."""
ACTIVE_LABELS: Final = frozenset({"vault-active", "openbao-active"})
"""Labels that are ``true`` for the Pod that leads."""


def leader_label(labels: Mapping[str, str] | None) -> str | None:
    """The label that marks a Pod as the leader, such as ``role=master``; None without one."""
    for key, value in sorted((labels or {}).items()):
        if (key in ROLE_LABELS and value.lower() in LEADERS) or (key in ACTIVE_LABELS and value == "true"):
            return f"{key}={value}"
    return None


def follower_label(labels: Mapping[str, str] | None) -> str | None:
    """The label that marks a Pod as a follower, such as ``role=replica``; None without one."""
    for key, value in sorted((labels or {}).items()):
        if key in ROLE_LABELS and value.lower() in FOLLOWERS:
            return f"{key}={value}"
    return None
