"""ASCII folding: letters, digits and signs that are written as ASCII instead, as Lance does it.

The table is what Lance 14 does to each character, found by indexing all of them.
"""

from __future__ import annotations

import unicodedata
from functools import cache

from lancefs.index.text.characters import code_points

# Characters, as hexadecimal numbers and ranges, whose compatible decomposition without its marks is
# what they are folded to.
_DECOMPOSED = """
a0 a8 aa af b2-b4 b8-ba c0-c5 c7-cf d1-d6 d9-dd e0-e5 e7-ef f1-f6 f9-fd ff-10f 112-125 128-130
132-137 139-13e 143-148 14c-151 154-165 168-17f 1a0-1a1 1af-1b0 1c4-1dc 1de-1e1 1e6-1ed 1f0-1f5
1f8-1fb 200-21b 21e-21f 226-233 2b0 2b2-2b3 2b7-2b8 2d8-2dd 2e1-2e3 37a 37e 384-385 1d2c 1d2e
1d30-1d31 1d33-1d3a 1d3c 1d3e-1d43 1d47-1d49 1d4d 1d4f-1d50 1d52 1d56-1d58 1d5b 1d62-1d65 1d9c
1da0 1dbb 1e00-1e99 1e9b 1ea0-1ef9 1fbd 1fbf-1fc1 1fcd-1fcf 1fdd-1fdf 1fed-1fef 1ffd-1ffe
2000-200a 2017 2024-2026 202f 203c 203e 2047-2049 205f 2070-2071 2074-207a 207c-208a 208c-208e
2090-2093 2095-209c 20a8 2100-2102 2105-2106 210a-210e 2110-2113 2115-2116 2119-211d 2120-2122
2124 2128 212a-212d 212f-2131 2133-2134 2139 213b 2145-2149 2160-217f 2260 226e-226f 2460-24ea
2a74-2a76 2c7c-2c7d 3000 309b-309c 3250-325f 32b1-32bf 32cc-32cf 3371-337a 3380-3381 3383-338b
338e-3394 3396-339a 339c-33a6 33a9-33ad 33b0-33b1 33b3-33b5 33b7-33bb 33bd-33bf 33c2-33c5
33c7-33dd 33ff a7f2-a7f4 fb00-fb06 fb29 fc5e-fc63 fe10 fe13-fe16 fe19 fe30 fe33-fe38 fe47-fe50
fe52 fe54-fe57 fe59-fe5c fe5f-fe66 fe68-fe6b fe70 fe72 fe74 fe76 fe78 fe7a fe7c fe7e ff01-ff5e
ffe3 107a5 1d400-1d454 1d456-1d49c 1d49e-1d49f 1d4a2 1d4a5-1d4a6 1d4a9-1d4ac 1d4ae-1d4b9 1d4bb
1d4bd-1d4c3 1d4c5-1d505 1d507-1d50a 1d50d-1d514 1d516-1d51c 1d51e-1d539 1d53b-1d53e 1d540-1d544
1d546 1d54a-1d550 1d552-1d6a3 1d7ce-1d7ff 1f100-1f10a 1f110-1f129 1f12b-1f12e 1f130-1f14f
1f16a-1f16c 1f190 1fbf0-1fbf9
"""

# The other ones, behind what they are folded to.
_OTHERS = """
14 bc 3366 33ed
12 bd 32cb 3364 33eb
34 be
AE c6 1e2 1fc 1d2d
D d0 110 1ccd9
O d8 1fe 1cce4
TH de
ss df
ae e6 1e3 1fd 10783
d f0 111 1d9e
o f8 1ff 107a2
th fe
H 126 a7f8 1ccdd
h 127 210f 10795
i 131 1d6a4
k 138 33c0
L 13f 141 1cce1
l 140 142 3395
n 149 14b 1d51
N 14a 1cce3
OE 152
oe 153 a7f9
T 166 1cce9
t 167
a 1e9a
SS 1e9e
C 2103 1ccd8
F 2109 338c 1ccdb
17 2150 3369 33f0
19 2151 336b 33f2
110 2152
13 2153 3365 33ec
23 2154 336f 33f6
15 2155 3367 33ee
25 2156 33f8
35 2157
45 2158
16 2159 3368 33ef
56 215a
18 215b 336a 33f1
38 215c
58 215d
78 215e
1 215f 32c0 3359 33e0 1ccf1
03 2189
() 3200-321e 3220-3243
2 32c1 335a 33e1 1ccf2
3 32c2 335b 33e2 1ccf3
4 32c3 335c 33e3 1ccf4
5 32c4 335d 33e4 1ccf5
6 32c5 335e 33e5 1ccf6
7 32c6 335f 33e6 1ccf7
8 32c7 3360 33e7 1ccf8
9 32c8 3361 33e8 1ccf9
10 32c9 3362 33e9
11 32ca 3363 33ea
0 3358 1ccf0
20 336c 33f3
21 336d 33f4
22 336e 33f5
24 3370 33f7
A 3382 1ccd6
g 338d
m 339b
ms 33a7
ms2 33a8
rads 33ae
rads2 33af
s 33b2
V 33b6 1cceb
W 33bc 1ccec
M 33c1 1cce2
Ckg 33c6
Vm 33de
Am 33df
26 33f9
27 33fa
28 33fb
29 33fc
30 33fd
31 33fe
S a7f1 1cce8 1f12a
B 1ccd7
E 1ccda
G 1ccdc
I 1ccde
J 1ccdf
K 1cce0
P 1cce5
Q 1cce6
R 1cce7
U 1ccea
X 1cced
Y 1ccee
Z 1ccef
"""
# These have blanks.
_BLANKS = {0xFDFA: "   ", 0xFDFB: " "}


def fold(text: str) -> str:
    """Return a text with characters that are close to ASCII ones replaced by these."""
    return text if text.isascii() else text.translate(_table())


@cache
def _table() -> dict[int, str]:
    """What characters are folded to, by their code points."""
    found = {number: _without_marks(chr(number)) for number in code_points(_DECOMPOSED)} | _BLANKS
    for line in _OTHERS.strip().splitlines():
        folded, numbers = line.split(maxsplit=1)
        found.update(dict.fromkeys(code_points(numbers), folded))
    return found


def _without_marks(character: str) -> str:
    parts = unicodedata.normalize("NFKD", character)
    return "".join(part for part in parts if not unicodedata.combining(part))
