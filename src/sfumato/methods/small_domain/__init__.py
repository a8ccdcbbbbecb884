"""Small domain randomization (SDR): split the table so that each part has a small domain and keeps more.

`partition` works on counts alone: `groups` (balancing, rearranging), `merging` (dynamic program), `search`.
"""
