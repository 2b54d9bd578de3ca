"""The demo: one after-sales team, several ways of passing state, one model, measured."""
