"""What Airflow runs for Sluice: operators, their triggers and the way from connections to jobs."""
