"""Loggers for training frameworks: `lightning`, `accelerate` and `transformers`. Each module imports its framework."""
