"""A few rounds of exact problems, each released once: phased ERM, moments."""
