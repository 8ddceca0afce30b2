"""Airflow, as the platform configures it, logs in to it and calls it."""
