"""XXH64, a hash of bytes, with the seed 0.

Written for a handful of short values; the specification is that of https://github.com/Cyan4973/xxHash
(`doc/xxhash_spec.md`).
"""

from __future__ import annotations

import struct

_MASK = (1 << 64) - 1
_P1, _P2, _P3, _P4, _P5 = (
    0x9E3779B185EBCA87,
    0xC2B2AE3D27D4EB4F,
    0x165667B19E3779F9,
    0x85EBCA77C2B2AE63,
    0x27D4EB2F165667C5,
)
_STRIPE = struct.Struct("<4Q")


def xxh64(data: bytes) -> int:
    """Return the hash of some bytes."""
    stripes = len(data) // _STRIPE.size
    if stripes:
        lanes = [(_P1 + _P2) & _MASK, _P2, 0, -_P1 & _MASK]
        for words in _STRIPE.iter_unpack(data[: stripes * _STRIPE.size]):
            lanes = [_round(lane, word) for lane, word in zip(lanes, words, strict=True)]
        number = sum(map(_rotated, lanes, (1, 7, 12, 18))) & _MASK
        for lane in lanes:
            number = ((number ^ _round(0, lane)) * _P1 + _P4) & _MASK
    else:
        number = _P5
    return _avalanche(_rest((number + len(data)) & _MASK, data[stripes * _STRIPE.size :]))


def _rest(number: int, data: bytes) -> int:
    """Take in the bytes behind the last whole stripe."""
    at = 0
    while at + 8 <= len(data):
        word = int.from_bytes(data[at : at + 8], "little")
        number = (_rotated(number ^ _round(0, word), 27) * _P1 + _P4) & _MASK
        at += 8
    if at + 4 <= len(data):
        word = int.from_bytes(data[at : at + 4], "little")
        number = (_rotated(number ^ (word * _P1 & _MASK), 23) * _P2 + _P3) & _MASK
        at += 4
    for byte in data[at:]:
        number = _rotated(number ^ (byte * _P5 & _MASK), 11) * _P1 & _MASK
    return number


def _avalanche(number: int) -> int:
    number = (number ^ number >> 33) * _P2 & _MASK
    number = (number ^ number >> 29) * _P3 & _MASK
    return number ^ number >> 32


def _round(lane: int, word: int) -> int:
    return _rotated((lane + word * _P2) & _MASK, 31) * _P1 & _MASK


def _rotated(number: int, bits: int) -> int:
    return (number << bits | number >> (64 - bits)) & _MASK
