"""Indexes: they know keys and slots, no files and no records' classes."""

from __future__ import annotations

from memdb.indexes._identity import IdentityIndex, ScannedIdentities

__all__ = ["IdentityIndex", "ScannedIdentities"]
