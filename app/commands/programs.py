"""The command lines by which Strata starts itself again: the supervised processes and the service."""

import sys
from pathlib import Path

# -P: a folder named app or db in the working directory must not be taken for ours.
PYTHON_MODULE = (sys.executable, "-P", "-m", "app")


def command_line(command: str, **options: object) -> tuple[str, ...]:
    """`command_line("web", port=80, host=None, no_discover=True)`: None and False are left out."""
    words = [*PYTHON_MODULE, command]
    for name, value in options.items():
        option = "--" + name.replace("_", "-")
        if value is True:
            words.append(option)
        elif value is not None and value is not False:
            words += [option, str(value.absolute() if isinstance(value, Path) else value)]
    return tuple(words)
