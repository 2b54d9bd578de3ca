"""Speed and size, side by side in one run on one machine: `python -m bench`, or `make bench`."""
