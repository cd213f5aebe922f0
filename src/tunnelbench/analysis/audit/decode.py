"""Decoding of bytes whose encoding is unknown."""

from __future__ import annotations

from tunnelbench.model.errors import WrongInput

LARGEST_TABLE_BYTES = 16 << 20
_MARKS = ((b"\xff\xfe", "utf-16"), (b"\xfe\xff", "utf-16"), (b"\xef\xbb\xbf", "utf-8-sig"))


def decode_text(data: bytes) -> tuple[str, str]:
    """Return the text and its encoding: that of its byte order mark, else UTF-8, else Windows-1252.

    Raises WrongInput if the data is too large, or is not text in any of these encodings.
    """
    if len(data) > LARGEST_TABLE_BYTES:
        raise WrongInput(
            f"larger than {LARGEST_TABLE_BYTES >> 20} MiB, the largest table that can be audited", "audit a part of it"
        )
    encoding = next((name for mark, name in _MARKS if data.startswith(mark)), "utf-8")
    try:
        text = data.decode(encoding)
    except UnicodeDecodeError:
        encoding = "cp1252"
        try:
            text = data.decode(encoding)
        except UnicodeDecodeError as error:
            message = f"not text in UTF-8 or Windows-1252 (byte 0x{data[error.start]:02x} at {error.start})"
            raise WrongInput(message, "save it as UTF-8") from None
    if "\0" in text:
        raise WrongInput(
            f"contains a NUL byte at character {text.index(chr(0))}, so it is not text", "save it as UTF-8"
        )
    if not text.strip():
        raise WrongInput("is empty")
    return text, encoding.removesuffix("-sig")
