"""The rules of the layout, as tests: who imports whom, and what lies where. Each lists what breaks it."""

import ast
import importlib
import inspect
import re
import sys
import tomllib
from collections.abc import Iterator

import pytest

from collectors.enabled import BUILT_IN
from collectors.exposed import Exposed
from tests.source_tree import PACKAGES, ROOT, Module, modules, own_files, read, within

MAX_LINES = 400
MODULES = modules()
PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())

LEAVES = ("app.planner", "app.analysis")
PURE_ALERTS = ("alerts.rules", "alerts.backtest", "alerts.route")
# The longest prefix that fits a module says what of ours it may import, besides itself and the leaves.
MAY_IMPORT: dict[str, tuple[str, ...]] = {
    "app.planner": (),
    "app.analysis": (),
    "db": (),
    "collectors": ("db",),
    "alerts": ("db",),
    "app": ("app", "db"),
    "app.queries": ("app", "db", *PURE_ALERTS),
    "app.api": ("app", "db", *PURE_ALERTS),
    "app.views": ("app", "db", *PURE_ALERTS),
    "app.__main__": PACKAGES,
    "app.commands": PACKAGES,
    "app.supervise": PACKAGES,
}
# One place that imports each, so that one place knows its traps.
THIRD_PARTY: dict[str, tuple[str, ...]] = {
    "plotly": ("app.charts",),
    "streamlit": ("app",),
    "starlette": ("app",),
    "uvicorn": ("app",),
    "typer": ("app.__main__", "app.commands"),
    "pynvml": ("collectors.nvml_driver",),
    "psutil": ("collectors",),
    "aiohttp": ("collectors",),
    "re2": ("db.regex",),
    "promql_parser": ("db.promql.parse",),
    "prometheus_api_client": ("db.remote",),
    "requests": ("db.remote_http",),
    "cramjam": ("db.snappy",),
    "sqlalchemy": ("db",),
    "alembic": ("db",),
    "yaml": ("db",),
}
# What a dependency is made of and hands out in its own interface needs no line of its own.
PART_OF = {
    "starlette": "streamlit",
    "uvicorn": "streamlit",
    "pydantic_core": "pydantic",
    "yarl": "aiohttp",
    "requests": "prometheus_api_client",
    "urllib3": "prometheus_api_client",
}
DISTRIBUTION_OF = {
    "prometheus_api_client": "prometheus-api-client",
    "promql_parser": "promql-parser",
    "pynvml": "nvidia-ml-py",
    "re2": "google-re2",
    "yaml": "pyyaml",
}
IN_AND_OUT = {"asyncio", "http", "os", "pathlib", "shutil", "socket", "sqlite3", "subprocess", "urllib"}


def imports() -> Iterator[tuple[Module, str]]:
    for module in MODULES:
        for name in module.imports():
            yield module, name


def top(name: str) -> str:
    return name.partition(".")[0]


def distribution(name: str) -> str:
    module = PART_OF.get(top(name), top(name))
    return DISTRIBUTION_OF.get(module, module)


def test_imports_only_what_the_design_allows():
    def allowed(module: Module) -> tuple[str, ...]:
        prefix = max((name for name in MAY_IMPORT if module.within(name)), key=len)
        return prefix, *MAY_IMPORT[prefix], *(() if prefix in LEAVES else LEAVES)

    crossings = [
        f"{module.name} imports {name}"
        for module, name in imports()
        if top(name) in PACKAGES and not any(within(name, place) for place in allowed(module))
    ]
    assert crossings == []


def test_the_leaves_are_pure():
    """Standard library and numpy, and nothing that reads or writes."""
    impure = [
        f"{module.name} imports {name}"
        for module, name in imports()
        if any(module.within(leaf) for leaf in LEAVES)
        and top(name) not in ("app", "numpy")
        and (top(name) in IN_AND_OUT or top(name) not in sys.stdlib_module_names)
    ]
    for module in (module for module in MODULES if any(module.within(leaf) for leaf in LEAVES)):
        for node in module.nodes(ast.Call):
            if isinstance(node.func, ast.Name) and node.func.id in ("open", "print", "input"):
                impure.append(f"{module.name}:{node.lineno} calls {node.func.id}")
    assert impure == []


