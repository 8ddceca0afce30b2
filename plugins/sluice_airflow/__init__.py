"""What Airflow runs for Sluice: operators, their triggers, and jobs' access to connections."""

from importlib.util import find_spec

#: Whether the package of several hosts is installed. Without it Airflow has neither its DAG nor its routes.
SEVERAL_HOSTS = find_spec("sluice_hosts") is not None
