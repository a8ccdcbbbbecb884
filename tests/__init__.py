"""Tests of sfumato; arithmetic is that of one kernel of OpenBLAS, whatever the processor has.

Kernels add in different orders, so the last digits of a searched matrix depend on the processor (those with AVX-512
differ from those with AVX2), and with them the integers that golden hashes hold. Set before numpy is first imported.
"""

import os
import platform

if platform.machine() in ("x86_64", "AMD64"):
    os.environ.setdefault("OPENBLAS_CORETYPE", "Haswell")
