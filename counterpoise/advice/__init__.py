"""Which method for these data: figures, rules, a race on validation samples, and a recommendation."""
