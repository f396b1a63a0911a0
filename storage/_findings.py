"""What verifying a file finds."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that is wrong in a file.

    Attributes:
        offset: Bytes from the start of the file to what is wrong.
        message: What is wrong there, in one sentence.
    """

    offset: int
    message: str
