"""The configuration file (``--config``, kind ``ZonewardConfiguration``): all of its sections, and flags over them."""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, Literal, TypeVar

from msgspec import Struct
from msgspec.structs import fields, replace

from zoneward.advice.prices import Prices
from zoneward.controller.controller_configuration import ControllerConfiguration
from zoneward.kube.input_error import ConfigurationError, InputError, show
from zoneward.kube.schema import bare_type, is_struct
from zoneward.kube.settings import Settings, read_settings
from zoneward.meter.meter_configuration import MeterConfiguration
from zoneward.proxy.proxy_configuration import ProxyConfiguration
from zoneward.routing.configuration import Configuration, DecisionSettings, DemandSettings

_MOST_MIB: Final = 1
"""A configuration file is about a page; a larger file is something else."""
_Program = TypeVar("_Program", bound=Settings)


class ConfigurationFile(DecisionSettings, frozen=True, kw_only=True):
    """All settings of a file: those that decisions depend on, those of the programs, and prices."""

    api_version: Literal["zoneward.dev/v1alpha1"]
    kind: Literal["ZonewardConfiguration"]
    controller: ControllerConfiguration = ControllerConfiguration()
    proxy: ProxyConfiguration = ProxyConfiguration()
    meter: MeterConfiguration = MeterConfiguration()
    prices: Prices = Prices()

    @property
    def configuration(self) -> Configuration:
        # A plan shows the slices that the controller would write, so it needs this setting of the controller.
        return Configuration.of(self, keep_built_in_label=self.controller.keep_built_in_label)


def read_configuration(name: str) -> ConfigurationFile:
    """Raises InputError with the file and the field."""
    return _parse(name, _load(name))


def configuration_from(document: object, *, folder: Path | None = None) -> ConfigurationFile:
    """A parsed document. Relative names of files in it are relative to ``folder``. Raises ConfigurationError."""
    file = read_settings(document, ConfigurationFile)
    return replace(file, demand=_beside(folder, file.demand))


def read_program_settings(
    name: str | None, section: str, type_: type[_Program], flags: Mapping[str, Any], options: Mapping[str, str]
) -> tuple[Configuration, _Program]:
    """The settings of a program: its section of the file ``name``, and flags, which take precedence.

    ``flags`` has values as a file has them, and ``options`` names of options, both by field of ``type_``. Raises
    InputError, for a flag with its option.
    """
    document = {} if name is None else _load(name)
    configuration = Configuration() if name is None else _parse(name, document).configuration
    given = _by_key(type_, flags)
    try:
        return configuration, read_settings(_merged(document.get(section), given), type_, within=section)
    except ConfigurationError as error:
        # The file alone is valid, so the error is about a flag.
        raise InputError(_with_options(str(error), section, type_, options)) from None


def _load(name: str) -> dict[Any, Any]:
    from zoneward.kube.yaml_documents import read_document

    document = read_document(name, what="configuration", most=_MOST_MIB)
    if not isinstance(document, dict):
        raise InputError(name, f"expected a map with kind ZonewardConfiguration, got {show(document)}")
    return document


def _parse(name: str, document: object) -> ConfigurationFile:
    try:
        return configuration_from(document, folder=Path(name).parent)
    except ConfigurationError as error:
        raise InputError(name, str(error)) from error


def _beside(folder: Path | None, demand: DemandSettings) -> DemandSettings:
    def beside(file: str | None) -> str | None:
        return None if file is None else str((folder or Path()) / file)

    prometheus = demand.prometheus
    if prometheus is not None:
        prometheus = replace(prometheus, token_file=beside(prometheus.token_file), ca_file=beside(prometheus.ca_file))
        prometheus = prometheus if prometheus.url else None
    return replace(demand, file=beside(demand.file), prometheus=prometheus)


# --- flags ------------------------------------------------------------------------------------------------------------


def _by_key(type_: type[Struct], flags: Mapping[str, Any]) -> dict[str, Any]:
    document = {}
    for field in fields(type_):
        inner, _ = bare_type(field.type)
        if is_struct(inner):
            document[field.encode_name] = _by_key(inner, flags)
        elif field.name in flags:
            document[field.encode_name] = flags[field.name]
    return document


def _merged(section: Mapping[str, Any] | None, given: Mapping[str, Any]) -> dict[str, Any]:
    merged = dict(section or {})
    for key, value in given.items():
        merged[key] = _merged(merged.get(key), value) if isinstance(value, dict) else value
    return merged


def _with_options(text: str, path: str, type_: type[Struct], options: Mapping[str, str]) -> str:
    """The text of an error with options in place of keys."""
    for field in fields(type_):
        inner, _ = bare_type(field.type)
        key = f"{path}.{field.encode_name}"
        if is_struct(inner):
            text = _with_options(text, key, inner, options)
        elif field.name in options:
            # A key of one word, such as listen, may also be a word of the text.
            names = [key] if field.encode_name.islower() else [key, field.encode_name]
            text = re.sub(rf"\b(?:{'|'.join(map(re.escape, names))})\b", options[field.name], text)
    return text
