"""The REST API: tasks, value lists and topics as JSON, for users who are logged in to Airflow."""
