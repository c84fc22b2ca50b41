"""Reading messages in protobuf's wire format without protobuf, if they have the known structure.

Bytes are only passed over if protobuf is sure to accept them. The twin is `wire.h`.

Format: https://protobuf.dev/programming-guides/encoding/
"""

VARINT, EIGHT_BYTES, BYTES, FOUR_BYTES = 0, 1, 2, 5


class Unknown(Exception):
    """The bytes are damaged, or not known to be sound."""


class Reader:
    """Bytes of a message that are not read yet."""

    def __init__(self, data: bytes, at: int = 0, end: int | None = None) -> None:
        self.data, self.at, self.end = data, at, len(data) if end is None else end

    def varint(self) -> int:
        value = 0
        for shift in range(0, 64, 7):
            if self.at == self.end:
                raise Unknown
            byte = self.data[self.at]
            self.at += 1
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                if value >= 1 << 64:
                    raise Unknown
                return value
        raise Unknown

    def short(self, limit: int) -> int:
        """Read a varint in its shortest form, below a limit."""
        start, value = self.at, self.varint()
        if value >= limit or (self.at - start > 1 and not self.data[self.at - 1]):
            raise Unknown
        return value

    def tag(self) -> tuple[int, int]:
        """Read the number of a field, and the type of its value."""
        number, kind = divmod(self.short(1 << 14), 8)
        if not number:
            raise Unknown
        return number, kind

    def skip(self, length: int) -> None:
        if length > self.end - self.at:
            raise Unknown
        self.at += length

    def bytes(self) -> "Reader":
        """Read the length of a field, and pass over its bytes."""
        length = self.short(1 << 31)
        start = self.at
        self.skip(length)
        return Reader(self.data, start, self.at)

    def varints(self) -> None:
        while self.at < self.end:
            self.varint()
