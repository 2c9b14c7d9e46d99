"""CRC-32 of joined data from the CRC-32s of its pieces, so that a gzip trailer costs nothing a byte.

CRC-32 treats data as a polynomial over GF(2) modulo P, in reflected bit order: bit 31 is x^0. Appending n bytes
multiplies what came before by x^(8n), so crc(a + b) = crc(a) * x^(8 len(b)) + crc(b) with multiplication modulo P.
"""

from __future__ import annotations

_POLYNOMIAL = 0xEDB88320
_ONE = 1 << 31
_X = 1 << 30


def _multiply(a: int, b: int) -> int:
    """Product of two polynomials modulo P."""
    product = 0
    while a:
        if a & _ONE:
            product ^= b
        a = (a << 1) & 0xFFFFFFFF
        b = (b >> 1) ^ _POLYNOMIAL if b & 1 else b >> 1
    return product


def _squares() -> tuple[int, ...]:
    """x^(8 * 2^k) for k = 0, 1, 2, ...; enough for any length that a page can have."""
    square = _X
    for _ in range(3):
        square = _multiply(square, square)
    squares = [square]
    for _ in range(63):
        square = _multiply(square, square)
        squares.append(square)
    return tuple(squares)


_SQUARES = _squares()


def shift(length: int) -> int:
    """The operator that moves a CRC past `length` more bytes: x^(8 length) modulo P. Takes some 50 microseconds."""
    operator = _ONE
    for bit, square in enumerate(_SQUARES):
        if length >> bit & 1:
            operator = _multiply(operator, square)
    return operator


def crc_combine(first: int, second: int, second_shift: int) -> int:
    """CRC-32 of two byte strings joined, from their own CRC-32s and the shift of the second's length."""
    return _multiply(second_shift, first) ^ second
