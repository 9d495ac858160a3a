"""What users call, made of the rows: functions, methods, operators, storages."""
