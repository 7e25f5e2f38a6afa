"""`python -m tidegate`, and the command `tidegate`."""

import signal
import sys


def start() -> None:
    """Ctrl-C ends it quietly even while it is being imported, and nothing that a file of the user left changes how."""
    sys.unraisablehook = _hear
    try:
        try:
            from tidegate.cli import main

            main()
        finally:
            _let_go()
    except KeyboardInterrupt:
        sys.exit(130)
    except SystemExit as ended:
        _end(ended)
        raise


def _let_go() -> None:
    """From here on Ctrl-C ends the process at once: while Python ends, an exception would only be printed."""
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)


def _hear(unraisable: "sys.UnraisableHookArgs") -> None:
    """Ctrl-C where nothing can be raised, such as at the end of an object: it comes again, after this function."""
    if unraisable.exc_type is not KeyboardInterrupt:
        sys.__unraisablehook__(unraisable)
    elif hasattr(signal, "setitimer"):
        signal.signal(signal.SIGALRM, signal.default_int_handler)
        signal.setitimer(signal.ITIMER_REAL, 0.01)


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
