"""The peers, each in a module of its own, and each optional."""
