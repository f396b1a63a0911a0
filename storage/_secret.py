"""What opens an encrypted database: a key of 32 bytes or a password, kept out of sight."""

from __future__ import annotations

import hmac
import unicodedata
from typing import Any, Literal, NoReturn

SecretKind = Literal["key", "password"]


class Secret:
    """A key or a password; shows itself to nobody who prints, compares, copies or pickles it.

    Attributes:
        kind: Which of the two.
    """

    __slots__ = ("_content", "kind")

    def __init__(self, kind: SecretKind, content: str | bytes | bytearray | memoryview) -> None:
        """Keep a copy of ``content``; a text is taken in Unicode's composed form, as UTF-8."""
        if isinstance(content, str):
            # The same letters may come as other code points from another keyboard.
            content = unicodedata.normalize("NFC", content).encode("utf-8", "surrogatepass")
        self.kind: SecretKind = kind
        self._content = bytes(content)

    def __repr__(self) -> str:
        return f"<{self.kind}>"

    def __len__(self) -> int:
        """Return the number of bytes."""
        return len(self._content)

    def __bool__(self) -> bool:
        """Return True: an empty secret is one that is refused, not none."""
        return True

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Secret):
            return NotImplemented
        return self.kind == other.kind and hmac.compare_digest(self._content, other._content)

    def __hash__(self) -> int:
        # Nothing that the content could be told from.
        return hash((Secret, self.kind))

    def __copy__(self) -> Secret:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> Secret:
        return self

    def __reduce__(self) -> NoReturn:
        raise TypeError(
            f"a {self.kind} can't be pickled. Give the other process the name of an environment"
            " variable (key_env=, password_env=), or a function that fetches it."
        )

    def reveal(self) -> bytes:
        """Return the content."""
        return self._content