def test_a_third_party_module_is_imported_only_in_its_place():
    misplaced = [
        f"{module.name} imports {name}; its place is {', '.join(places)}"
        for module, name in imports()
        for library, places in THIRD_PARTY.items()
        if within(name, library) and not any(module.within(place) for place in places)
    ]
    assert misplaced == []


def test_every_third_party_module_is_a_declared_dependency():
    project = PYPROJECT["project"]
    lines = project["dependencies"] + project["optional-dependencies"]["postgres"]
    declared = {re.split(r"[^\w.-]", line)[0].lower() for line in lines}
    undeclared = [
        f"{module.name} imports {name}"
        for module, name in imports()
        if top(name) not in sys.stdlib_module_names
        and top(name) not in PACKAGES
        and distribution(name) not in declared
    ]
    assert undeclared == []


def test_streamlit_caches_are_used_by_queries_alone():
    """By two modules: what pages read of summaries, and what the layer pages read of signals. They share
    nothing but the context, and together they would be too long for one file."""
    used = {
        module.name
        for module in MODULES
        for node in module.nodes(ast.Attribute)
        if node.attr in ("cache_data", "cache_resource")
    }
    assert used <= {"app.queries", "app.layer_queries"}


def test_no_forbidden_shortcut():
    found = []
    for module in MODULES:
        for keyword in module.nodes(ast.keyword):
            shell = keyword.arg == "shell" and getattr(keyword.value, "value", None) is True
            if shell or keyword.arg == "unsafe_allow_html":
                found.append(f"{module.name}:{keyword.value.lineno}: {keyword.arg}")
        for handler in module.nodes(ast.ExceptHandler):
            broad = handler.type is None or getattr(handler.type, "id", "") in ("Exception", "BaseException")
            if broad and all(isinstance(line, ast.Pass) for line in handler.body):
                found.append(f"{module.name}:{handler.lineno}: swallows everything")
    assert found == []


def test_every_module_says_why_it_exists():
    silent = [module.name for module in MODULES if module.text.strip() and not ast.get_docstring(module.tree)]
    assert silent == []


def test_every_registered_collector_is_one():
    """The Protocol is checked where a collector is used; here that nobody registered a half of one."""
    names = [item.name for item in BUILT_IN]
    assert len(set(names)) == len(names)
    for item in BUILT_IN:
        collector = item.make("host-1", Exposed())
        assert collector.name == item.name
        assert collector.job
        assert list(inspect.signature(collector.collect).parameters) == []


def test_no_file_is_longer_than_the_limit():
    long = {}
    for path in own_files():
        relative = path.relative_to(ROOT)
        if path.suffix == ".py" and not {"migrations", "fixtures"} & set(relative.parts):
            lines = len(read(path).splitlines())
            if lines > MAX_LINES:
                long[str(relative)] = lines
    assert long == {}


def test_every_package_is_listed_and_every_listed_one_exists():
    listed = set(PYPROJECT["tool"]["setuptools"]["packages"])
    folders = {module.path.parent for module in MODULES}
    assert listed == {".".join(folder.relative_to(ROOT).parts) for folder in folders}
    assert [str(folder) for folder in folders if not (folder / "__init__.py").exists()] == []


def test_every_folder_of_tests_is_a_package():
    """Else pytest puts the folder itself on the path, where tests/app would stand for app."""
    folders = {path.parent for path in (ROOT / "tests").rglob("test_*.py")}
    assert [str(folder) for folder in folders if not (folder / "__init__.py").exists()] == []


def test_packages_are_those_of_this_checkout():
    for package in PACKAGES:
        assert importlib.import_module(package).__file__ == str(ROOT / package / "__init__.py")


@pytest.mark.parametrize("path", ["app/pages", "app/db.py", "app/alerts.py", "app/collectors.py"])
def test_nothing_bypasses_the_sign_in_or_shadows_a_package(path):
    """Streamlit publishes a folder named pages by itself, and puts app/ first on the path."""
    assert not (ROOT / path).exists()


def test_no_path_of_a_developers_machine():
    pattern = re.compile(r"(?<![\w.$}])/(?:work|root)/\w")
    found = [
        f"{path.relative_to(ROOT)}: {match.group()}"
        for path in own_files()
        if "fixtures" not in path.parts and (match := pattern.search(read(path)))
    ]
    assert found == []
