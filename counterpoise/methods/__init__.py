"""Named methods: a few lines each, with paper, formula and defaults. A new file here registers itself."""

from counterpoise.core.discover import import_modules

import_modules(__name__, __path__)
