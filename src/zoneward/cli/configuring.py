"""The configuration file, and the flags that win over it."""

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from zoneward.cli.options import Options
from zoneward.kube.input_error import ConfigurationError, InputError, MalformedText, show
from zoneward.kube.input_files import read_small
from zoneward.routing.configuration import Configuration, configuration_from

if TYPE_CHECKING:
    from zoneward.controller.controller_configuration import ControllerConfiguration
    from zoneward.proxy.proxy_configuration import ProxyConfiguration

_LARGEST: Final = 1 << 20
"""Bytes. A configuration is a page; what is larger is another file."""


@dataclass(frozen=True, slots=True)
class ConfigurationFile:
    """What decisions depend on, and what is set for each program that runs for long."""

    configuration: Configuration
    controller: "ControllerConfiguration"
    proxy: "ProxyConfiguration"


def configuration_for(options: Options) -> Configuration:
    """Read ``--config`` where it is given, and apply ``--compat``. Raises InputError with the file and the field."""
    configuration = Configuration() if options.config is None else read_configuration(options.config).configuration
    return configuration.as_upstream() if options.upstream else configuration


def read_configuration(name: str) -> ConfigurationFile:
    """Raises InputError with the file and the field."""
    from zoneward.controller.controller_configuration import SECTION, read_controller_configuration
    from zoneward.proxy.proxy_configuration import SECTION as PROXY
    from zoneward.proxy.proxy_configuration import read_proxy_configuration

    document = _document(name)
    if not isinstance(document, dict):
        raise InputError(name, f"expected a map with kind ZonewardConfiguration, got {show(document)}")
    try:
        controller = read_controller_configuration(document.get(SECTION))
        return ConfigurationFile(
            # A plan shows the slices that the controller would write.
            replace(configuration_from(document), keep_built_in_label=controller.keep_built_in_label),
            controller,
            read_proxy_configuration(document.get(PROXY)),
        )
    except ConfigurationError as error:
        raise InputError(name, str(error)) from error


def _document(name: str) -> object:
    from zoneward.kube.yaml_documents import whole_documents

    try:
        data = read_small(name, most=_LARGEST)
    except (OSError, ValueError) as error:
        problem = error.strerror if isinstance(error, OSError) else error
        raise InputError(name, f"expected a readable file, got: {problem}") from error
    if len(data) > _LARGEST:
        raise InputError(name, "expected a configuration, got more than 1 MiB")
    try:
        documents = whole_documents(data)
    except MalformedText as error:
        raise InputError(name, f"line {error.line}, column {error.column}", error.problem) from None
    if len(documents) != 1:
        raise InputError(name, f"expected one document, got {len(documents)}")
    return documents[0]
