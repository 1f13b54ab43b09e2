"""Private audits of what a model does to groups, their pictures and their page."""
