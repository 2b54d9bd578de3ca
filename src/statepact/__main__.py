"""`python -m statepact` is the command line, too."""

from statepact.cli import main

main()
