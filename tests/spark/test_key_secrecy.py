"""What is sent to Spark's Java process with the key: nothing logs it, and nothing may be put on a disk.

That the key shows nowhere on a cluster is seen in test_standalone.py.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from sfumato.engines.spark import tasks
from sfumato.errors import UsageError
from sfumato.values.randomness import SecretKey
from tests.spark.secrecy import forms, found

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

KEY = SecretKey(np.random.default_rng(1).bytes(32))


def unchanged(batches: Any, key: SecretKey) -> Any:
    """Do nothing with the key."""
    return batches


@pytest.mark.parametrize("logger", ["", "py4j", "py4j.clientserver"])
def test_calls_to_java_are_not_logged_with_the_key(
    logger: str, spark: SparkSession, caplog: pytest.LogCaptureFixture
) -> None:
    """At whatever logger DEBUG is switched on. Other calls are: the same one in plain Spark shows the key."""
    with caplog.at_level(logging.DEBUG, logger):
        tasks.mapped(spark.range(3), unchanged, "id long", KEY)
        assert found(caplog.text.encode(), forms(KEY.secret)) == []
        spark.range(3).mapInArrow(tasks._Sent(unchanged, KEY, ["id"]), "id long")  # type: ignore[arg-type]
        assert found(caplog.text.encode(), forms(KEY.secret)) == ["base64"]


def test_what_spark_would_write_to_a_file_is_refused(spark: SparkSession) -> None:
    from pyspark.sql.types import LongType, StructField, StructType

    schema = StructType([StructField(f"column {k}", LongType()) for k in range(40_000)])
    with pytest.raises(UsageError, match="the secret key to disks"):
        tasks.mapped(spark.range(3), unchanged, schema, KEY)
