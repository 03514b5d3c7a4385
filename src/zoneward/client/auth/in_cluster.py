"""Reads the configuration of a Pod for its cluster: the service account that the kubelet mounts."""

from collections.abc import Mapping
from pathlib import Path
from typing import Final

from zoneward.client.auth.client_config import ClientConfig, ClusterInfo, PemReference, UserInfo
from zoneward.kube.input_error import InputError
from zoneward.kube.input_files import read_regular

SERVICE_ACCOUNT: Final = "/var/run/secrets/kubernetes.io/serviceaccount"
_LONGEST: Final = 1 << 10
"""Bytes; the name of a namespace has 63."""


def in_cluster_config(*, environment: Mapping[str, str], directory: str = SERVICE_ACCOUNT) -> ClientConfig | None:
    """The configuration; None outside of a Pod, or in one without a service account. Raises InputError.

    The conditions are client-go's (``rest.InClusterConfig``): address and port in the environment, and a token file.
    """
    host = environment.get("KUBERNETES_SERVICE_HOST")
    port = environment.get("KUBERNETES_SERVICE_PORT")
    token, ca = Path(directory, "token"), Path(directory, "ca.crt")
    if not host or not port or not token.is_file():
        return None
    return ClientConfig(
        cluster=ClusterInfo(
            server=f"https://{f'[{host}]' if ':' in host else host}:{port}",
            # Without the file, the system's authorities are used, as in client-go.
            ca=PemReference("ca.crt", path=str(ca)) if ca.is_file() else None,
        ),
        user=UserInfo(name="service account", token_file=str(token)),
        namespace=environment.get("POD_NAMESPACE") or _namespace(Path(directory, "namespace")),
        context="in-cluster",
        source=directory,
        environment=environment,
    )


def _namespace(file: Path) -> str:
    try:
        return read_regular(file, most=_LONGEST).decode().strip() or "default"
    except FileNotFoundError:
        return "default"
    except (OSError, ValueError) as error:
        problem = error.strerror if isinstance(error, OSError) else error
        raise InputError(str(file), f"expected a readable file, got: {problem}") from None
