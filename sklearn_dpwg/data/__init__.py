"""The private rows and all that reads them: passes, risks, oracles, sources, engines."""
