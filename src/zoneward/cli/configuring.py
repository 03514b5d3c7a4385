"""The configuration file, and the flags that win over it."""

from pathlib import Path
from typing import Any

from zoneward.cli.options import Options, note
from zoneward.kube.input_error import InputError, show
from zoneward.routing.configuration import Configuration, ConfigurationError, configuration_from


def configuration_for(options: Options) -> Configuration:
    """Read ``--config`` where it is given, and apply ``--compat``. Raises InputError with the file and the field."""
    configuration = Configuration() if options.config is None else _read(options.config)
    for section in configuration.unused:
        note(options, f"{options.config}: {section}: not used, this version has no {section} yet")
    return configuration.as_upstream() if options.upstream else configuration


def _read(name: str) -> Configuration:
    try:
        document = _parsed(name, Path(name).read_bytes())
    except OSError as error:
        raise InputError(name, f"expected a readable file, got: {error.strerror}") from error
    if not isinstance(document, dict):
        raise InputError(name, f"expected a map with kind ZonewardConfiguration, got {show(document)}")
    try:
        return configuration_from(document)
    except ConfigurationError as error:
        raise InputError(name, str(error)) from error


def _parsed(name: str, data: bytes) -> Any:
    import yaml

    try:
        return yaml.load(data, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))
    except yaml.YAMLError as error:
        raise InputError(name, f"expected YAML or JSON, got: {' '.join(str(error).split())}") from error
