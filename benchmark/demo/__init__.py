"""The demo on real data: ``python -m benchmark.demo``, or ``make demo``."""
