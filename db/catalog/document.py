"""The form of a catalogue file: the vocabulary, exporters, or both; strict, and wrong ones named by line."""

import math
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, ValidationError, model_validator

from db.catalog.signal import EXPORTER, Combine, Good, Kind, Layer
from db.config_errors import SettingsError, first_error
from db.config_types import Name, Section
from db.labels import METRIC_NAME
from db.regex import compile_anchored
from db.yaml_lines import Document, KeyPath, YamlError, read_yaml

_ID = re.compile(r"[a-z][a-z0-9_]*")
_LABEL = re.compile(r"[a-zA-Z_][a-zA-Z0-9_]*")
# Labels that the catalogue itself puts on series, or that PromQL does.
_TAKEN = frozenset({EXPORTER, "le", METRIC_NAME})
_NO_NAME = frozenset("{}[]()\"'$ \t\n")


class CatalogError(SettingsError):
    """A catalogue file that cannot be used; one line with file, line and the mend."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where something stands, for messages."""

    path: Path
    document: Document
    keys: KeyPath

    def of(self, *keys: str | int) -> "Place":
        return Place(self.path, self.document, (*self.keys, *keys))

    def error(self, reason: str, *keys: str | int) -> CatalogError:
        return CatalogError(str(self.of(*keys)), reason)

    def __str__(self) -> str:
        return f"{self.path}:{self.document.line(self.keys)}"


def _an_id(value: Any) -> str:
    if not isinstance(value, str) or not _ID.fullmatch(value):
        raise ValueError(f"{value!r} is not an id: use lower-case letters, digits and _")
    return str(value)


def _one_or_more(value: Any) -> Any:
    return value if isinstance(value, list) else [value]


def _scale(value: Any) -> float:
    try:
        number = float(value)
    except (TypeError, ValueError):
        raise ValueError(f"{value!r} is not a number") from None
    if number == 0 or not math.isfinite(number):
        raise ValueError(f"{value!r} scales nothing: give a number other than 0")
    return number


def _metric(value: Any) -> str:
    """What is plainly no name; exporters may well use others than words."""
    if not isinstance(value, str) or not value or not _NO_NAME.isdisjoint(value):
        raise ValueError(f"{value!r} is not a metric's name: give it without matchers")
    return str(value)


def _label(value: Any) -> str:
    if not isinstance(value, str) or not _LABEL.fullmatch(value) or value in _TAKEN:
        raise ValueError(f"{value!r} cannot be a label of an entity: use another word")
    return str(value)


def _with_group(value: Any) -> str:
    if not isinstance(value, str):
        raise ValueError("has to be text")
    pattern = compile_anchored(str(value))
    if pattern.groups < 1:
        raise ValueError(f"{value!r} takes nothing: put what is to be taken into ( )")
    return str(value)


Id = Annotated[str, BeforeValidator(_an_id)]
Scale = Annotated[float, BeforeValidator(_scale)]
Metric = Annotated[str, BeforeValidator(_metric)]
EntityLabel = Annotated[str, BeforeValidator(_label)]
Match = Annotated[str, BeforeValidator(_with_group)]


class SignalSection(Section):
    """A signal, or a distribution that gives four of them."""

    layer: Layer
    entity: Id
    kind: Kind = "value"
    unit: Name
    good: Good
    by: tuple[Name, ...]
    combine: Combine | None = None
    title: Name
    means: Name

    @model_validator(mode="after")
    def _combines(self) -> "SignalSection":
        if (self.kind == "value") == (self.combine is None):
            wanted = "needs" if self.kind == "value" else "has no"
            raise ValueError(f"a signal of kind {self.kind} {wanted} 'combine'")
        return self


class LabelSourceSection(Section):
    """A raw label and the part of it that is taken."""

    label: Name
    match: Match = "(.+)"


def _label_source(value: Any) -> Any:
    return {"label": value} if isinstance(value, str) else value


Source = Annotated[LabelSourceSection, BeforeValidator(_label_source)]
Sources = Annotated[tuple[Source, ...], BeforeValidator(_one_or_more)]


class VariantSection(Section):
    """One way to a signal."""

    value: Name | None = None
    ratio: tuple[Name, Name] | None = None
    histogram: Name | None = None
    mean: tuple[Name, Name] | None = None
    scale: Scale = 1.0
    needs: tuple[Metric, ...] | None = None
    unless: tuple[Metric, ...] = ()
    where: tuple[Name, ...] = ()
    enable: str = ""
    within: Literal["sum", "avg", "max", "min"] | None = None
    labels: dict[Name, Sources] = Field(default_factory=dict)

    @model_validator(mode="after")
    def _one_form(self) -> "VariantSection":
        given = [self.value, self.ratio, self.histogram, self.mean]
        if sum(form is not None for form in given) != 1:
            raise ValueError("give one of value, ratio, histogram and mean")
        return self


Variants = Annotated[tuple[VariantSection, ...], BeforeValidator(_one_or_more)]


class ExporterSection(Section):
    """A program that exposes metrics. What a later file leaves out stays as it was."""

    title: Name | None = None
    detect: tuple[Metric, ...] = ()
    install: str = ""
    labels: dict[Name, Sources] = Field(default_factory=dict)
    signals: dict[Id, Variants] = Field(default_factory=dict)


class CatalogFile(Section):
    """A whole file."""

    entities: dict[Id, tuple[EntityLabel, ...]] = Field(default_factory=dict)
    signals: dict[Id, SignalSection] = Field(default_factory=dict)
    exporters: dict[Id, ExporterSection] = Field(default_factory=dict)


def read_catalog_file(path: Path) -> tuple[CatalogFile, Document]:
    """The file and its lines. Raises CatalogError."""
    try:
        document = read_yaml(path)
    except YamlError as error:
        raise CatalogError(f"{path}:{error.line}", error.reason) from error
    except OSError as error:
        raise CatalogError(str(path), f"cannot be read: {error.strerror or error}") from error
    try:
        return CatalogFile.model_validate(document.data or {}), document
    except ValidationError as error:
        place, reason = first_error(error, document.line)
        raise CatalogError(f"{path}:{document.line(place)}", reason) from error
