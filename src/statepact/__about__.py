"""The version, in the one place that both packaging and the running program read."""

__version__ = "0.1.0"
