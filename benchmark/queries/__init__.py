"""The query shapes: the same questions to memdb, to hand-written loops and to sqlite3."""
