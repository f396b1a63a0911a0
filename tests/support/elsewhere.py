"""A class that `kinds.py` names only for type checkers."""

from dataclasses import dataclass


@dataclass
class Town:
    name: str
    people: int = 0
