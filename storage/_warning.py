"""The program's log, for what no call can tell: the logger ``memdb`` of `logging`."""

from __future__ import annotations


def warn(message: str) -> None:
    """Log a warning; where the program has set up no logging, nothing is printed.

    No lock is held by the caller: a handler may do anything, also with the database.
    """
    # Imported late: it takes some milliseconds, and most programs are never warned.
    import logging

    logger = logging.getLogger("memdb")
    if not logger.handlers:
        # Without any handler Python would print the message.
        logger.addHandler(logging.NullHandler())
    logger.warning(message)
