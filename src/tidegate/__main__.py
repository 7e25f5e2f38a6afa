"""`python -m tidegate`, and the command `tidegate`."""

import sys


def start() -> None:
    """Ctrl-C ends it quietly even while it is being imported."""
    try:
        from tidegate.cli import main

        main()
    except KeyboardInterrupt:
        sys.exit(130)


if __name__ == "__main__":
    start()
