"""Methods, parts, models and data sets of other packages: modules that register themselves, named by entry points."""

from __future__ import annotations

import functools
from importlib.metadata import entry_points

from counterpoise.errors import ConfigError

GROUP = "counterpoise"


@functools.cache
def load_plugins() -> None:
    """Import every module that an installed package names in the group."""
    for point in entry_points(group=GROUP):
        try:
            point.load()
        except Exception as error:  # a plugin may raise anything; the error names it
            raise ConfigError(
                f"the installed plugin {point.name!r} ({point.value}) cannot be loaded: {type(error).__name__}: {error}"
            ) from error


def plugin_versions() -> dict[str, str]:
    """Package name -> version, of the packages that plugins come from."""
    found = (point.dist for point in entry_points(group=GROUP))
    return {package.name: package.version for package in found if package is not None}
