"""How a Spark job of ``jobs/`` is submitted."""

from __future__ import annotations

from typing import Any

from airflow.providers.apache.spark.operators.spark_submit import SparkSubmitOperator

from sluice.runtime.settings import Settings
from sluice.stack.environment import spark_defaults
from sluice_airflow.connections import environment


class SparkJob(SparkSubmitOperator):
    """Submit ``jobs/<job>.py`` on the instance's connection.

    The job gets the instance's environment, memory and properties. A retry submits it again: what a cluster's
    half-done job wrote is overwritten whole.
    """

    def __init__(self, *, job: str, **kwargs: Any) -> None:
        super().__init__(durable=False, **kwargs)
        self.job = job

    def submit(self, context: Any, settings: Settings, of: str, arguments: list[str]) -> None:
        """Run the job with these arguments; ``of`` is what its name says that it is about."""
        self.application = str(settings.root / "jobs" / f"{self.job}.py")
        self.env_vars, self._driver_memory = environment(), settings.spark.driver_memory
        self.properties_file = str(spark_defaults(settings))
        self.name = f"sluice {self.job} {of}"
        self.application_args = arguments
        super().execute(context)
