"""One session on local[2] for all tests in pytest's process, and one cluster for all that need it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.spark.cluster import Cluster, cluster
from tests.spark.sessions import session

