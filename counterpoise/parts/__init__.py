"""Ideas that several methods share, grouped by where they act. A new file here registers itself."""

from counterpoise.core.discover import import_modules

import_modules(__name__, __path__)
