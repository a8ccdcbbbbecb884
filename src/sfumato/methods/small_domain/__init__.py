"""Small domain randomization (SDR): split the table so that each part has a small domain and keeps more.

`partition` works on counts alone: `groups` (balancing, rearranging), `merging` (dynamic program), `search`.
"""

from __future__ import annotations

from sfumato.methods.small_domain.partition import MINIMUM_SIZE, Block, Partition, partition

__all__ = ["MINIMUM_SIZE", "Block", "Partition", "partition"]
