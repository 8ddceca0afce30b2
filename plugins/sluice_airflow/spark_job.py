"""How a Spark job of ``jobs/`` is submitted."""

from __future__ import annotations

import os
from typing import Any

from airflow.providers.apache.spark.operators.spark_submit import SparkSubmitOperator

from sluice.runtime import given_secrets, inherited
from sluice.runtime.settings import Settings
from sluice.stack.environment import spark_defaults
from sluice_airflow.connections import environment


class SparkJob(SparkSubmitOperator):
    """Submit ``jobs/<job>.py`` on the instance's connection.

    The job gets the instance's environment, memory and properties, but nothing that is Airflow's, and secrets
    in a file alone: on a cluster the provider writes variables onto the command line. A retry submits it
    again: what a cluster's half-done job wrote is overwritten whole.
    """

    def __init__(self, *, job: str, **kwargs: Any) -> None:
        super().__init__(durable=False, **kwargs)
        self.job = job

    def submit(self, context: Any, settings: Settings, of: str, arguments: list[str]) -> None:
        """Run the job with these arguments; ``of`` is what its name says that it is about."""
        self.application = str(settings.root / "jobs" / f"{self.job}.py")
        self._driver_memory = settings.spark.driver_memory
        self.properties_file = str(spark_defaults(settings))
        self.name = f"sluice {self.job} {of}"
        self.application_args = arguments
        connected = environment()
        secrets = settings.home / "run" / f"{self.job}.{os.getpid()}.given"
        try:
            variables = inherited.separated(connected, secrets)
            self.env_vars = {
                name: value
                for name, value in variables.items()
                if name in connected or name == given_secrets.NAMED
            }
            self._hook = self._get_hook()  # now, because it looks for connections in Airflow's variables
            with inherited.alone(variables):
                super().execute(context)
        finally:
            secrets.unlink(missing_ok=True)
