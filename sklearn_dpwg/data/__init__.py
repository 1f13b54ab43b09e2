"""The private rows and the code that reads them: passes, risks, oracles, sources, engines."""
