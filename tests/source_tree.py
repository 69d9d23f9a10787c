"""The project's own source as syntax trees, for tests of its architecture."""

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TypeVar

ROOT = Path(__file__).resolve().parent.parent
PACKAGES = ("app", "collectors", "alerts", "db")
_NOT_OURS = {".git", ".venv", ".hypothesis", "build"}


_Node = TypeVar("_Node", bound=ast.AST)


@dataclass(frozen=True)
class Module:
    """One Python file. name: as it is imported, e.g. "db.store"."""

    name: str
    path: Path

    @cached_property
    def text(self) -> str:
        return self.path.read_text(encoding="utf-8")

    @cached_property
    def tree(self) -> ast.Module:
        return ast.parse(self.text, str(self.path))

    def imports(self) -> Iterator[str]:
        """Every imported module, absolute; `from a import b` gives "a.b", since b may be a module."""
        for node in ast.walk(self.tree):
            if isinstance(node, ast.Import):
                yield from (alias.name for alias in node.names)
            elif isinstance(node, ast.ImportFrom):
                assert node.level == 0, f"{self.path}:{node.lineno}: relative import"
                yield from (f"{node.module}.{alias.name}" for alias in node.names)

    def nodes(self, kind: type[_Node]) -> Iterator[_Node]:
        """Every node of this kind."""
        return (node for node in ast.walk(self.tree) if isinstance(node, kind))

    def within(self, prefix: str) -> bool:
        return within(self.name, prefix)


def within(name: str, prefix: str) -> bool:
    """Is `name` the module or package `prefix`, or something in it?"""
    return name == prefix or name.startswith(prefix + ".")


def modules() -> list[Module]:
    """Every module of the program; packages carry their own name."""
    found = []
    for package in PACKAGES:
        for path in sorted((ROOT / package).rglob("*.py")):
            parts = path.relative_to(ROOT).with_suffix("").parts
            found.append(Module(".".join(parts[:-1] if parts[-1] == "__init__" else parts), path))
    return found


def own_files() -> list[Path]:
    """Every file a checkout has, without what tools left behind."""
    return [
        path
        for path in sorted(ROOT.rglob("*"))
        if path.is_file() and not any(_left_behind(part) for part in path.relative_to(ROOT).parts)
    ]


def read(path: Path) -> str:
    """The text of any file; what is not UTF-8 is replaced."""
    return path.read_text(encoding="utf-8", errors="replace")


def _left_behind(part: str) -> bool:
    return part in _NOT_OURS or part.endswith((".egg-info", "_cache", "__pycache__", ".pyc", "artifacts"))
