"""kubeconfig files, merged as kubectl merges them, down to the one cluster and user that a context names."""

import os
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Final

from zoneward.client.auth.client_config import ClientConfig
from zoneward.client.auth.in_cluster import SERVICE_ACCOUNT, in_cluster_config
from zoneward.client.auth.kubeconfig_entries import parse_cluster, parse_user
from zoneward.kube.document_fields import DocumentFields
from zoneward.kube.input_error import InputError, show
from zoneward.kube.input_files import read_small
from zoneward.kube.malformed import MalformedText

_LARGEST: Final = 16 << 20
"""Bytes. Large companies have thousands of clusters in theirs; what is larger is another file."""
_SECTIONS: Final = {"contexts": "context", "clusters": "cluster", "users": "user"}


def load_client_config(
    *,
    kubeconfig: str | None = None,
    context: str | None = None,
    impersonate: str | None = None,
    environment: Mapping[str, str],
    service_account: str = SERVICE_ACCOUNT,
) -> ClientConfig:
    """The cluster and user of a context. Raises InputError with file, field, what was expected and what was there.

    ``kubeconfig``, ``context`` and ``impersonate`` are what kubectl calls ``--kubeconfig``, ``--context`` and ``--as``.
    Without ``kubeconfig`` the files of ``$KUBECONFIG`` count, else ``~/.kube/config``; those that do not exist are
    passed over. Without any context, the service account of the pod we run in.
    """
    files = [kubeconfig] if kubeconfig else _files(environment)
    merged = _Merged.of(files, must_exist=bool(kubeconfig))
    name = context or merged.current
    access = None
    if name:
        access = merged.access(name)
    elif not kubeconfig:
        access = in_cluster_config(environment=environment, directory=service_account)
    if access is None:
        source = os.pathsep.join(merged.read or files)
        raise InputError(source, "expected a current-context, or --context NAME, got none")
    user = access.user
    if impersonate:
        if not impersonate.isprintable():
            raise InputError("--as", f"expected the name of a user, got {show(impersonate)}")
        # kubectl, too, leaves groups, uid and extras of the file as they are.
        user = replace(user, impersonation=replace(user.impersonation, user=impersonate))
    return replace(access, user=user, environment=environment)


def _files(environment: Mapping[str, str]) -> list[str]:
    listed = environment.get("KUBECONFIG", "").split(os.pathsep)
    files = list(dict.fromkeys(file for file in listed if file))
    return files or [str(Path(environment.get("HOME", "/"), ".kube", "config"))]


class _Merged:
    """Entries of all files by section and name. Of entries with one name the first file's counts, whole."""

    def __init__(self) -> None:
        self.read: list[str] = []
        self.current = ""
        self._entries: dict[str, dict[str, DocumentFields]] = {section: {} for section in _SECTIONS}

    @classmethod
    def of(cls, files: list[str], *, must_exist: bool) -> "_Merged":
        merged = cls()
        for file in files:
            document = _document(file, must_exist=must_exist)
            if document is not None:
                merged._add(document)
        return merged

    def access(self, context: str) -> ClientConfig:
        """The access that a context gives, its ``environment`` still empty."""
        chosen = self._entry("contexts", context, asked_by=self.read[0] if self.read else "no kubeconfig file")
        cluster = self._named(chosen, "cluster", "clusters")
        user = self._named(chosen, "user", "users") if chosen.text("user") else None
        return ClientConfig(
            cluster=parse_cluster(cluster),
            user=parse_user(user or DocumentFields({}, source=chosen.source), name=chosen.text("user")),
            namespace=chosen.text("namespace") or "default",
            context=context,
            source=(user or chosen).source,
        )

    def _add(self, document: DocumentFields) -> None:
        self.read.append(document.source)
        kind = document.text("kind")
        if kind not in ("", "Config"):
            raise document.error("kind", "Config", show(kind))
        self.current = self.current or document.text("current-context")
        for section, inner in _SECTIONS.items():
            found: dict[str, DocumentFields] = {}
            for entry in document.items(section):
                name = entry.required("name")
                if name in found:
                    raise entry.error("name", f"a name of its own in {section}", show(name))
                found[name] = entry.inner(inner)
            self._entries[section] = found | self._entries[section]

    def _named(self, chosen: DocumentFields, field: str, section: str) -> DocumentFields:
        return self._entry(section, chosen.required(field, f"the name of a {field}"), asked_by=chosen)

    def _entry(self, section: str, name: str, *, asked_by: DocumentFields | str) -> DocumentFields:
        entries = self._entries[section]
        if name in entries:
            return entries[name]
        known = ", ".join(list(entries)[:5]) + (", ..." if len(entries) > 5 else "")
        expected = f"one of the {section} ({known or 'there are none'})"
        if isinstance(asked_by, DocumentFields):
            raise asked_by.error(_SECTIONS[section], expected, show(name))
        raise InputError(asked_by, "context", f"expected {expected}, got {show(name)}")


def _document(file: str, *, must_exist: bool) -> DocumentFields | None:
    """A file's one document; None for a file that need not exist and does not."""
    from zoneward.kube.yaml_documents import whole_documents

    try:
        data = read_small(file, most=_LARGEST)
    except FileNotFoundError:
        if not must_exist:
            return None
        raise InputError(file, "expected a kubeconfig file, got none") from None
    except (OSError, ValueError) as error:
        problem = error.strerror if isinstance(error, OSError) else error
        raise InputError(file, f"expected a readable file, got: {problem}") from None
    if len(data) > _LARGEST:
        raise InputError(file, "expected a kubeconfig, got more than 16 MiB")
    try:
        documents = whole_documents(data)
    except MalformedText as error:
        raise InputError(file, f"line {error.line}, column {error.column}", error.problem) from None
    if len(documents) > 1:
        raise InputError(file, f"expected one document, got {len(documents)}")
    return DocumentFields(documents[0] if documents else None, source=file)
