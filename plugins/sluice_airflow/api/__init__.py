"""The REST API: tasks, value lists and topics as JSON, for whoever is logged in to Airflow."""
