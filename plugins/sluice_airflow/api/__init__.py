"""The REST API: tasks, value lists and topics as JSON, for users logged in to Airflow."""
