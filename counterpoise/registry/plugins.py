"""Methods, parts, models and data sets of others: modules that register themselves, in installed packages or in plain files."""

from __future__ import annotations

import functools
import hashlib
import importlib.util
import os
import sys
from importlib.metadata import entry_points
from pathlib import Path
from types import ModuleType

from counterpoise.errors import ConfigError, short

GROUP = "counterpoise"  # of entry points
FILES = "COUNTERPOISE_PLUGINS"  # names files, apart by the system's sign for lists of paths; child processes inherit it


@functools.cache
def load_plugins() -> None:
    """Import every module that an installed package names in the group, and every file that the variable names."""
    for point in entry_points(group=GROUP):
        try:
            point.load()
        except Exception as error:  # a plugin may raise anything; the error names it
            raise _not_loaded(f"the installed plugin {point.name!r} ({point.value})", error) from error
    for path in plugin_files():
        try:
            import_file(path)
        except Exception as error:
            raise _not_loaded(f"{path}, a file of {FILES},", error) from error


def plugin_files() -> list[Path]:
    """The files that the variable names, each once; all must be there, and none be called as another, since records name them."""
    files = list(dict.fromkeys(Path(name) for name in os.environ.get(FILES, "").split(os.pathsep) if name))
    for file in files:
        if not file.is_file():
            raise ConfigError(
                f"{FILES} must name Python files, apart by {os.pathsep!r}; there is no {short(file)}"
            )
    names = [file.name for file in files]
    if twice := next((name for name in names if names.count(name) > 1), None):
        raise ConfigError(f"{FILES} names two files {short(twice)}; rename one of them")
    return files


def import_file(path: Path) -> ModuleType:
    """A file that no package holds as a module; imported again it is the same one."""
    name = path.stem
    known = sys.modules.get(name)
    if known is not None and getattr(known, "__file__", None) == str(path.resolve()):
        return known
    spec = importlib.util.spec_from_file_location(name, path.resolve())
    if spec is None or spec.loader is None:
        raise ConfigError(f"{short(path)} cannot be imported; it must be a Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules.setdefault(name, module)  # annotations are resolved by the module's name
    try:
        spec.loader.exec_module(module)
    except BaseException:
        if sys.modules.get(name) is module:  # half a module must not pass for a loaded one
            del sys.modules[name]
        raise
    return module


def plugin_versions() -> dict[str, str]:
    """Version of each package that plugins come from, and of each plugin file the beginning of its SHA-256."""
    packages = (point.dist for point in entry_points(group=GROUP))
    files = {path.name: hashlib.sha256(path.read_bytes()).hexdigest()[:16] for path in plugin_files()}
    return {package.name: package.version for package in packages if package is not None} | files


def _not_loaded(what: str, error: Exception) -> ConfigError:
    return ConfigError(f"{what} cannot be loaded: {type(error).__name__}: {error}")
