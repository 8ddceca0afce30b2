"""What stands in front of everything that Airflow's API server serves: limits, log-in, origin, cookie."""
