"""What Airflow runs for Sluice: operators, their triggers, and jobs' access to connections."""
