"""Who a host is, and what it may do.

login, enrolment: how it is reached, and that it is the machine it was · certificates: what its agents show ·
broker, rights: its user in Kafka · database: its way to PostgreSQL · exposure: what all that opens.
"""
