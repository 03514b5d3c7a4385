"""From options to the cluster that they name: who we are there, and which namespace is meant."""

import os
from typing import TYPE_CHECKING, Final

import click

from zoneward.cli.options import Note, Options, tell
from zoneward.kube.input_error import InputError

if TYPE_CHECKING:
    from zoneward.client.auth.client_config import ClientConfig


INSECURE: Final = (
    "the server's certificate is not checked (insecure-skip-tls-verify): whoever answers gets the credentials"
)


def access_for(options: Options) -> "tuple[ClientConfig, str | None]":
    """The cluster of the current or the named context, and the namespace that is read there; None: all.

    Raises InputError or a usage error.
    """
    from zoneward.client.auth.kubeconfig import load_client_config

    try:
        access = load_client_config(
            kubeconfig=options.kubeconfig,
            context=options.context,
            impersonate=options.impersonate,
            environment=os.environ,
        )
    except InputError as error:
        if options.kubeconfig or options.context:
            raise
        raise click.UsageError(f"{error}; or a snapshot with -f PATH or --sample") from error
    if access.cluster.insecure:
        tell(options, [Note(INSECURE)])
    return access, _namespace(options, access.namespace)


def _namespace(options: Options, usual: str) -> str | None:
    """The one that is read, or None for all: those of the named Services, else the usual one, as kubectl has it."""
    if options.all_namespaces or options.namespace is not None:
        return options.namespace
    named = {name.rpartition("/")[0] or usual for name in options.services} or {usual}
    return named.pop() if len(named) == 1 else None
