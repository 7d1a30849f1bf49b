"""Many runs: which, in which order, on which machines, and tuned how."""
