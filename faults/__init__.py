"""Faults, on purpose: what a store and the core keep when everything around them fails."""
