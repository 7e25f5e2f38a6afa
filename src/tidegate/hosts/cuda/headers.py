"""Standard headers that files of kernels include and NVRTC does not have.

Needs   nothing
Gives   texts by name: types, limits, and nothing for what NVRTC declares itself (`printf`, `assert`, `memcpy`, `sqrtf`)
Keeps   a name means what it means on the device with nvcc; everything else of these headers is missing
Cost    none
"""

from __future__ import annotations

_INTEGERS = """#pragma once
typedef signed char int8_t; typedef unsigned char uint8_t; typedef short int16_t; typedef unsigned short uint16_t;
typedef int int32_t; typedef unsigned int uint32_t; typedef long long int64_t; typedef unsigned long long uint64_t;
typedef long long intmax_t; typedef unsigned long long uintmax_t;
#ifdef _WIN64
typedef long long intptr_t; typedef unsigned long long uintptr_t;
#else
typedef long intptr_t; typedef unsigned long uintptr_t;
#endif
#ifndef UINT32_MAX
#define INT8_MAX 127
#define INT16_MAX 32767
#define INT32_MAX 2147483647
#define INT64_MAX 9223372036854775807LL
#define INT8_MIN (-128)
#define INT16_MIN (-32768)
#define INT32_MIN (-2147483647 - 1)
#define INT64_MIN (-9223372036854775807LL - 1)
#define UINT8_MAX 255
#define UINT16_MAX 65535
#define UINT32_MAX 4294967295U
#define UINT64_MAX 18446744073709551615ULL
#endif
"""
_INTEGER_NAMES = ("int8_t", "int16_t", "int32_t", "int64_t", "uint8_t", "uint16_t", "uint32_t", "uint64_t", "uintptr_t")
_IN_STD = "namespace std { " + " ".join(f"using ::{each};" for each in _INTEGER_NAMES) + " }\n"

_LIMITS = """#pragma once
#ifndef INT_MAX
#define CHAR_BIT 8
#define SHRT_MAX 32767
#define SHRT_MIN (-32768)
#define INT_MAX 2147483647
#define INT_MIN (-2147483647 - 1)
#define UINT_MAX 4294967295U
#define LLONG_MAX 9223372036854775807LL
#define ULLONG_MAX 18446744073709551615ULL
#endif
"""
_FLOATS = """#pragma once
#ifndef FLT_MAX
#define FLT_MAX 3.402823466e+38F
#define FLT_MIN 1.175494351e-38F
#define FLT_EPSILON 1.192092896e-07F
#define DBL_MAX 1.7976931348623158e+308
#define DBL_MIN 2.2250738585072014e-308
#define DBL_EPSILON 2.2204460492503131e-16
#endif
"""
_NOTHING = "#pragma once\n"
_EMPTY = "stdio.h cstdio math.h cmath assert.h cassert stdlib.h cstdlib string.h cstring stddef.h cstddef".split()

STANDARD: dict[str, str] = {
    "stdint.h": _INTEGERS,
    "cstdint": '#pragma once\n#include "stdint.h"\n' + _IN_STD,
    "limits.h": _LIMITS,
    "climits": _LIMITS,
    "float.h": _FLOATS,
    "cfloat": _FLOATS,
    **dict.fromkeys(_EMPTY, _NOTHING),
}
