"""Command line: schema, plan, fit, predict and audit."""
