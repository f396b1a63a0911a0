"""Benchmarks of memdb beside sqlite3, LMDB and the bare floor: ``python -m benchmark --help``."""
