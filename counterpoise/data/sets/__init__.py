"""Data sets by name, one module a file format. A new file here registers itself."""

from counterpoise.core.discover import import_modules

import_modules(__name__, __path__)
