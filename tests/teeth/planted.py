"""What a planted fault is, whatever it is planted in."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Planted:
    """In ``file``, ``old``, which stands there once, becomes ``new``; the check called ``check`` must fail then."""

    name: str
    file: str
    old: str
    new: str
    check: str

    def __str__(self) -> str:
        return self.name.replace(" ", "_")
