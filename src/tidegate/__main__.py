"""`python -m tidegate`, and the command `tidegate`."""

import sys


def start() -> None:
    """Ctrl-C ends it quietly even while it is being imported, and nothing that a file of the user left changes how."""
    try:
        from tidegate.cli import main

        main()
    except KeyboardInterrupt:
        sys.exit(130)
    except SystemExit as ended:
        _end(ended)
        raise


def _end(ended: SystemExit) -> None:
    """After code of the user: `os._exit` in what it has registered for the end does not replace the exit status, and
    threads that it has left running are not waited for.
    """
    guest = sys.modules.get("tidegate.guest")
    if guest is None:
        return
    guest.ignore_exit()
    import threading

    if any(each is not threading.current_thread() and not each.daemon for each in threading.enumerate()):
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
        guest.really_exit(ended.code if isinstance(ended.code, int) else 0 if ended.code is None else 1)


if __name__ == "__main__":
    start()
