"""Lengths of OpenVPN's packets, and of the pieces into which it splits them."""

from __future__ import annotations

from dataclasses import dataclass

from tunnelbench.model.frames import AEAD_TAG_BYTES, ETHERNET_HEADER_BYTES

CIPHER_BLOCK_BYTES = {
    "AES-128-CBC": 16, "AES-192-CBC": 16, "AES-256-CBC": 16,
    "CAMELLIA-128-CBC": 16, "CAMELLIA-256-CBC": 16,
    "BF-CBC": 8, "CAST5-CBC": 8, "DES-EDE3-CBC": 8,
}  # fmt: skip
"""Length of the block, and so of the IV, of ciphers in CBC mode."""

DIGEST_BYTES = {"none": 0, "MD5": 16, "SHA1": 20, "SHA224": 28, "SHA256": 32, "SHA384": 48, "SHA512": 64}

LEGACY_CIPHERS = {"BF-CBC", "CAST5-CBC"}
"""Ciphers that OpenSSL 3 keeps in its legacy provider."""

OPCODE_BYTES = 1
"""Length of the opcode; packets with a static key have none."""

PEER_ID_BYTES = 3
"""Length of the peer id (P_DATA_V2). Two fixed ends agree on it from OpenVPN 2.6 on; a server gives its clients one."""

PACKET_ID_BYTES = 4
STATIC_KEY_PACKET_ID_BYTES = 8
"""Length of packet number and time stamp; the time stamp is there only with a static key."""

FRAGMENT_HEADER_BYTES = 4
"""Length of the header that each packet has if `fragment` is set, whole packets included (fragment.h)."""

FRAGMENT_ROUND_BYTES = 4
"""Unit of length of pieces: the length of each piece except the last is a multiple of it (fragment.h)."""


@dataclass(frozen=True)
class Packets:
    """Rules by which one set of options turns inner packets into records."""

    cipher: str
    auth: str
    is_tls: bool
    """True with TLS, False with a static key."""
    has_peer_id: bool
    """True if packets contain the peer id; without TLS they never do."""
    is_tap: bool
    fragment: int | None
    """Length of the largest datagram [bytes]; None: nothing is split."""
    framing_bytes: int = 0
    """Bytes that compression adds to a packet which is not compressed, before it is split."""

    def records_bytes(self, inner_packet_bytes: int) -> tuple[int, ...]:
        """Return the lengths of the records of an inner IP packet that is not compressed [bytes], without the UDP
        header or the length field in TCP."""
        plain = inner_packet_bytes + (ETHERNET_HEADER_BYTES if self.is_tap else 0) + self.framing_bytes
        if self.fragment is None:
            return (self._sealed_bytes(plain),)
        pieces = fragments(plain, self._largest_piece_bytes(self.fragment))
        return tuple(self._sealed_bytes(FRAGMENT_HEADER_BYTES + piece) for piece in pieces)

    @property
    def _opcode_bytes(self) -> int:
        return OPCODE_BYTES + PEER_ID_BYTES * self.has_peer_id if self.is_tls else 0

    @property
    def _packet_id_bytes(self) -> int:
        return PACKET_ID_BYTES if self.is_tls else STATIC_KEY_PACKET_ID_BYTES

    def _sealed_bytes(self, plain_bytes: int) -> int:
        plain_bytes += self._packet_id_bytes
        if is_aead(self.cipher):
            return self._opcode_bytes + AEAD_TAG_BYTES + plain_bytes
        head_bytes = self._opcode_bytes + DIGEST_BYTES[self.auth]
        if self.cipher == "none":
            return head_bytes + plain_bytes
        block = CIPHER_BLOCK_BYTES[self.cipher]
        return head_bytes + block + (plain_bytes // block + 1) * block  # PKCS #7 always adds at least one byte

    def _largest_piece_bytes(self, datagram_bytes: int) -> int:
        """Return the length of the longest plain piece that fits the datagram (mss.c, frame_calculate_fragment)."""
        if is_aead(self.cipher) or self.cipher == "none":
            return datagram_bytes - self._sealed_bytes(0) - FRAGMENT_HEADER_BYTES
        block = CIPHER_BLOCK_BYTES[self.cipher]
        sealed = (datagram_bytes - self._opcode_bytes - DIGEST_BYTES[self.auth] - block) // block * block
        return sealed - 1 - self._packet_id_bytes - FRAGMENT_HEADER_BYTES


def is_aead(cipher: str) -> bool:
    """Return True if a cipher also authenticates, so that it needs no digest."""
    return cipher.endswith(("-GCM", "-POLY1305"))


def fragments(plain_bytes: int, largest_bytes: int) -> tuple[int, ...]:
    """Return the lengths of the pieces that OpenVPN makes of a packet, none above `largest_bytes` [bytes].

    It makes as few pieces as possible, the last about as long as the others; all but the last are a multiple of four
    (fragment.c, optimal_fragment_size).
    """
    if plain_bytes <= largest_bytes:
        return (plain_bytes,)
    most = largest_bytes // FRAGMENT_ROUND_BYTES * FRAGMENT_ROUND_BYTES
    whole, rest = divmod(plain_bytes, most)
    size = most
    if whole and 0 < rest < most * 3 // 4:
        shared = largest_bytes - (largest_bytes - rest) // (whole + 1)
        size = min(most, -(-shared // FRAGMENT_ROUND_BYTES) * FRAGMENT_ROUND_BYTES)
    pieces, last = divmod(plain_bytes, size)
    return (size,) * pieces + ((last,) if last else ())
