"""Text out of bytes that may be in any encoding."""

from __future__ import annotations

from tunnelbench.model.errors import WrongInput

LARGEST_BYTES = 16 << 20
_MARKS = ((b"\xff\xfe", "utf-16"), (b"\xfe\xff", "utf-16"), (b"\xef\xbb\xbf", "utf-8-sig"))


def decoded(data: bytes) -> tuple[str, str]:
    """The text, and the encoding that it was in: by its mark, else UTF-8, else Windows-1252.

    WrongInput where it is too large, or no text in any of these.
    """
    if len(data) > LARGEST_BYTES:
        raise WrongInput(f"larger than {LARGEST_BYTES >> 20} MiB, which no table of results is", "audit a part of it")
    encoding = next((name for mark, name in _MARKS if data.startswith(mark)), "utf-8")
    try:
        text = data.decode(encoding)
    except UnicodeDecodeError:
        encoding = "cp1252"
        try:
            text = data.decode(encoding)
        except UnicodeDecodeError as error:
            message = f"no text in UTF-8 or Windows-1252 (byte 0x{data[error.start]:02x} at {error.start})"
            raise WrongInput(message, "save it as UTF-8") from None
    if "\0" in text:
        raise WrongInput(f"holds a NUL byte at character {text.index(chr(0))}: this is no text", "save it as UTF-8")
    if not text.strip():
        raise WrongInput("is empty")
    return text, encoding.removesuffix("-sig")
