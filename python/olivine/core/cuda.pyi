"""NVIDIA GPUs."""


def is_available() -> bool:
    ...
