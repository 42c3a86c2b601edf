"""`python -m forager` is the `forager` command."""

from forager.cli import main

if __name__ == "__main__":
    main()
