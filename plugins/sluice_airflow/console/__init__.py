"""The console: Sluice's web pages inside Airflow, at /sluice/console."""
