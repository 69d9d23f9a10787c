"""One relabelling rule, with Prometheus's fields, defaults and checks (prometheus/model/relabel)."""

from typing import Any, Literal, Self

from pydantic import Field, field_validator, model_validator

from db.config_types import Count, Section, Text
from db.regex import RegexError, compile_anchored

Action = Literal[
    "replace",
    "keep",
    "drop",
    "keepequal",
    "dropequal",
    "hashmod",
    "labelmap",
    "labeldrop",
    "labelkeep",
    "lowercase",
    "uppercase",
]

DEFAULT_REGEX = "(.*)"
DEFAULT_REPLACEMENT = "$1"
DEFAULT_SEPARATOR = ";"

_NEEDS_TARGET = frozenset({"replace", "hashmod", "lowercase", "uppercase", "keepequal", "dropequal"})
_TAKES_NO_REPLACEMENT = frozenset({"lowercase", "uppercase", "keepequal", "dropequal"})


class RelabelConfig(Section):
    """A rule; label names follow Prometheus 3 (any non-empty text)."""

    source_labels: tuple[Text, ...] | None = Field(default=None)
    separator: Text = DEFAULT_SEPARATOR
    regex: Text = DEFAULT_REGEX
    modulus: Count = 0
    target_label: Text = ""
    replacement: Text = DEFAULT_REPLACEMENT
    action: Action = "replace"

    @model_validator(mode="before")
    @classmethod
    def _empty_means_empty(cls, data: Any) -> Any:
        """`regex:` with nothing behind it is the empty pattern here, not the default."""
        if not isinstance(data, dict):
            return data
        blank = dict.fromkeys(("separator", "regex", "replacement", "target_label"), "")
        return {key: blank.get(key) if value is None else value for key, value in data.items()}

    @field_validator("action", mode="before")
    @classmethod
    def _any_case(cls, value: Any) -> Any:
        return str(value).lower() if isinstance(value, str) else value

    @field_validator("regex")
    @classmethod
    def _compiles(cls, value: str) -> str:
        try:
            compile_anchored(value)
        except RegexError as error:
            raise ValueError(f"is {error}") from error
        return value

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.action == "hashmod" and self.modulus == 0:
            raise ValueError("with action hashmod needs a modulus above 0")
        if self.action in _NEEDS_TARGET and not self.target_label:
            raise ValueError(f"with action {self.action} needs a target_label")
        if self.action in _TAKES_NO_REPLACEMENT and self.replacement != DEFAULT_REPLACEMENT:
            raise ValueError(f"with action {self.action} takes no replacement")
        if self.action == "labelmap" and not self.replacement:
            raise ValueError("with action labelmap needs a replacement that is not empty")
        if self.action in ("keepequal", "dropequal"):
            self._refuse_all_but("source_labels and target_label", "regex", "modulus", "separator")
        if self.action in ("labeldrop", "labelkeep"):
            self._refuse_all_but(
                "regex", "source_labels", "target_label", "modulus", "separator", "replacement"
            )
        return self

    def _refuse_all_but(self, allowed: str, *others: str) -> None:
        fields = type(self).model_fields
        for name in others:
            if getattr(self, name) != fields[name].default:
                raise ValueError(f"with action {self.action} takes only {allowed}, not {name}")
