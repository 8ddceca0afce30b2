CREATE DATABASE IF NOT EXISTS {database} LOCATION '{warehouse}/{database}.db'
