"""The forms of text that pods have besides those of `zoneward.kube.formats`, each with upstream's words."""

import re
from collections.abc import Iterator
from typing import Final

from zoneward.kube import formats

_PORT_NAME: Final = re.compile(r"[-a-z0-9]+", re.ASCII)
_CONFIG_KEY: Final = re.compile(r"[-._a-zA-Z0-9]+", re.ASCII)
_HEADER: Final = re.compile(r"[-A-Za-z0-9]+", re.ASCII)
_VARIABLE: Final = re.compile(r"[ -<>-~]+", re.ASCII)
_SEARCH: Final = r"_?[a-z0-9]([-_a-z0-9]*[a-z0-9])?(\._?[a-z0-9]([-_a-z0-9]*[a-z0-9])?)*"
_SUBSCRIPTED: Final = re.compile(r"([^[]+)\['(.*)'\]", re.DOTALL)


def port_number_problems(number: int) -> Iterator[str]:
    if not 1 <= number <= 65535:
        yield range_problem(1, 65535)


def port_name_problems(text: str) -> Iterator[str]:
    """The name of a port, as IANA has service names: up to 15 of letters, digits and dashes."""
    if formats.size(text) > 15:
        yield "must be no more than 15 characters"
    if not _PORT_NAME.fullmatch(text):
        yield "must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)"
    if not re.search("[a-z]", text):
        yield "must contain at least one letter (a-z)"
    if "--" in text:
        yield "must not contain consecutive hyphens"
    if text and "-" in (text[0], text[-1]):
        yield "must not begin or end with a hyphen"


def variable_problems(text: str) -> Iterator[str]:
    """An environment variable's name, or the prefix of several."""
    if not _VARIABLE.fullmatch(text):
        yield "a valid environment variable name must consist only of printable ASCII characters other than '='"


def config_key_problems(text: str) -> Iterator[str]:
    """A key of a ConfigMap or Secret."""
    if formats.size(text) > 253:
        yield "must be no more than 253 characters"
    if not _CONFIG_KEY.fullmatch(text):
        rule = "a valid config key must consist of alphanumeric characters, '-', '_' or '.'"
        examples = "'key.name',  or 'KEY_NAME',  or 'key-name'"
        yield f"{rule} (e.g. {examples}, regex used for validation is '[-._a-zA-Z0-9]+')"
    if text == ".":
        yield "must not be '.'"
    elif text == "..":
        yield "must not be '..'"
    elif text.startswith(".."):
        yield "must not start with '..'"


def header_problems(text: str) -> Iterator[str]:
    """The name of an HTTP header."""
    if not _HEADER.fullmatch(text):
        rule = "a valid HTTP header must consist of alphanumeric characters or '-'"
        yield f"{rule} (e.g. 'X-Header-Name', regex used for validation is '[-A-Za-z0-9]+')"


def search_domain_problems(text: str) -> Iterator[str]:
    """A domain of ``dnsConfig.searches``; underscores are allowed."""
    if formats.size(text) > 253:
        yield "must be no more than 253 characters"
    if not re.fullmatch(_SEARCH, text):
        rule = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '_', '-' or '.'"
        ends = "and must start and end with an alphanumeric character"
        yield f"{rule}, {ends} (e.g. 'example.com', regex used for validation is '{_SEARCH}')"


def backstep_problems(path: str) -> Iterator[str]:
    if ".." in path.split("/"):
        yield "must not contain '..'"


def descending_path_problems(path: str) -> Iterator[str]:
    """A path below some other one."""
    if path.startswith("/"):
        yield "must be a relative path"
    yield from backstep_problems(path)


def file_path_problems(path: str) -> Iterator[str]:
    """A path in a volume; names that start with two dots are the kubelet's own."""
    if path.startswith("/"):
        yield "must be a relative path"
    if ".." in path.split("/"):
        yield "must not contain '..'"
    elif path.startswith(".."):
        yield "must not start with '..'"


def range_problem(least: int, most: int) -> str:
    return f"must be between {least} and {most}, inclusive"


def split_subscript(path: str) -> tuple[str, str | None]:
    """``metadata.labels['a']`` → ``metadata.labels`` and ``a``."""
    match = _SUBSCRIPTED.fullmatch(path)
    return (match[1], match[2]) if match else (path, None)
